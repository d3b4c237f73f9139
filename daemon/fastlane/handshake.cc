#include "daemon/fastlane/handshake.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "daemon/transport/status_number.h"
#include "daemon/transport/wire_text.h"

namespace moetier {
namespace {

Error Invalid(Reason reason, std::string message) {
  return {ErrorCode::kInvalidArgument, reason, std::move(message)};
}

moetier_wire_activation ActivationNumber(kernels::Activation activation) {
  switch (activation) {
    case kernels::Activation::kSwiGlu:
      return MOETIER_WIRE_SWIGLU;
    case kernels::Activation::kGeGlu:
      return MOETIER_WIRE_GEGLU;
    case kernels::Activation::kSwiGluClamped:
      return MOETIER_WIRE_SWIGLU_CLAMPED;
  }
  return MOETIER_WIRE_ACTIVATION_UNKNOWN;
}

// Up to the first zero; a field without one is taken whole.
std::string TextOf(std::span<const char> field) {
  return std::string(field.begin(), std::ranges::find(field, '\0'));
}

Status CheckHead(const moetier_wire_head& head, size_t length) {
  if (head.magic != MOETIER_WIRE_MAGIC || head.kind != MOETIER_WIRE_HELLO) {
    return Invalid(Reason::kBadType, "HELLO: the first message is none");
  }
  if (head.major != MOETIER_WIRE_MAJOR) {
    return Invalid(Reason::kBadType,
                   fmt::format("HELLO: version {}.{}; this daemon speaks {}.{}: update the older "
                               "of daemon and client",
                               head.major, head.minor, MOETIER_WIRE_MAJOR, MOETIER_WIRE_MINOR));
  }
  if (head.size != length || length < sizeof(moetier_wire_hello)) {
    return Invalid(Reason::kBadShape,
                   fmt::format("HELLO: {} bytes that say they are {}; version {} has at least {}",
                               length, head.size, MOETIER_WIRE_MAJOR, sizeof(moetier_wire_hello)));
  }
  return Ok{};
}

}  // namespace

Result<Hello> ParseHello(std::span<const std::byte> message) {
  moetier_wire_hello wire{};
  std::memcpy(&wire, message.data(), std::min(message.size(), sizeof wire));
  if (message.size() < sizeof wire.head) {
    return Invalid(Reason::kBadShape, fmt::format("HELLO: {} bytes are none", message.size()));
  }
  RETURN_IF_ERROR(CheckHead(wire.head, message.size()));
  if (wire.file_count > MOETIER_WIRE_MAX_FILES) {
    return Invalid(Reason::kTooLarge, fmt::format("HELLO: file_count = {}: at most {}",
                                                  wire.file_count, MOETIER_WIRE_MAX_FILES));
  }
  return Hello{.fingerprint = wire.fingerprint,
               .max_rows = wire.max_rows,
               .max_in_flight = wire.max_in_flight,
               .file_count = wire.file_count,
               .client = TextOf(wire.client),
               .model = TextOf(wire.model)};
}

moetier_wire_head MakeHead(moetier_wire_kind kind, size_t size) {
  return {.magic = MOETIER_WIRE_MAGIC,
          .size = static_cast<uint32_t>(size),
          .major = MOETIER_WIRE_MAJOR,
          .minor = MOETIER_WIRE_MINOR,
          .kind = kind};
}

moetier_wire_activation WireActivation(const ModelGeometry& geometry) {
  if (geometry.layers.empty()) return MOETIER_WIRE_ACTIVATION_UNKNOWN;
  const kernels::Activation first = geometry.layers.front().shape.activation;
  const bool all = std::ranges::all_of(geometry.layers, [first](const LayerGeometry& layer) {
    return layer.shape.activation == first;
  });
  return all ? ActivationNumber(first) : MOETIER_WIRE_ACTIVATION_UNKNOWN;
}

void PutText(std::span<char> field, const std::string& text) {
  const std::string fitting = WireText(text, field.size() - 1);
  std::ranges::fill(field, '\0');
  std::ranges::copy(fitting, field.begin());
}

moetier_wire_refuse MakeRefuse(const Error& error) {
  moetier_wire_refuse refuse{};
  refuse.head = MakeHead(MOETIER_WIRE_REFUSE, sizeof refuse);
  refuse.code = StatusNumber(error.code);
  refuse.reason = static_cast<uint32_t>(error.reason);
  PutText(refuse.text, error.message);
  return refuse;
}

}  // namespace moetier
