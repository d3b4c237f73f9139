#include "adapters/llama_cpp/layer_match.h"

#include <catch2/catch.hpp>

#include "tests/support/expert_graph.h"

namespace moetier::ggml {
namespace {

using testing::ExpertGraph;
using testing::ExpertGraphSpec;

const Library kLibrary = testing::FakeGgml(AbiLayout::kV2);

std::optional<LayerMatch> Match(ExpertGraph& graph) {
  const OperationNames names(kLibrary);
  return MatchLayer(names, graph.nodes, *graph.multiply);
}
std::optional<LayerMatch> Match(const ExpertGraphSpec& spec) {
  ExpertGraph graph(spec);
  return Match(graph);
}

}  // namespace

TEST_CASE("MatchLayer: a plain layer gives its operands, its output and all inner results",
          "[llama_cpp]") {
  ExpertGraph graph({.layer = 17, .picks = 3});
  const auto match = Match(graph);
  REQUIRE(match);
  CHECK(match->layer == 17);
  CHECK(match->activation == kernels::Activation::kSwiGlu);
  CHECK(match->gate == graph.Find("blk.17.ffn_gate_exps.weight"));
  CHECK(match->up == graph.Find("blk.17.ffn_up_exps.weight"));
  CHECK(match->down == graph.Find("blk.17.ffn_down_exps.weight"));
  CHECK(match->gate_bias == nullptr);
  CHECK(match->input == graph.Find("input"));
  CHECK(match->experts == graph.Find("ids"));
  CHECK(match->weights == graph.Find("weights"));
  CHECK(match->output == graph.output);
  CHECK(match->top_k == 3);
  CHECK(match->inner.size() == graph.nodes.size() - 1);
}

TEST_CASE("MatchLayer: fused gate and up, biases and gpt-oss's activation are matched",
          "[llama_cpp]") {
  const bool fused = GENERATE(false, true);
  ExpertGraph graph({.fused = fused, .biases = true, .glu = "SWIGLU_OAI"});
  const auto match = Match(graph);
  REQUIRE(match);
  CHECK(match->activation == kernels::Activation::kSwiGluClamped);
  CHECK((match->up == nullptr) == fused);
  CHECK(match->gate_bias != nullptr);
  CHECK(match->down_bias == graph.Find("blk.3.ffn_down_exps.bias"));
  CHECK(match->inner.size() == graph.nodes.size() - 1);
}

TEST_CASE("MatchLayer: GEGLU is matched; activations that moetierd lacks are not", "[llama_cpp]") {
  const auto geglu = Match({.glu = "GEGLU"});
  REQUIRE(geglu);
  CHECK(geglu->activation == kernels::Activation::kGeGlu);
  for (const char* glu : {"REGLU", "GEGLU_ERF", "GEGLU_QUICK", "SWIGLU_CLAMP", "NEW_ONE"}) {
    INFO(glu);
    CHECK_FALSE(Match({.glu = glu}));
  }
  CHECK_FALSE(Match({.glu = "SWIGLU_OAI", .alpha = 1.5F}));
  CHECK_FALSE(Match({.glu = "SWIGLU_OAI", .limit = 6.0F}));
}

TEST_CASE("MatchLayer: a single pick ends in a copy", "[llama_cpp]") {
  ExpertGraph graph({.picks = 1});
  const auto match = Match(graph);
  REQUIRE(match);
  CHECK(match->top_k == 1);
  CHECK(match->output == graph.nodes.back());
}

TEST_CASE("MatchLayer: of a warm-up run's picks only those that are summed are asked for",
          "[llama_cpp]") {
  const auto match = Match({.experts = 8, .picks = 8, .summed = 2});
  REQUIRE(match);
  CHECK(match->top_k == 2);
}

TEST_CASE("MatchLayer: a layer cut anywhere is no match", "[llama_cpp]") {
  ExpertGraph graph({.picks = 3, .biases = true});
  REQUIRE(Match(graph));
  const std::vector<Tensor*> all = graph.nodes;
  for (size_t cut = 1; cut < all.size(); ++cut) {
    const auto middle = all.begin() + static_cast<std::ptrdiff_t>(cut);
    INFO(all[cut]->name);
    graph.nodes.assign(all.begin(), middle);
    CHECK_FALSE(Match(graph));
    graph.nodes.assign(middle, all.end());
    CHECK_FALSE(Match(graph));
  }
}

TEST_CASE("MatchLayer: names that do not say what the structure does are no match", "[llama_cpp]") {
  ExpertGraph graph({});
  const auto rename = [&](const char* from, const char* to) {
    Tensor* const tensor = graph.Find(from);
    std::string_view(to).copy(tensor->name, std::string_view(to).size() + 1);
    tensor->name[std::string_view(to).size()] = '\0';
  };
  rename("blk.3.ffn_up_exps.weight", "blk.4.ffn_up_exps.weight");
  CHECK_FALSE(Match(graph));
  rename("blk.4.ffn_up_exps.weight", "blk.3.ffn_gate_exps.weight");
  CHECK_FALSE(Match(graph));
  rename("blk.3.ffn_gate_exps.weight", "blk.3.ffn_up_exps.weight");
  CHECK_FALSE(Match(graph));
}

TEST_CASE("MatchLayer: an operation between down and the weights is no match", "[llama_cpp]") {
  ExpertGraph graph({});
  Tensor* const scaled = graph.New("", 0, {64, 2, 3});
  graph.Node("SCALE", "scaled", scaled, {graph.multiply->src[0]});
  graph.multiply->src[0] = scaled;
  CHECK_FALSE(Match(graph));
}

TEST_CASE("MatchLayer: an input of its own for each pick is no match", "[llama_cpp]") {
  ExpertGraph graph({});
  graph.Find("input")->ne[1] = 2;
  CHECK_FALSE(Match(graph));
}

}  // namespace moetier::ggml
