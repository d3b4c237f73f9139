#include "tiers/store/moe_model.h"

#include <catch2/catch.hpp>
#include <set>

namespace moetier {
namespace {

const std::string kDemo = MOETIER_TEST_DATA "/demo-moe/moetier-demo-Q4_K_M.gguf";

}  // namespace

TEST_CASE("ReadMoeModel: the demo model has the shape that its README states", "[store]") {
  const Result<GgufModel> gguf = GgufModel::Open(kDemo);
  REQUIRE(gguf.has_value());
  const Result<MoeModel> model = ReadMoeModel(*gguf, {});
  REQUIRE(model.has_value());
  const ModelGeometry& geometry = model->geometry;
  CHECK(geometry.architecture == "qwen3moe");
  CHECK(geometry.hidden == 256);
  CHECK(geometry.top_k == 4);
  CHECK(model->router_score == RouterScore::kSoftmax);
  REQUIRE(geometry.layers.size() == 6);
  CHECK(geometry.size_classes.size() == 2);
  const std::set<uint16_t> larger = {0, 2, 5};
  for (const LayerGeometry& layer : geometry.layers) {
    const bool large = larger.contains(Raw(layer.layer));
    CHECK(layer.experts == 32);
    CHECK(layer.compute);
    CHECK(layer.shape.hidden == 256);
    CHECK(layer.shape.ffn == 256);
    CHECK(layer.shape.activation == kernels::Activation::kSwiGlu);
    CHECK(layer.shape.gate == kernels::WeightType::kQ4_K);
    CHECK(layer.shape.up == kernels::WeightType::kQ4_K);
    CHECK(layer.shape.down == (large ? kernels::WeightType::kQ6_K : kernels::WeightType::kQ4_K));
    CHECK(Raw(layer.size_class) == (large ? 1 : 0));
  }
  CHECK(geometry.TotalExperts() == 192);
}

}  // namespace moetier
