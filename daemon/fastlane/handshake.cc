#include "daemon/fastlane/handshake.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>
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

// Of a message whose kind is `name`, with `least` bytes in this version.
Status CheckHead(const moetier_wire_head& head, size_t length, std::string_view name,
                 size_t least) {
  if (head.major != MOETIER_WIRE_MAJOR) {
    return Invalid(
        Reason::kBadType,
        fmt::format("{}: version {}.{}; this daemon speaks {}.{}: update the older "
                    "of daemon and client",
                    name, head.major, head.minor, MOETIER_WIRE_MAJOR, MOETIER_WIRE_MINOR));
  }
  if (head.size != length || length < least) {
    return Invalid(Reason::kBadShape,
                   fmt::format("{}: {} bytes that say they are {}; version {} has at least {}",
                               name, length, head.size, MOETIER_WIRE_MAJOR, least));
  }
  return Ok{};
}

Result<FirstMessage> ParseHello(std::span<const std::byte> message) {
  moetier_wire_hello wire{};
  std::memcpy(&wire, message.data(), std::min(message.size(), sizeof wire));
  RETURN_IF_ERROR(CheckHead(wire.head, message.size(), "HELLO", sizeof wire));
  if (wire.file_count > MOETIER_WIRE_MAX_FILES) {
    return Invalid(Reason::kTooLarge, fmt::format("HELLO: file_count = {}: at most {}",
                                                  wire.file_count, MOETIER_WIRE_MAX_FILES));
  }
  return FirstMessage(Hello{.fingerprint = wire.fingerprint,
                            .max_rows = wire.max_rows,
                            .max_in_flight = wire.max_in_flight,
                            .file_count = wire.file_count,
                            .client = TextOf(wire.client),
                            .model = TextOf(wire.model)});
}

Result<FirstMessage> ParseMap(std::span<const std::byte> message) {
  moetier_wire_map wire{};
  std::memcpy(&wire, message.data(), std::min(message.size(), sizeof wire));
  RETURN_IF_ERROR(CheckHead(wire.head, message.size(), "MAP", sizeof wire));
  return FirstMessage(MapRequest{.session = wire.session,
                                 .token = std::string(std::begin(wire.token), std::end(wire.token)),
                                 .pool = wire.pool});
}

Result<FirstMessage> ParseMapSlot(std::span<const std::byte> message) {
  moetier_wire_map_slot wire{};
  std::memcpy(&wire, message.data(), std::min(message.size(), sizeof wire));
  RETURN_IF_ERROR(CheckHead(wire.head, message.size(), "MAP_SLOT", sizeof wire));
  return FirstMessage(
      MapSlotRequest{.session = wire.session,
                     .token = std::string(std::begin(wire.token), std::end(wire.token)),
                     .lease = wire.lease});
}

}  // namespace

Result<FirstMessage> ParseFirstMessage(std::span<const std::byte> message) {
  moetier_wire_head head{};
  if (message.size() < sizeof head) {
    return Invalid(
        Reason::kBadShape,
        fmt::format("the first message has {} bytes, too few for its head", message.size()));
  }
  std::memcpy(&head, message.data(), sizeof head);
  if (head.magic == MOETIER_WIRE_MAGIC) {
    switch (head.kind) {
      case MOETIER_WIRE_HELLO:
        return ParseHello(message);
      case MOETIER_WIRE_MAP:
        return ParseMap(message);
      case MOETIER_WIRE_MAP_SLOT:
        return ParseMapSlot(message);
      default:
        break;
    }
  }
  return Invalid(Reason::kBadType, "the first message is neither HELLO nor MAP nor MAP_SLOT");
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
