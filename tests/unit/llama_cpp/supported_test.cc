#include "adapters/llama_cpp/supported.h"

#include <catch2/catch.hpp>

#include "tests/support/expert_graph.h"

namespace moetier::ggml {
namespace {

using testing::ExpertGraph;

// A graph whose expert weights lie in a buffer of type `ours`.
struct Placed {
  explicit Placed(const testing::ExpertGraphSpec& spec) : graph(spec) {
    for (Tensor* node : graph.nodes) {
      if (node->op == testing::NumberOf("MUL_MAT_ID")) Put(*node->src[0]);
    }
  }
  void Put(Tensor& tensor) { tensor.buffer = reinterpret_cast<Buffer*>(&buffer); }
  bool Supports(const Tensor* node) {
    const OperationNames names(library);
    return IsSupported(library, names, &ours, *node);
  }

  Library library = testing::FakeGgml(AbiLayout::kV2);
  BufferType ours{};
  BufferLayout<BufferInterfaceV2> buffer{{}, &ours, nullptr, 0, 1};
  ExpertGraph graph;
};

}  // namespace

TEST_CASE("IsSupported: every operation of a layer over expert weights of ours", "[llama_cpp]") {
  Placed placed({.biases = true});
  for (const Tensor* node : placed.graph.nodes) {
    INFO(node->name);
    CHECK(placed.Supports(node));
  }
}

TEST_CASE("IsSupported: nothing of a layer whose weights are the engine's", "[llama_cpp]") {
  Placed placed({.biases = true});
  for (const Tensor* node : placed.graph.nodes) {
    if (node->op == testing::NumberOf("MUL_MAT_ID")) node->src[0]->buffer = nullptr;
  }
  for (const Tensor* node : placed.graph.nodes) {
    if (node->op == testing::NumberOf("VIEW")) continue;
    INFO(node->name);
    CHECK_FALSE(placed.Supports(node));
  }
}

TEST_CASE("IsSupported: the residual's addition stays with the engine", "[llama_cpp]") {
  Placed placed({});
  ExpertGraph& graph = placed.graph;
  Tensor* const residual = graph.New("residual", 0, {64, 3});
  const Tensor* const sum =
      graph.Node("ADD", "with_residual", graph.New("", 0, {64, 3}), {graph.output, residual});
  CHECK_FALSE(placed.Supports(sum));
}

TEST_CASE("IsSupported: a LoRA adapter's matrices and a bias's dummy are declined", "[llama_cpp]") {
  Placed placed({.biases = true});
  ExpertGraph& graph = placed.graph;
  Tensor* const a = graph.New("blk.3.ffn_up_exps.weight.lora_a", 0, {64, 8, 4});
  placed.Put(*a);
  const Tensor* const product = graph.Node("MUL_MAT_ID", "lora", graph.New("", 0, {8, 2, 3}),
                                           {a, graph.Find("input"), graph.Find("ids")});
  CHECK_FALSE(placed.Supports(product));

  // What llama.cpp asks before it places a bias: a sum over a tensor from nowhere.
  Tensor* const bias = graph.Find("blk.3.ffn_up_exps.bias");
  placed.Put(*bias);
  const Tensor* const sum =
      graph.Node("ADD_ID", "dummy", graph.New("", 0, {32, 2, 3}),
                 {graph.New("nowhere", 0, {32, 2, 3}), bias, graph.Find("ids")});
  CHECK_FALSE(placed.Supports(sum));
}

TEST_CASE("IsSupported: weight types without a kernel are declined, a shell's are not",
          "[llama_cpp]") {
  Placed placed({});
  Tensor* const weights = placed.graph.Find("blk.3.ffn_gate_exps.weight");
  const Tensor* const product = placed.graph.Find("gate");
  for (const auto& [type, supported] : {std::pair{8, true},
                                        {12, true},
                                        {19, true},
                                        {39, true},
                                        {41, false},
                                        {16, false},
                                        {99, false}}) {
    weights->type = type;
    INFO(type);
    CHECK(placed.Supports(product) == supported);
  }
}

}  // namespace moetier::ggml
