#include "daemon/scheduling/router_predictor.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>

#include "daemon/ctl/golden_rows.h"
#include "tests/support/temp_folder.h"
#include "tiers/store/expert_store.h"
#include "tiers/store/importer.h"

namespace moetier {
namespace {

constexpr size_t kWeight = static_cast<size_t>(RouterRole::kWeight);
constexpr size_t kChoiceBias = static_cast<size_t>(RouterRole::kChoiceBias);
constexpr size_t kLogitBias = static_cast<size_t>(RouterRole::kLogitBias);

ModelGeometry Geometry(uint32_t experts, uint32_t hidden) {
  ModelGeometry geometry;
  geometry.hidden = hidden;
  LayerGeometry layer;
  layer.layer = LayerIndex{3};
  layer.experts = experts;
  geometry.layers.push_back(layer);
  return geometry;
}

RouterMatrix F32(uint32_t rows, uint32_t columns, const std::vector<float>& values) {
  RouterMatrix matrix{.ggml_type = 0, .rows = rows, .columns = columns, .bytes = {}};
  matrix.bytes.resize(values.size() * sizeof(float));
  std::memcpy(matrix.bytes.data(), values.data(), matrix.bytes.size());
  return matrix;
}

// Four experts over two columns: on the row {1, 0} their logits are 1, 2, 3 and 4.
LayerRouter FourExperts(RouterScore score = RouterScore::kSoftmax) {
  LayerRouter router{.layer = LayerIndex{3}, .score = score, .tensors = {}};
  router.tensors[kWeight] = F32(4, 2, {1, 0, 2, 0, 3, 0, 4, 0});
  return router;
}

std::vector<uint16_t> Guess(const LayerRouter& router, const std::vector<float>& rows,
                            uint32_t count) {
  const auto predictor = RouterPredictor::Create(std::span(&router, 1), Geometry(4, 2)).value();
  RouterPredictor::Scratch scratch;
  std::vector<ExpertIndex> guesses;
  predictor->Guess(LayerIndex{3}, rows, count, scratch, guesses);
  std::vector<uint16_t> numbers;
  for (const ExpertIndex expert : guesses) numbers.push_back(Raw(expert));
  return numbers;
}

// The share of the golden rows' picks of a layer that `count` guesses name, by the rows of the
// layer `ahead` before it; mean over the layers from 1 on.
double Recall(const RouterPredictor& predictor, const GoldenRows& golden, uint32_t ahead,
              uint32_t count) {
  RouterPredictor::Scratch scratch;
  std::vector<ExpertIndex> guesses;
  uint32_t right = 0;
  uint32_t all = 0;
  for (uint32_t token = 0; token < golden.tokens; ++token) {
    for (uint32_t layer = ahead; layer < golden.layers; ++layer) {
      predictor.Guess(LayerIndex{static_cast<uint16_t>(layer)},
                      golden.HiddenOf(token, layer - ahead), count, scratch, guesses);
      for (const uint32_t pick : golden.ExpertsOf(token, layer)) {
        const ExpertIndex expert{static_cast<uint16_t>(pick)};
        right += std::ranges::find(guesses, expert) != guesses.end() ? 1 : 0;
        ++all;
      }
    }
  }
  return static_cast<double>(right) / all;
}

}  // namespace

TEST_CASE("RouterPredictor: guesses are the largest scores, the best first", "[scheduling]") {
  CHECK(Guess(FourExperts(), {1, 0}, 3) == std::vector<uint16_t>{3, 2, 1});
  CHECK(Guess(FourExperts(), {-1, 0}, 2) == std::vector<uint16_t>{0, 1});
  CHECK(Guess(FourExperts(), {1, 0}, 9).size() == 4);
}

TEST_CASE("RouterPredictor: of several rows the best of each come before the second best of any",
          "[scheduling]") {
  CHECK(Guess(FourExperts(), {1, 0, -1, 0}, 2) == std::vector<uint16_t>{3, 0, 2, 1});
  CHECK(Guess(FourExperts(), {1, 0, 2, 0}, 2) == std::vector<uint16_t>{3, 2});
}

TEST_CASE("RouterPredictor: a logit bias moves the choice", "[scheduling]") {
  LayerRouter router = FourExperts(RouterScore::kSoftmaxAfterTopK);
  router.tensors[kLogitBias] = F32(1, 4, {10, 0, 0, 0});
  CHECK(Guess(router, {1, 0}, 2) == std::vector<uint16_t>{0, 3});
}

TEST_CASE("RouterPredictor: a choice bias is added to the sigmoid or softmax, not to the logit",
          "[scheduling]") {
  // Sigmoids of 1..4 are 0.731, 0.881, 0.953, 0.982; on the logits 0.2 would change nothing.
  LayerRouter router = FourExperts(RouterScore::kSigmoid);
  router.tensors[kChoiceBias] = F32(1, 4, {0, 0.2F, 0, 0});
  CHECK(Guess(router, {1, 0}, 2) == std::vector<uint16_t>{1, 3});
  // The softmax is 0.032, 0.087, 0.237, 0.644: 0.2 lifts expert 1 past expert 2 alone.
  router.score = RouterScore::kSoftmax;
  CHECK(Guess(router, {1, 0}, 3) == std::vector<uint16_t>{3, 1, 2});
}

TEST_CASE("RouterPredictor: a score that is no number comes last", "[scheduling]") {
  LayerRouter router = FourExperts();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  router.tensors[kWeight] = F32(4, 2, {1, 0, nan, 0, 3, 0, nan, 0});
  CHECK(Guess(router, {1, 0}, 2) == std::vector<uint16_t>{2, 0});
}

TEST_CASE("RouterPredictor: bfloat16 and half precision are read", "[scheduling]") {
  for (const auto& [type, one, two] : {std::tuple{30U, 0x3F80, 0x4000}, {1U, 0x3C00, 0x4000}}) {
    LayerRouter router = FourExperts();
    const std::vector<uint16_t> bits = {
        static_cast<uint16_t>(one), 0, static_cast<uint16_t>(two), 0, 0, 0, 0, 0};
    RouterMatrix& matrix = *router.tensors[kWeight];
    matrix.ggml_type = type;
    matrix.bytes.resize(16);
    std::memcpy(matrix.bytes.data(), bits.data(), 16);
    CHECK(Guess(router, {1, 0}, 2) == std::vector<uint16_t>{1, 0});
  }
}

TEST_CASE("RouterPredictor: what does not fit the experts is refused with its name",
          "[scheduling]") {
  const ModelGeometry geometry = Geometry(4, 2);
  const auto refusal = [&](const LayerRouter& router) {
    const auto made = RouterPredictor::Create(std::span(&router, 1), geometry);
    REQUIRE_FALSE(made.has_value());
    return made.error().message;
  };
  LayerRouter router = FourExperts();
  router.tensors[kWeight]->rows = 3;
  CHECK(refusal(router).find("blk.3.ffn_gate_inp.weight") != std::string::npos);
  router = FourExperts();
  router.tensors[kWeight]->bytes.resize(31);
  CHECK(refusal(router).find("31 bytes") != std::string::npos);
  router = FourExperts();
  router.tensors[kWeight]->ggml_type = 9999;
  CHECK(refusal(router).find("9999") != std::string::npos);
  router = FourExperts();
  router.tensors[kChoiceBias] = F32(1, 3, {1, 2, 3});
  CHECK(refusal(router).find("exp_probs_b.bias") != std::string::npos);
  router = FourExperts();
  router.layer = LayerIndex{4};
  CHECK(refusal(router).find("blk.4") != std::string::npos);
  CHECK_FALSE(RouterPredictor::Create({}, geometry).has_value());
}

// The figures are those of tests/data/demo-moe/README.md for 1024 tokens ("router input of layer l
// as it is, router l+1"). 64 tokens are 1280 picks, so that two standard errors are 0.03 at 8
// guesses, where this sample lies above; elsewhere it is within 0.02.
TEST_CASE("RouterPredictor: on the demo model's rows recall is as published", "[scheduling]") {
  const std::string demo = MOETIER_TEST_DATA "/demo-moe";
  const testing::TempFolder folder;
  ImportOptions import;
  import.model_path = demo + "/moetier-demo-Q4_K_M.gguf";
  import.store_directory = folder.File("store");
  import.in_place = true;
  REQUIRE(ImportModel(import, HostFileSystem(), nullptr).has_value());
  const auto store = ExpertStore::Open(folder.File("store")).value();
  const std::vector<LayerRouter> routers = ReadRouters(folder.File("store")).value();
  const auto predictor = RouterPredictor::Create(routers, store->geometry()).value();
  const GoldenRows golden = ReadGoldenRows(demo + "/golden").value();
  CHECK(Recall(*predictor, golden, 0, 4) == 1.0);  // a router knows its own picks
  CHECK(std::abs(Recall(*predictor, golden, 1, 4) - 0.631) < 0.02);
  CHECK(std::abs(Recall(*predictor, golden, 1, 8) - 0.802) < 0.031);
  CHECK(std::abs(Recall(*predictor, golden, 1, 12) - 0.870) < 0.02);
  CHECK(std::abs(Recall(*predictor, golden, 1, 16) - 0.909) < 0.02);
  CHECK(Recall(*predictor, golden, 2, 8) > 0.70);  // two layers ahead it is worth less
}

}  // namespace moetier
