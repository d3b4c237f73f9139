#include "adapters/llama_cpp/lane_session.h"

#include <fmt/core.h>

#include <cstdlib>
#include <cstring>

#include "adapters/llama_cpp/message.h"

namespace moetier::ggml {
namespace {

// Loading a model takes as long as the disk does; a daemon that dies meanwhile is noticed.
constexpr uint64_t kNoTimeout = 0;

struct Extent {
  uintptr_t start;
  uintptr_t end;
};
Extent ExtentOf(const Tensor& tensor) {
  const auto start = reinterpret_cast<uintptr_t>(tensor.data);
  size_t bytes = sizeof(float);  // f32 and i32 alike
  for (int i = 0; i < 4; ++i) bytes += static_cast<size_t>(tensor.ne[i] - 1) * tensor.nb[i];
  return {start, start + bytes};
}
bool Overlap(const Tensor& a, const Tensor& b) {
  const Extent first = ExtentOf(a);
  const Extent second = ExtentOf(b);
  return first.start < second.end && second.start < first.end;
}

// ggml may place a layer's output over its inputs, which are dead by its own order of things. A
// call in several pieces would read inputs after output was written.
bool WritesOverInputs(const LayerMatch& layer) {
  return Overlap(*layer.output, *layer.input) || Overlap(*layer.output, *layer.experts) ||
         Overlap(*layer.output, *layer.weights);
}

moetier_layer_call CallOf(const LayerMatch& layer) {
  moetier_layer_call call{};
  call.size = sizeof call;
  call.layer = layer.layer;
  call.rows = static_cast<uint32_t>(layer.experts->ne[1]);
  call.top_k = layer.top_k;
  call.hidden = static_cast<uint32_t>(layer.input->ne[0]);
  call.hidden_type = MOETIER_F32;
  call.hidden_rows = layer.input->data;
  call.hidden_stride = layer.input->nb[2];
  call.experts = static_cast<const int32_t*>(layer.experts->data);
  call.experts_stride = layer.experts->nb[1];
  call.weights = static_cast<const float*>(layer.weights->data);
  call.weights_stride = layer.weights->nb[2];
  call.output = static_cast<float*>(layer.output->data);
  call.output_stride = layer.output->nb[1];
  return call;
}

moetier_activation ActivationOf(const LayerMatch& layer) {
  switch (layer.activation) {
    case kernels::Activation::kSwiGlu:
      return MOETIER_SWIGLU;
    case kernels::Activation::kGeGlu:
      return MOETIER_GEGLU;
    case kernels::Activation::kSwiGluClamped:
      return MOETIER_SWIGLU_CLAMPED;
  }
  return MOETIER_ACTIVATION_UNKNOWN;
}

// As `moetierctl import --activation` takes it.
const char* ActivationName(uint32_t activation) {
  switch (activation) {
    case MOETIER_SWIGLU:
      return "swiglu";
    case MOETIER_GEGLU:
      return "geglu";
    case MOETIER_SWIGLU_CLAMPED:
      return "swiglu_clamped";
    default:
      return "an activation that the plug-in does not know";
  }
}

ErrorCode CodeOf(moetier_status status) {
  switch (status) {
    case MOETIER_UNREACHABLE:
    case MOETIER_GONE:
      return ErrorCode::kUnavailable;
    case MOETIER_REFUSED:
    case MOETIER_FAULT:
      return ErrorCode::kFailedPrecondition;
    case MOETIER_OK:
    case MOETIER_MISUSE:
      break;
  }
  return ErrorCode::kInternal;
}

}  // namespace

Status CheckActivation(const moetier_grant& grant, const LayerMatch& layer) {
  const moetier_activation wanted = ActivationOf(layer);
  if (grant.activation == MOETIER_ACTIVATION_UNKNOWN || grant.activation == wanted) return Ok{};
  const char* const name = ActivationName(wanted);
  return Error{ErrorCode::kFailedPrecondition, Reason::kUnspecified,
               fmt::format("layer {} of the engine's graph has the activation {}, moetierd at {} "
                           "serves model {} with {}: unload it there and import it again, with "
                           "--activation {} if its architecture is unknown",
                           layer.layer, name, grant.socket, grant.model,
                           ActivationName(grant.activation), name)};
}

Status LaneSession::Attach() {
  const std::vector<int> descriptors = files_.Descriptors();
  moetier_attach attach{};
  attach.size = sizeof attach;
  attach.client = client_.c_str();
  const char* const model = std::getenv("MOETIER_MODEL");
  const bool named = model != nullptr && *model != '\0';
  if (named) {
    attach.model = model;
  } else {
    attach.files = descriptors.data();
    attach.file_count = static_cast<uint32_t>(descriptors.size());
  }
  moetier_lane* lane = nullptr;
  moetier_error error{};
  const moetier_status status = moetier_lane_attach(&attach, kNoTimeout, &lane, &error);
  if (status != MOETIER_OK) {
    return Error{CodeOf(status), Reason::kUnspecified,
                 fmt::format("cannot use moetierd for {}: {}", files_.path(0), error.text)};
  }
  lane_.reset(lane);
  const moetier_grant& grant = *moetier_lane_grant(lane);
  socket_ = grant.socket;
  Say(fmt::format(
      "experts are computed by moetierd {} at {}: model {}, fingerprint {:016x}, session {}",
      grant.daemon_version, grant.socket, grant.model, grant.fingerprint, grant.session));
  return Ok{};
}

Error LaneSession::Explain(const LayerMatch& layer, moetier_status status,
                           const moetier_error& error) {
  if (status != MOETIER_GONE) {
    return {CodeOf(status), Reason::kUnspecified,
            fmt::format("moetierd at {} did not compute layer {}: {}", socket_, layer.layer,
                        error.text)};
  }
  lane_.reset();
  return {CodeOf(status), Reason::kUnspecified,
          fmt::format("moetierd at {} is gone: {}. This computation failed; once moetierd runs "
                      "again, the next one uses it",
                      socket_, error.text)};
}

Status LaneSession::Compute(const LayerMatch& layer) {
  if (layer.experts->ne[1] == 0) return Ok{};
  if (lane_ == nullptr) RETURN_IF_ERROR(Attach());
  RETURN_IF_ERROR(CheckActivation(*moetier_lane_grant(lane_.get()), layer));
  moetier_layer_call call = CallOf(layer);
  const bool aside =
      call.rows > moetier_lane_grant(lane_.get())->max_rows && WritesOverInputs(layer);
  if (aside) {
    scratch_.resize(size_t{call.rows} * call.hidden);
    call.output = scratch_.data();
    call.output_stride = 0;
  }
  moetier_error error{};
  const moetier_status status = moetier_lane_compute(lane_.get(), &call, nullptr, &error);
  if (status != MOETIER_OK) return Explain(layer, status, error);
  for (uint32_t row = 0; aside && row < call.rows; ++row) {
    std::memcpy(static_cast<std::byte*>(layer.output->data) + row * layer.output->nb[1],
                scratch_.data() + size_t{row} * call.hidden, size_t{call.hidden} * sizeof(float));
  }
  return Ok{};
}

}  // namespace moetier::ggml
