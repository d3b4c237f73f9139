#include "adapters/llama_cpp/single_operation.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "kernels/reference/reference_expert.h"
#include "tests/support/expert_graph.h"
#include "tests/support/gguf_builder.h"

namespace moetier::ggml {
namespace {

using testing::ExpertGraph;
using testing::ExpertGraphSpec;

const Library kLibrary = testing::FakeGgml(AbiLayout::kV2);
constexpr int32_t kF32 = 0;

Status Run(const Tensor& node) {
  const OperationNames names(kLibrary);
  return RunSingleOperation(
      names, node, [](const Tensor& weights, uint64_t offset, std::span<std::byte> out) {
        std::memcpy(out.data(), static_cast<std::byte*>(weights.data) + offset, out.size());
        return Status(Ok{});
      });
}

// Values, weights and picks that tell rows, picks and experts apart.
void Fill(ExpertGraph& graph) {
  const ExpertGraphSpec& spec = graph.spec;
  for (int64_t i = 0; i < spec.hidden * spec.rows; ++i) {
    graph.Floats("input")[i] = std::sin(static_cast<float>(i)) * 2;
  }
  auto* const ids = static_cast<int32_t*>(graph.Find("sorted")->data);
  for (int64_t row = 0; row < spec.rows; ++row) {
    for (int64_t e = 0; e < spec.experts; ++e) {
      ids[row * spec.experts + e] = static_cast<int32_t>((row + 3 * e) % spec.experts);
    }
  }
  for (int64_t i = 0; i < spec.picks * spec.rows; ++i) {
    graph.Floats("weights")[i] = 0.25F + 0.1F * static_cast<float>(i);
  }
  uint64_t seed = 1;
  for (Tensor* node : graph.nodes) {
    Tensor* const weights = node->src[0];
    if (node->op == testing::NumberOf("ADD_ID")) {
      auto* const bias = static_cast<float*>(node->src[1]->data);
      const int64_t count = node->src[1]->ne[0] * node->src[1]->ne[1];
      for (int64_t i = 0; i < count; ++i) bias[i] = std::cos(static_cast<float>(i));
    }
    if (node->op != testing::NumberOf("MUL_MAT_ID")) continue;
    const auto count = static_cast<uint64_t>(weights->ne[0] * weights->ne[1] * weights->ne[2]);
    const auto blocks =
        testing::RandomBlocks(static_cast<kernels::WeightType>(weights->type), count, seed++);
    std::memcpy(weights->data, blocks.data(), blocks.size());
  }
}

kernels::SourceExpert ExpertOf(ExpertGraph& graph, int64_t expert) {
  kernels::SourceExpert source;
  const auto put = [&](kernels::PartRole role, const char* name) {
    const Tensor* const tensor = graph.Find(name);
    if (tensor == nullptr) return;
    const size_t bytes = std::string_view(name).ends_with("bias") ? tensor->nb[1] : tensor->nb[2];
    source.parts[static_cast<size_t>(role)] = {
        static_cast<std::byte*>(tensor->data) + static_cast<size_t>(expert) * bytes, bytes};
  };
  put(kernels::PartRole::kGate, "blk.3.ffn_gate_exps.weight");
  put(kernels::PartRole::kUp, "blk.3.ffn_up_exps.weight");
  put(kernels::PartRole::kDown, "blk.3.ffn_down_exps.weight");
  put(kernels::PartRole::kGateBias, "blk.3.ffn_gate_exps.bias");
  put(kernels::PartRole::kUpBias, "blk.3.ffn_up_exps.bias");
  put(kernels::PartRole::kDownBias, "blk.3.ffn_down_exps.bias");
  return source;
}

}  // namespace

TEST_CASE("RunSingleOperation: a layer one operation at a time is the sum of its experts",
          "[llama_cpp]") {
  const bool biases = GENERATE(false, true);
  ExpertGraph graph({.picks = 2, .biases = biases});
  Fill(graph);
  for (const Tensor* node : graph.nodes) REQUIRE(Run(*node));

  const ExpertGraphSpec& spec = graph.spec;
  const kernels::ExpertShape shape{.hidden = 64,
                                   .ffn = 32,
                                   .gate = kernels::WeightType::kQ8_0,
                                   .up = kernels::WeightType::kQ8_0,
                                   .down = kernels::WeightType::kQ8_0,
                                   .gate_bias = biases,
                                   .up_bias = biases,
                                   .down_bias = biases};
  for (int64_t row = 0; row < spec.rows; ++row) {
    std::vector<float> sum(64);
    for (int64_t pick = 0; pick < spec.picks; ++pick) {
      const int64_t expert = (row + 3 * pick) % spec.experts;
      std::vector<float> y(64);
      kernels::ReferenceExpert(shape, ExpertOf(graph, expert),
                               {graph.Floats("input") + row * 64, 64}, y);
      const float weight = graph.Floats("weights")[row * spec.picks + pick];
      for (size_t i = 0; i < 64; ++i) sum[i] += weight * y[i];
    }
    const float* const out = static_cast<float*>(graph.output->data) + row * 64;
    // The same arithmetic but for the last step, which is a fused multiply-add in a layer call.
    for (size_t i = 0; i < 64; ++i) CHECK(out[i] == Approx(sum[i]).epsilon(1e-4).margin(1e-4));
  }
}

TEST_CASE("RunSingleOperation: fused gate and up equal separate ones", "[llama_cpp]") {
  ExpertGraph fused({.fused = true});
  ExpertGraph apart({});
  Fill(fused);
  Fill(apart);
  // Rows 0..ffn-1 of each expert of the fused tensor are gate, the rest up.
  const Tensor& both = *fused.Find("blk.3.ffn_gate_up_exps.weight");
  const size_t half = both.nb[2] / 2;
  for (size_t e = 0; e < 4; ++e) {
    const auto* const bytes = static_cast<std::byte*>(both.data) + e * both.nb[2];
    std::memcpy(static_cast<std::byte*>(apart.Find("blk.3.ffn_gate_exps.weight")->data) + e * half,
                bytes, half);
    std::memcpy(static_cast<std::byte*>(apart.Find("blk.3.ffn_up_exps.weight")->data) + e * half,
                bytes + half, half);
  }
  const Tensor& down = *fused.Find("blk.3.ffn_down_exps.weight");
  std::memcpy(apart.Find("blk.3.ffn_down_exps.weight")->data, down.data, down.nb[3]);
  for (const Tensor* node : fused.nodes) REQUIRE(Run(*node));
  for (const Tensor* node : apart.nodes) REQUIRE(Run(*node));
  CHECK(std::memcmp(fused.output->data, apart.output->data, fused.output->nb[2]) == 0);
}

TEST_CASE("RunSingleOperation: each activation gives its formula's value", "[llama_cpp]") {
  struct Case {
    const char* name;
    double expected;  // of gate 1.5, up -0.5; alpha 1.5, limit 1.0 where there are any
  };
  const double sigmoid = 1 / (1 + std::exp(-1.5));
  const Case cases[] = {
      {"REGLU", 1.5 * -0.5},
      {"SWIGLU", 1.5 * sigmoid * -0.5},
      {"GEGLU", 0.75 * (1 + std::tanh(0.7978845608 * 1.5 * (1 + 0.044715 * 2.25))) * -0.5},
      {"GEGLU_ERF", 0.75 * (1 + std::erf(1.5 / std::sqrt(2.0))) * -0.5},
      {"GEGLU_QUICK", 1.5 / (1 + std::exp(-1.702 * 1.5)) * -0.5},
      {"SWIGLU_OAI", 1.0 / (1 + std::exp(-1.5)) * 0.5},
      {"SWIGLU_CLAMP", 1.0 / (1 + std::exp(-1.0)) * -0.5},
  };
  for (const Case& one : cases) {
    INFO(one.name);
    ExpertGraph graph({.glu = one.name, .alpha = 1.5F, .limit = 1.0F});
    std::fill_n(graph.Floats("gate"), 32, 1.5F);
    std::fill_n(graph.Floats("up"), 32, -0.5F);
    REQUIRE(Run(*graph.Find("glu")));
    CHECK(graph.Floats("glu")[0] == Approx(one.expected).epsilon(1e-5));
  }
}

TEST_CASE("RunSingleOperation: both halves of a GLU in one tensor, gate first unless swapped",
          "[llama_cpp]") {
  const bool swapped = GENERATE(false, true);
  ExpertGraph graph({.glu = "REGLU"});
  Tensor* const both = graph.New("both", kF32, {64, 1, 1});
  for (int i = 0; i < 64; ++i) static_cast<float*>(both->data)[i] = i < 32 ? 2.0F : -3.0F;
  Tensor* const glu = graph.Node("GLU", "one", graph.New("", kF32, {32, 1, 1}), {both});
  glu->op_params[0] = testing::GluNumberOf("REGLU");
  glu->op_params[1] = swapped ? 1 : 0;
  REQUIRE(Run(*glu));
  CHECK(graph.Floats("one")[0] == (swapped ? 0.0F : -6.0F));
}

TEST_CASE("RunSingleOperation: what it cannot do is an error that names the tensor",
          "[llama_cpp]") {
  ExpertGraph graph({.glu = "NEW_ONE"});
  Fill(graph);
  const auto message = [](const Status& status) {
    REQUIRE_FALSE(status);
    return status.error().message;
  };
  CHECK(message(Run(*graph.Find("glu"))).find("glu: an activation") == 0);

  graph.Find("blk.3.ffn_gate_exps.weight")->type = 19;
  CHECK(message(Run(*graph.Find("gate"))).find("IQ1_S") != std::string::npos);

  static_cast<int32_t*>(graph.Find("sorted")->data)[0] = 4;
  CHECK(message(Run(*graph.Find("up"))).find("expert 4 of 4") != std::string::npos);

  Tensor* const other = graph.Node("CLAMP", "clamped", graph.New("", kF32, {4}), {});
  CHECK(message(Run(*other)).find("clamped") == 0);
}

}  // namespace moetier::ggml
