// What the daemon says of a model's records is what the example engine computes with.

#include "adapters/cpp/record_layer.h"

#include <catch2/catch.hpp>
#include <functional>
#include <memory>

#include "daemon/rpc/model_messages.h"

namespace moetier {
namespace {

using kernels::WeightType;

// One layer of that shape, as a daemon that loaded it says.
v1::Model ModelOf(const kernels::ExpertShape& shape, kernels::RecordForm form) {
  LayerGeometry layer;
  layer.layer = LayerIndex{7};
  layer.experts = 4;
  layer.shape = shape;
  layer.record = kernels::MakeRecordLayout(shape, form).value();
  layer.compute = true;
  auto geometry = std::make_shared<ModelGeometry>();
  geometry->hidden = shape.hidden;
  geometry->layers = {layer};
  ModelInfo info;
  info.geometry = std::move(geometry);
  return ToProto(info);
}

kernels::ExpertShape Shape(WeightType gate, WeightType down, bool bias = false) {
  return {.hidden = 256,
          .ffn = 512,
          .activation = bias ? kernels::Activation::kSwiGluClamped : kernels::Activation::kGeGlu,
          .gate = gate,
          .up = gate,
          .down = down,
          .gate_bias = bias,
          .up_bias = bias,
          .down_bias = bias};
}

Result<RecordLayer> Read(const v1::Model& model) {
  return ReadRecordLayer(model, model.geometry().layers(0));
}

}  // namespace

TEST_CASE("ReadRecordLayer: shape and layout come over the wire as they are", "[rpc]") {
  const kernels::ExpertShape shapes[] = {Shape(WeightType::kQ4_K, WeightType::kQ6_K),
                                         Shape(WeightType::kMXFP4, WeightType::kMXFP4, true),
                                         Shape(WeightType::kF16, WeightType::kIQ4_NL)};
  for (const kernels::ExpertShape& shape : shapes) {
    for (const auto form : {kernels::RecordForm::kRows16, kernels::RecordForm::kSource}) {
      const Result<RecordLayer> read = Read(ModelOf(shape, form));
      REQUIRE(read.has_value());
      CHECK(read->shape == shape);
      CHECK(read->layout == kernels::MakeRecordLayout(shape, form).value());
    }
  }
}

TEST_CASE("ReadRecordLayer: records that are not what these kernels know are refused", "[rpc]") {
  const v1::Model good =
      ModelOf(Shape(WeightType::kQ4_K, WeightType::kQ6_K), kernels::RecordForm::kRows16);
  REQUIRE(Read(good).has_value());
  const std::vector<std::function<void(v1::Model&, v1::LayerGeometry&)>> changes = {
      [](v1::Model& model, v1::LayerGeometry&) { model.set_layout_version(2); },
      [](v1::Model&, v1::LayerGeometry& layer) { layer.set_record_bytes(64); },
      [](v1::Model&, v1::LayerGeometry& layer) { layer.set_activation("relu"); },
      [](v1::Model&, v1::LayerGeometry& layer) { layer.set_gate_type("Q1_0"); },
      [](v1::Model&, v1::LayerGeometry& layer) { layer.set_ffn(0); },
      [](v1::Model&, v1::LayerGeometry& layer) { layer.set_compute(false); },
      [](v1::Model&, v1::LayerGeometry& layer) { layer.clear_parts(); },
      [](v1::Model&, v1::LayerGeometry& layer) { layer.mutable_parts(2)->set_offset(64); },
      [](v1::Model&, v1::LayerGeometry& layer) { layer.mutable_parts(0)->set_layout("source"); },
      [](v1::Model&, v1::LayerGeometry& layer) { layer.mutable_parts(1)->set_type("Q5_K"); },
      [](v1::Model&, v1::LayerGeometry& layer) { layer.add_parts()->set_role("up_bias"); }};
  for (size_t i = 0; i < changes.size(); ++i) {
    INFO("change " << i);
    v1::Model model = good;
    changes[i](model, *model.mutable_geometry()->mutable_layers(0));
    const Result<RecordLayer> read = Read(model);
    REQUIRE(!read.has_value());
    CHECK(!read.error().message.empty());
  }
}

}  // namespace moetier
