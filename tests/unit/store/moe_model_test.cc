#include "tiers/store/moe_model.h"

#include <catch2/catch.hpp>
#include <set>

#include "tests/unit/store/read_model.h"

namespace moetier {
namespace {

using kernels::PartRole;
using kernels::WeightType;
using testing::GgufBuilder;
using testing::MakeMoeGguf;
using testing::MustRead;
using testing::MustRefuse;
using testing::OneLayer;
using testing::Part;
using testing::Read;

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
  REQUIRE(geometry.size_classes.size() == 2);
  const std::set<uint16_t> larger = {0, 2, 5};
  for (size_t i = 0; i < geometry.layers.size(); ++i) {
    const LayerGeometry& layer = geometry.layers[i];
    const bool large = larger.contains(Raw(layer.layer));
    CHECK(layer.experts == 32);
    CHECK(layer.compute);
    CHECK(layer.shape.hidden == 256);
    CHECK(layer.shape.ffn == 256);
    CHECK(layer.shape.activation == kernels::Activation::kSwiGlu);
    CHECK(layer.shape.gate == WeightType::kQ4_K);
    CHECK(layer.shape.up == WeightType::kQ4_K);
    CHECK(layer.shape.down == (large ? WeightType::kQ6_K : WeightType::kQ4_K));
    CHECK(Raw(layer.size_class) == (large ? 1 : 0));
    CHECK(Part(*model, i, PartRole::kDown).bytes == (large ? 53760 : 36864));
    CHECK(model->layers[i].router.weight->name == fmt::format("blk.{}.ffn_gate_inp.weight", i));
  }
  CHECK(geometry.size_classes[0].slot_bytes == Bytes(110592));  // already a multiple of 4096
  CHECK(geometry.size_classes[1].slot_bytes == 128_KiB);
  CHECK(geometry.TotalExperts() == 192);
}

TEST_CASE("field_35: an expert tensor that no role matches refuses the model by its name",
          "[store]") {
  const std::pair<std::string, std::string> cases[] = {
      {"blk.0.ffn_gate.7.weight",
       "one tensor an expert is an old form; convert the model again with a current llama.cpp, "
       "which stacks experts in ffn_*_exps"},
      {"blk.0.ffn_down_exps.scale", "per-expert scales are not served"},
      {"blk.0.ffn_up_exps.input_scale", "per-expert scales are not served"},
      {"blk.0.ffn_side_exps.weight", "no expert tensor of GGUF has that name"},
      {"blk.00.ffn_gate_exps.weight", "no expert tensor of GGUF has that name"},
      {"blk.ffn_gate_exps.weight", "no expert tensor of GGUF has that name"},
      {"blk.99999999999.ffn_gate_exps.weight", "no expert tensor of GGUF has that name"},
      {"v.blk.0.ffn_gate_exps.weight", "no expert tensor of GGUF has that name"},
      {"model.layers.0.mlp.experts.3.gate_proj.weight", "no expert tensor of GGUF has that name"},
  };
  for (const auto& [name, hint] : cases) {
    GgufBuilder gguf = OneLayer();
    gguf.AddTensor(name, WeightType::kF32, {64});
    const Error error = MustRefuse(gguf);
    CHECK(error.reason == Reason::kUnsupportedModel);
    CHECK(error.message ==
          "1 expert tensors cannot be matched; a model is served whole or not at "
          "all:\n  " +
              name + ": " + hint);
  }
}

TEST_CASE("field_35: many unmatched tensors are counted and the first ones named", "[store]") {
  GgufBuilder gguf = OneLayer();
  for (int i = 0; i < 20; ++i) {
    gguf.AddTensor(fmt::format("blk.0.ffn_up.{}.weight", i), WeightType::kF32, {64});
  }
  const std::string message = MustRefuse(gguf).message;
  CHECK(message.starts_with("20 expert tensors cannot be matched"));
  CHECK(message.ends_with("\n  and 12 more"));
}

TEST_CASE("field_49: dense layers in front leave the MoE layers their block numbers", "[store]") {
  const MoeModel model = MustRead(MakeMoeGguf({.moe_layers = 2, .dense_first = 3}));
  REQUIRE(model.geometry.layers.size() == 2);
  CHECK(model.geometry.Find(LayerIndex{2}) == nullptr);
  REQUIRE(model.geometry.Find(LayerIndex{3}) != nullptr);
  CHECK(model.geometry.Find(LayerIndex{4}) == &model.geometry.layers[1]);
  CHECK(model.geometry.Find(LayerIndex{5}) == nullptr);
  CHECK(Part(model, 0, PartRole::kGate).tensor == "blk.3.ffn_gate_exps.weight");
}

TEST_CASE("field_50: a quantised router and its choice bias are kept with the model", "[store]") {
  GgufBuilder gguf = OneLayer();
  gguf.AddTensor("blk.0.ffn_gate_inp.weight", WeightType::kQ8_0, {64, 4});
  gguf.AddTensor("blk.0.exp_probs_b.bias", WeightType::kF32, {4});
  const MoeModel model = MustRead(gguf);
  const RouterSource& router = model.layers[0].router;
  CHECK(router.weight->ggml_type == Raw(WeightType::kQ8_0));
  CHECK(router.bias->name == "blk.0.exp_probs_b.bias");
  CHECK(!router.logit_bias.has_value());
  CHECK(!MustRead(OneLayer()).layers[0].router.weight.has_value());
}

TEST_CASE("ReadMoeModel: shared experts and the rest stay with the engine", "[store]") {
  const MoeModel model = MustRead(MakeMoeGguf({.choice_bias = true, .shared_expert = true}));
  for (const MoeLayerSource& layer : model.layers) {
    for (const auto& part : layer.parts) {
      if (part) CHECK(part->tensor.find("_exps.") != std::string::npos);
    }
  }
}

TEST_CASE("ReadMoeModel: a next-token layer's experts count like the others", "[store]") {
  GgufBuilder gguf = MakeMoeGguf({.moe_layers = 3});
  gguf.U32("qwen3moe.nextn_predict_layers", 1);
  gguf.AddTensor("blk.2.nextn.eh_proj.weight", WeightType::kF32, {128, 64});
  CHECK(MustRead(gguf).geometry.layers.size() == 3);
}

TEST_CASE("ReadMoeModel: layers may differ in experts and ffn but not in hidden", "[store]") {
  GgufBuilder gguf = OneLayer();
  gguf.AddTensor("blk.7.ffn_gate_exps.weight", WeightType::kF32, {64, 96, 6});
  gguf.AddTensor("blk.7.ffn_up_exps.weight", WeightType::kF32, {64, 96, 6});
  gguf.AddTensor("blk.7.ffn_down_exps.weight", WeightType::kF32, {96, 64, 6});
  const MoeModel model = MustRead(gguf);
  CHECK(model.geometry.layers[1].experts == 6);
  CHECK(model.geometry.layers[1].shape.ffn == 96);
  CHECK(model.geometry.TotalExperts() == 10);
  GgufBuilder other = OneLayer();
  other.AddTensor("blk.7.ffn_gate_exps.weight", WeightType::kF32, {32, 96, 6});
  other.AddTensor("blk.7.ffn_up_exps.weight", WeightType::kF32, {32, 96, 6});
  other.AddTensor("blk.7.ffn_down_exps.weight", WeightType::kF32, {96, 32, 6});
  CHECK(MustRefuse(other).message == "blk.7 has hidden 32, blk.0 has 64");
}

TEST_CASE("ReadMoeModel: hidden must be the one that the metadata names", "[store]") {
  GgufBuilder gguf = OneLayer();
  gguf.U32("qwen3moe.embedding_length", 128);
  CHECK(MustRefuse(gguf).message == "qwen3moe.embedding_length is 128, the expert tensors have 64");
  gguf.U32("qwen3moe.expert_latent_length", 64);  // experts behind a projection
  CHECK(MustRead(gguf).geometry.hidden == 64);
}

TEST_CASE("ReadMoeModel: experts used per token must be 1 to the smallest layer's experts",
          "[store]") {
  for (const uint32_t top_k : {0u, 5u}) {
    CHECK(MustRefuse(MakeMoeGguf({.top_k = top_k})).message ==
          fmt::format("qwen3moe.expert_used_count is {}, 1 to 4 are allowed (blk.0 has 4 experts, "
                      "the limit is 64)",
                      top_k));
  }
  CHECK(MustRead(MakeMoeGguf({.top_k = 4})).geometry.top_k == 4);
  CHECK(MustRefuse(MakeMoeGguf({.hidden = 32, .experts = 80, .top_k = 65})).message ==
        "qwen3moe.expert_used_count is 65, 1 to 64 are allowed (blk.0 has 80 experts, the limit is "
        "64)");
  GgufBuilder absent;
  absent.Text("general.architecture", "llama");
  const GgufBuilder present = OneLayer();
  for (const GgufBuilder::Tensor& tensor : present.tensors()) absent.AddTensor(tensor);
  CHECK(MustRefuse(absent).message == "llama.expert_used_count is missing or no unsigned number");
}

TEST_CASE("ReadMoeModel: an unknown architecture needs its activation given", "[store]") {
  const GgufBuilder gguf = MakeMoeGguf({.architecture = "newmoe"});
  const Error error = MustRefuse(gguf);
  CHECK(error.code == ErrorCode::kFailedPrecondition);
  CHECK(error.reason == Reason::kUnsupportedModel);
  CHECK(error.message ==
        "architecture newmoe is unknown, so its activation must be given (swiglu, geglu or "
        "swiglu-clamped)");
  const MoeModel model = MustRead(gguf, {.activation = kernels::Activation::kGeGlu});
  CHECK(model.geometry.layers[0].shape.activation == kernels::Activation::kGeGlu);
}

TEST_CASE("ReadMoeModel: an architecture that we cannot compute is refused whatever is asked",
          "[store]") {
  CHECK(MustRefuse(MakeMoeGguf({.architecture = "llama4"}),
                   {.activation = kernels::Activation::kSwiGlu})
            .message ==
        "architecture llama4 is not served: it weights a row before the expert, not the expert's "
        "output after it");
  CHECK(MustRefuse(MakeMoeGguf({.architecture = "smallthinker"})).message ==
        "architecture smallthinker is not served: its experts use ReGLU, which no kernel of ours "
        "computes");
}

TEST_CASE("ReadMoeModel: a limit on SwiGLU in the metadata is not passed over", "[store]") {
  GgufBuilder none = MakeMoeGguf({});
  none.Array<float>("qwen3moe.swiglu_clamp_exp", 6, {0.0f, 0.0f});
  CHECK(Read(none).has_value());
  GgufBuilder some = MakeMoeGguf({});
  some.Array<float>("qwen3moe.swiglu_clamp_exp", 6, {0.0f, 7.0f});
  CHECK(MustRefuse(some).message ==
        "qwen3moe.swiglu_clamp_exp limits SwiGLU per layer, which no kernel of ours computes");
  GgufBuilder one = MakeMoeGguf({});
  one.F32("qwen3moe.swiglu_clamp_exp", 7.0f);
  CHECK(!Read(one).has_value());
}

TEST_CASE("ReadMoeModel: the router's score follows the file's key, then the architecture",
          "[store]") {
  CHECK(MustRead(MakeMoeGguf({.architecture = "minimax-m2"})).router_score ==
        RouterScore::kSigmoid);
  const auto score = [](uint32_t key) {
    GgufBuilder gguf = MakeMoeGguf({.architecture = "deepseek2"});
    gguf.U32("deepseek2.expert_gating_func", key);
    return MustRead(gguf).router_score;
  };
  CHECK(score(1) == RouterScore::kSoftmax);
  CHECK(score(2) == RouterScore::kSigmoid);
  CHECK(score(3) == RouterScore::kSoftmaxAfterTopK);
  CHECK(score(9) == RouterScore::kSoftmax);  // unknown: the architecture's
}

TEST_CASE("ReadMoeModel: a model without experts or architecture is refused", "[store]") {
  GgufBuilder dense;
  dense.Text("general.architecture", "llama");
  dense.AddTensor("blk.0.ffn_gate.weight", WeightType::kF32, {64, 32});
  CHECK(MustRefuse(dense).message ==
        "m.gguf has no expert tensors (blk.N.ffn_*_exps.weight): it is no mixture-of-experts "
        "model");
  CHECK(MustRefuse(GgufBuilder()).message == "m.gguf: general.architecture is missing");
}

TEST_CASE("ReadMoeModel: a model without a name is called by its file's stem", "[store]") {
  CHECK(MustRead(MakeMoeGguf({})).geometry.name == "Test MoE");
  CHECK(MustRead(OneLayer()).geometry.name == "m");
}

}  // namespace moetier
