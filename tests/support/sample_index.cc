#include "tests/support/sample_index.h"

#include "base/check.h"

namespace moetier {
namespace {

constexpr uint32_t kExperts = 3;

IndexLayer SampleLayer(LayerIndex number, kernels::WeightType type, bool biases) {
  IndexLayer layer;
  layer.layer = number;
  layer.experts = kExperts;
  layer.shape = {.hidden = 32,
                 .ffn = 32,
                 .activation = kernels::Activation::kSwiGlu,
                 .gate = type,
                 .up = type,
                 .down = type,
                 .gate_bias = biases,
                 .up_bias = biases,
                 .down_bias = biases};
  const auto record = kernels::MakeRecordLayout(layer.shape, kernels::RecordForm::kRows16);
  MOE_CHECK(record.has_value(), "{}", record.error().message);
  layer.record_bytes = record->bytes;
  layer.checksums = {11, 22, 33};
  return layer;
}

StoreIndex SampleHead() {
  StoreIndex index;
  index.fingerprint = 0x0123456789abcdef;
  index.name = "Sample 2x3";
  index.architecture = "qwen3moe";
  index.hidden = 32;
  index.top_k = 2;
  index.sources = {{"/models/sample-00001-of-00002.gguf", 100'000, 5},
                   {"/models/sample-00002-of-00002.gguf", 200'000, 6}};
  index.layers = {SampleLayer(LayerIndex{2}, kernels::WeightType::kQ8_0, false),
                  SampleLayer(LayerIndex{5}, kernels::WeightType::kF16, true)};
  index.layers[0].routers[0] = RouterTensor{0, 32, kExperts, 0, 32 * kExperts * 4, 44};
  index.router_bytes = 32 * kExperts * 4;
  return index;
}

}  // namespace

StoreIndex SamplePackedIndex() {
  StoreIndex index = SampleHead();
  uint64_t offset = 0;
  for (IndexLayer& layer : index.layers) {
    layer.extents_per_record = 1;
    for (uint32_t expert = 0; expert < kExperts; ++expert) {
      layer.extents.push_back({0, offset, layer.record_bytes});
      offset = AlignUp(offset + layer.record_bytes, kRecordAlignment);
    }
  }
  index.data_files = {{"experts-0.bin", offset}};
  return index;
}

StoreIndex SampleInPlaceIndex() {
  StoreIndex index = SampleHead();
  index.in_place = true;
  for (uint32_t i = 0; i < index.layers.size(); ++i) {
    IndexLayer& layer = index.layers[i];
    uint64_t offset = 96;
    for (const uint64_t bytes : kernels::SourceBytes(layer.shape)) {
      if (bytes > 0) ++layer.extents_per_record;
    }
    for (uint32_t expert = 0; expert < kExperts; ++expert) {
      for (const uint64_t bytes : kernels::SourceBytes(layer.shape)) {
        if (bytes == 0) continue;
        layer.extents.push_back({i, offset, bytes});
        offset += bytes;
      }
    }
  }
  index.layers[1].routers[1] = RouterTensor{0, kExperts, 1, index.router_bytes, 12, 55};
  index.router_bytes += 12;
  return index;
}

}  // namespace moetier
