#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.h"
#include "tiers/store/gguf_header.h"
#include "tiers/store/moe_model.h"

// The header of a GGUF file and the experts found in it. The first byte says how much longer than
// the bytes given the file is (2^n bytes, from 64 on nothing), so that small inputs can describe
// large tensors; the rest is the file's start.

namespace moetier {
namespace {

void CheckInFile(uint64_t offset, uint64_t bytes, uint64_t file_bytes) {
  MOE_CHECK(offset <= file_bytes && bytes <= file_bytes - offset, "{} bytes at {} of {}", bytes,
            offset, file_bytes);
}

void CheckModel(const MoeModel& model, uint64_t file_bytes) {
  MOE_CHECK(model.layers.size() == model.geometry.layers.size(), "layers differ");
  MOE_CHECK(model.geometry.top_k >= 1 && model.geometry.top_k <= kMaxTopK, "top_k");
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const LayerGeometry& layer = model.geometry.layers[i];
    const auto source_bytes = kernels::SourceBytes(layer.shape);
    for (size_t role = 0; role < kernels::kPartRoles; ++role) {
      const auto& part = model.layers[i].parts[role];
      MOE_CHECK((part ? part->bytes : 0) == source_bytes[role], "part {} of layer {}", role, i);
      if (!part) continue;
      CheckInFile(part->offset, (layer.experts - 1) * part->stride + part->bytes, file_bytes);
    }
    MOE_CHECK(
        model.geometry.size_classes[Raw(layer.size_class)].slot_bytes >= Bytes(layer.record.bytes),
        "slot of layer {}", i);
  }
}

void ReadModel(const GgufModel& gguf, uint64_t file_bytes) {
  for (const auto form : {kernels::RecordForm::kRows16, kernels::RecordForm::kSource}) {
    const Result<MoeModel> model =
        ReadMoeModel(gguf, {.form = form, .activation = kernels::Activation::kSwiGlu});
    if (model.has_value()) CheckModel(*model, file_bytes);
  }
  const Result<MoeModel> named = ReadMoeModel(gguf, {});
  if (named.has_value()) CheckModel(*named, file_bytes);
}

}  // namespace
}  // namespace moetier

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::span<const std::byte> head = std::as_bytes(std::span(data, size)).subspan(1);
  const uint64_t beyond = data[0] < 64 ? uint64_t{1} << data[0] : 0;
  const uint64_t file_bytes = head.size() + beyond;
  const auto gguf = moetier::GgufModel::Parse(head, file_bytes, "fuzz.gguf");
  if (!gguf.has_value()) return 0;
  for (const moetier::GgufTensor& tensor : gguf->tensors()) {
    moetier::CheckInFile(tensor.offset, tensor.bytes, file_bytes);
    MOE_CHECK(gguf->FindTensor(tensor.name) == &tensor, "{} is lost", tensor.name);
  }
  moetier::ReadModel(*gguf, file_bytes);
  return 0;
}
