#include "tests/support/small_model.h"

#include <memory>
#include <utility>
#include <vector>

namespace moetier {
namespace {

LayerGeometry SmallLayer(uint16_t layer, uint32_t experts) {
  LayerGeometry geometry;
  geometry.layer = LayerIndex{layer};
  geometry.experts = experts;
  geometry.shape.hidden = 4;
  geometry.shape.ffn = 32;
  geometry.shape.gate = kernels::WeightType::kQ8_0;
  geometry.record.bytes = 4096;
  return geometry;
}

}  // namespace

ModelGeometry SmallGeometry() {
  ModelGeometry geometry;
  geometry.name = "small";
  geometry.architecture = "test";
  geometry.hidden = 4;
  geometry.top_k = 2;
  geometry.layers = {SmallLayer(1, 8), SmallLayer(3, 4), SmallLayer(5, 4)};
  geometry.layers[2].compute = false;
  geometry.size_classes = {{.slot_bytes = Bytes(4096), .records = 16}};
  return geometry;
}

ModelInfo SmallModel(std::string name, uint16_t id) {
  return {.id = ModelId{id},
          .name = std::move(name),
          .fingerprint = 0x1122334455667788,
          .geometry = std::make_shared<const ModelGeometry>(SmallGeometry()),
          .state = ModelState::kReady,
          .store_kind = StoreKind::kPackedRows16,
          .directory = "/stores/small",
          .source_paths = {"/models/small.gguf"},
          .arithmetic = "fake-1"};
}

v1::LayerRequest SmallRequest(uint64_t request_id, uint32_t rows, uint32_t top_k) {
  v1::LayerRequest request;
  request.set_request_id(request_id);
  request.set_layer(1);
  request.set_rows(rows);
  request.set_top_k(top_k);
  request.set_hidden_type(v1::DTYPE_F32);
  std::vector<float> hidden;
  for (uint32_t row = 0; row < rows; ++row) {
    hidden.insert(hidden.end(), {static_cast<float>(row + 1), 2.0f, 3.0f, 4.0f});
    for (uint32_t pick = 0; pick < top_k; ++pick) {
      request.add_experts(pick);
      request.add_weights(0.5f);
    }
  }
  request.set_hidden(hidden.data(), hidden.size() * sizeof(float));
  return request;
}

}  // namespace moetier
