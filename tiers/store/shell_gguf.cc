#include "tiers/store/shell_gguf.h"

#include <array>
#include <charconv>

#include "kernels/weight_type.h"
#include "tiers/store/expert_names.h"
#include "tiers/store/gguf_cursor.h"

namespace moetier {
namespace {

constexpr size_t kFingerprintDigits = 16;

// Ascending in bytes a weight. The ggml.h of llama.cpp b8390 (ggml 0.9.7) ends at type 40, so Q1_0
// (41), which is smaller still, would not load there; v0.4.0 and v0.5.0 know these two as well.
constexpr std::array<uint32_t, 2> kHoleTypes = {
    19,  // IQ1_S: 256 weights in 50 bytes
    39,  // MXFP4: 32 weights in 17 bytes
};

Error BadShell(const GgufModel& gguf, std::string_view what) {
  return Error{ErrorCode::kDataLoss, Reason::kBadGguf,
               fmt::format("{}: {}; make the shell again with moetierctl shell",
                           gguf.shard_paths().front(), what)};
}

// Below one byte a weight, and the reader has bounded the weights by 2^63: nothing overflows.
uint64_t BytesAs(const GgufTensor& tensor, const kernels::WeightTypeInfo& type) {
  uint64_t bytes = tensor.shape[0] / type.block_weights * type.block_bytes;
  for (uint32_t i = 1; i < tensor.dimensions; ++i) bytes *= tensor.shape[i];
  return bytes;
}

}  // namespace

Result<std::optional<uint64_t>> ShellFingerprint(const GgufModel& gguf) {
  if (gguf.Find(kShellVersionKey) == nullptr) return std::optional<uint64_t>();
  const std::optional<uint64_t> version = gguf.FindUnsigned(kShellVersionKey);
  if (version != kShellVersion) {
    return Error{ErrorCode::kFailedPrecondition, Reason::kUnsupportedModel,
                 fmt::format("{}: {} is {}, {} is read here; make the shell again with this "
                             "version's moetierctl shell",
                             gguf.shard_paths().front(), kShellVersionKey,
                             version ? std::to_string(*version) : "no number", kShellVersion)};
  }
  const std::string* text = gguf.FindString(kShellFingerprintKey);
  if (text == nullptr) return BadShell(gguf, fmt::format("{} is missing", kShellFingerprintKey));
  uint64_t fingerprint = 0;
  const auto [end, error] =
      std::from_chars(text->data(), text->data() + text->size(), fingerprint, 16);
  if (text->size() != kFingerprintDigits || error != std::errc() ||
      end != text->data() + text->size()) {
    return BadShell(gguf, fmt::format("{} is `{}`, not {} hexadecimal digits", kShellFingerprintKey,
                                      Printable(*text), kFingerprintDigits));
  }
  return std::optional(fingerprint);
}

bool IsShellHole(std::string_view tensor_name) {
  return ClassifyTensor(tensor_name).role < TensorRole::kGateBias;
}

GgufTensor AsShellHole(const GgufTensor& tensor) {
  GgufTensor hole = tensor;
  for (const uint32_t type : kHoleTypes) {
    const kernels::WeightTypeInfo& info = *kernels::FindWeightType(type);
    if (tensor.shape[0] % info.block_weights != 0) continue;
    const uint64_t bytes = BytesAs(tensor, info);
    if (bytes >= tensor.bytes) continue;
    hole.ggml_type = type;
    hole.bytes = bytes;
    break;
  }
  return hole;
}

}  // namespace moetier
