#include <catch2/catch.hpp>
#include <set>

#include "tests/unit/store/read_model.h"

// What makes one MoE layer: roles, shapes, types and where the parts lie.

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

// The bytes that a part of one expert has in the file.
std::vector<std::byte> PartBytes(const std::vector<std::byte>& file, const PartSource& part,
                                 uint64_t expert) {
  const auto begin = file.begin() + static_cast<ptrdiff_t>(part.offset + expert * part.stride);
  return {begin, begin + static_cast<ptrdiff_t>(part.bytes)};
}

const GgufBuilder::Tensor& Written(const GgufBuilder& gguf, const std::string& name) {
  for (const GgufBuilder::Tensor& tensor : gguf.tensors()) {
    if (tensor.name == name) return tensor;
  }
  FAIL("no tensor " << name);
  return gguf.tensors().front();
}

// Slice `index` of `count` equal ones.
std::vector<std::byte> Slice(const std::vector<std::byte>& data, size_t index, size_t count) {
  const size_t bytes = data.size() / count;
  const auto begin = data.begin() + static_cast<ptrdiff_t>(index * bytes);
  return {begin, begin + static_cast<ptrdiff_t>(bytes)};
}

}  // namespace

TEST_CASE("field_31: each tensor keeps its own type and stride, layer by layer", "[store]") {
  const GgufBuilder gguf = MakeMoeGguf({.hidden = 256,
                                        .ffn = 256,
                                        .gate = WeightType::kQ4_K,
                                        .up = WeightType::kQ5_K,
                                        .down = WeightType::kQ6_K,
                                        .odd_down = WeightType::kQ4_K});
  const std::vector<std::byte> file = gguf.Bytes();
  const MoeModel model = MustRead(gguf);
  REQUIRE(model.geometry.layers.size() == 2);
  CHECK(model.geometry.layers[0].shape.gate == WeightType::kQ4_K);
  CHECK(model.geometry.layers[0].shape.up == WeightType::kQ5_K);
  CHECK(model.geometry.layers[0].shape.down == WeightType::kQ6_K);
  CHECK(model.geometry.layers[1].shape.down == WeightType::kQ4_K);
  for (size_t layer = 0; layer < 2; ++layer) {
    const std::string block = fmt::format("blk.{}.", layer);
    const std::pair<PartRole, std::string> parts[] = {{PartRole::kGate, "ffn_gate_exps.weight"},
                                                      {PartRole::kUp, "ffn_up_exps.weight"},
                                                      {PartRole::kDown, "ffn_down_exps.weight"}};
    for (const auto& [role, suffix] : parts) {
      const PartSource& part = Part(model, layer, role);
      CHECK(part.tensor == block + suffix);
      for (size_t expert = 0; expert < 4; ++expert) {
        CHECK(PartBytes(file, part, expert) ==
              Slice(Written(gguf, block + suffix).data, expert, 4));
      }
    }
  }
}

TEST_CASE("field_33: a fused gate_up tensor gives each expert its gate rows, then its up rows",
          "[store]") {
  const GgufBuilder gguf = MakeMoeGguf({.gate = WeightType::kQ8_0, .fused = true, .biases = true});
  const std::vector<std::byte> file = gguf.Bytes();
  const MoeModel model = MustRead(gguf);
  const kernels::ExpertShape& shape = model.geometry.layers[0].shape;
  CHECK(shape.ffn == 32);
  CHECK(shape.gate == WeightType::kQ8_0);
  CHECK(shape.up == WeightType::kQ8_0);
  CHECK((shape.gate_bias && shape.up_bias && shape.down_bias));
  const auto& weights = Written(gguf, "blk.0.ffn_gate_up_exps.weight").data;
  const auto& biases = Written(gguf, "blk.0.ffn_gate_up_exps.bias").data;
  for (size_t expert = 0; expert < 4; ++expert) {
    CHECK(PartBytes(file, Part(model, 0, PartRole::kGate), expert) ==
          Slice(weights, 2 * expert, 8));
    CHECK(PartBytes(file, Part(model, 0, PartRole::kUp), expert) ==
          Slice(weights, 2 * expert + 1, 8));
    CHECK(PartBytes(file, Part(model, 0, PartRole::kGateBias), expert) ==
          Slice(biases, 2 * expert, 8));
    CHECK(PartBytes(file, Part(model, 0, PartRole::kUpBias), expert) ==
          Slice(biases, 2 * expert + 1, 8));
  }
}

TEST_CASE("field_33: a fused tensor beside a separate one, or of odd height, is refused",
          "[store]") {
  GgufBuilder beside = OneLayer();
  beside.AddTensor("blk.0.ffn_gate_up_exps.weight", WeightType::kF32, {64, 64, 4});
  CHECK(MustRefuse(beside).message ==
        "blk.0 has ffn_gate_up_exps and ffn_gate_exps or ffn_up_exps besides");
  GgufBuilder odd = OneLayer({"ffn_gate_exps.weight", "ffn_up_exps.weight"});
  odd.AddTensor("blk.0.ffn_gate_up_exps.weight", WeightType::kF32, {64, 65, 4});
  CHECK(MustRefuse(odd).message ==
        "blk.0.ffn_gate_up_exps.weight is 64 x 65 x 4, expected hidden x 2 ffn x experts");
  GgufBuilder bias = OneLayer({"ffn_gate_exps.weight", "ffn_up_exps.weight"});
  bias.AddTensor("blk.0.ffn_gate_up_exps.weight", WeightType::kF32, {64, 64, 4});
  bias.AddTensor("blk.0.ffn_up_exps.bias", WeightType::kF32, {32, 4});
  CHECK(MustRefuse(bias).message ==
        "blk.0 has ffn_gate_up_exps.weight but ffn_gate_exps.bias or ffn_up_exps.bias");
}

TEST_CASE("field_34: gpt-oss experts keep all their biases and their clamped activation",
          "[store]") {
  const GgufBuilder gguf = MakeMoeGguf({.architecture = "gpt-oss",
                                        .gate = WeightType::kMXFP4,
                                        .up = WeightType::kMXFP4,
                                        .down = WeightType::kMXFP4,
                                        .odd_down = WeightType::kMXFP4,
                                        .biases = true});
  const std::vector<std::byte> file = gguf.Bytes();
  const MoeModel model = MustRead(gguf);
  CHECK(model.router_score == RouterScore::kSoftmaxAfterTopK);
  const kernels::ExpertShape& shape = model.geometry.layers[1].shape;
  CHECK(shape.activation == kernels::Activation::kSwiGluClamped);
  CHECK((shape.gate_bias && shape.up_bias && shape.down_bias));
  for (size_t expert = 0; expert < 4; ++expert) {
    CHECK(PartBytes(file, Part(model, 1, PartRole::kDownBias), expert) ==
          Slice(Written(gguf, "blk.1.ffn_down_exps.bias").data, expert, 4));
    CHECK(PartBytes(file, Part(model, 1, PartRole::kUpBias), expert) ==
          Slice(Written(gguf, "blk.1.ffn_up_exps.bias").data, expert, 4));
  }
}

TEST_CASE("field_34: a tensor whose name only ends like an expert's bias is not taken for it",
          "[store]") {
  GgufBuilder gguf = OneLayer();
  gguf.AddTensor("blk.0.ffn_gate.bias", WeightType::kF32, {32});
  gguf.AddTensor("blk.0.ffn_down_shexp.bias", WeightType::kF32, {64});
  gguf.AddTensor("blk.0.ffn_gate_inp.bias", WeightType::kF32, {4});
  const MoeModel model = MustRead(gguf);
  CHECK(!model.geometry.layers[0].shape.gate_bias);
  CHECK(!model.geometry.layers[0].shape.down_bias);
  CHECK(model.layers[0].router.logit_bias->name == "blk.0.ffn_gate_inp.bias");
  gguf.AddTensor("blk.0.own_ffn_gate_exps.bias", WeightType::kF32, {32, 4});
  CHECK(MustRefuse(gguf).message.find("blk.0.own_ffn_gate_exps.bias") != std::string::npos);
}

TEST_CASE("field_34: a bias of another type or shape is refused", "[store]") {
  GgufBuilder half = OneLayer();
  half.AddTensor("blk.0.ffn_up_exps.bias", WeightType::kF16, {32, 4});
  const Error type = MustRefuse(half);
  CHECK(type.reason == Reason::kUnsupportedType);
  CHECK(type.message == "blk.0.ffn_up_exps.bias is F16, expert biases must be F32");
  GgufBuilder turned = OneLayer();
  turned.AddTensor("blk.0.ffn_down_exps.bias", WeightType::kF32, {4, 64});
  CHECK(MustRefuse(turned).message ==
        "blk.0.ffn_down_exps.bias is 4 x 64 x 1, expected 64 x 4 x 1 (hidden x experts)");
}

TEST_CASE("field_35: a layer that lacks a role is refused with the role's name", "[store]") {
  const std::pair<std::set<std::string>, std::string> cases[] = {
      {{"ffn_gate_exps.weight"}, "blk.0 has expert tensors but no ffn_gate_exps.weight"},
      {{"ffn_up_exps.weight"}, "blk.0 has expert tensors but no ffn_up_exps.weight"},
      {{"ffn_down_exps.weight"}, "blk.0 has expert tensors but no ffn_down_exps.weight"},
  };
  for (const auto& [without, message] : cases)
    CHECK(MustRefuse(OneLayer(without)).message == message);
  GgufBuilder bare = OneLayer();
  bare.AddTensor("blk.1.ffn_gate_inp.weight", WeightType::kF32, {64, 4});
  CHECK(MustRefuse(bare).message == "blk.1 has a router or expert biases but no ffn_*_exps.weight");
  GgufBuilder lone_bias = OneLayer();
  lone_bias.AddTensor("blk.0.ffn_gate_up_exps.bias", WeightType::kF32, {64, 4});
  CHECK(MustRefuse(lone_bias).message ==
        "blk.0 has expert tensors but no ffn_gate_up_exps.weight for its bias");
}

TEST_CASE("field_41: rows that are no multiple of 256 are served where the type allows them",
          "[store]") {
  const MoeModel model = MustRead(MakeMoeGguf({.hidden = 96, .ffn = 160}));
  CHECK(model.geometry.layers[0].shape.hidden == 96);
  CHECK(model.geometry.layers[0].shape.ffn == 160);
}

TEST_CASE("ReadMoeModel: a router of another number of experts is refused", "[store]") {
  GgufBuilder gguf = OneLayer();
  gguf.AddTensor("blk.0.ffn_gate_inp.weight", WeightType::kF32, {64, 5});
  CHECK(MustRefuse(gguf).message ==
        "blk.0.ffn_gate_inp.weight is 64 x 5 x 1, expected 64 x 4 x 1 (hidden x experts)");
}

TEST_CASE("ReadMoeModel: a single expert may come without its dimension", "[store]") {
  GgufBuilder gguf;
  gguf.Text("general.architecture", "llama").U32("llama.expert_used_count", 1);
  gguf.AddTensor("blk.0.ffn_gate_exps.weight", WeightType::kF32, {64, 32});
  gguf.AddTensor("blk.0.ffn_up_exps.weight", WeightType::kF32, {64, 32});
  gguf.AddTensor("blk.0.ffn_down_exps.weight", WeightType::kF32, {32, 64});
  CHECK(MustRead(gguf).geometry.layers[0].experts == 1);
}

TEST_CASE("ReadMoeModel: shapes that contradict each other are refused with both", "[store]") {
  const auto with = [](const std::string& suffix, std::vector<uint64_t> shape) {
    GgufBuilder gguf = OneLayer({suffix});
    gguf.AddTensor("blk.0." + suffix, WeightType::kF32, std::move(shape));
    return MustRefuse(gguf).message;
  };
  CHECK(with("ffn_up_exps.weight", {64, 48, 4}) ==
        "blk.0.ffn_up_exps.weight is 64 x 48 x 4, expected 64 x 32 x 4 (hidden x ffn x experts, as "
        "gate)");
  CHECK(with("ffn_down_exps.weight", {64, 32, 4}) ==
        "blk.0.ffn_down_exps.weight is 64 x 32 x 4, expected 32 x 64 x 4 (ffn x hidden x experts)");
  CHECK(with("ffn_down_exps.weight", {32, 64, 3}) ==
        "blk.0.ffn_down_exps.weight is 32 x 64 x 3, expected 32 x 64 x 4 (ffn x hidden x experts)");
  CHECK(with("ffn_gate_exps.weight", {64, 32, 4, 2}) ==
        "blk.0.ffn_gate_exps.weight is 64 x 32 x 4 x 2, expected hidden x ffn x experts");
}

TEST_CASE("ReadMoeModel: sizes above the limits are refused with the limit", "[store]") {
  const auto with = [](uint64_t hidden, uint64_t ffn, uint64_t experts) {
    GgufBuilder gguf;
    gguf.Text("general.architecture", "llama").U32("llama.expert_used_count", 1);
    gguf.AddTensor("blk.0.ffn_gate_exps.weight", WeightType::kF16, {hidden, ffn, experts});
    gguf.AddTensor("blk.0.ffn_up_exps.weight", WeightType::kF16, {hidden, ffn, experts});
    gguf.AddTensor("blk.0.ffn_down_exps.weight", WeightType::kF16, {ffn, hidden, experts});
    return MustRefuse(gguf).message;
  };
  CHECK(with(65537, 1, 1) == "blk.0.ffn_gate_exps.weight: hidden is 65537, the limit is 65536");
  CHECK(with(1, 262145, 1) == "blk.0.ffn_gate_exps.weight: ffn is 262145, the limit is 262144");
  CHECK(with(1, 1, 4097) == "blk.0.ffn_gate_exps.weight: experts is 4097, the limit is 4096");
  GgufBuilder deep = OneLayer();
  deep.AddTensor("blk.1024.ffn_gate_exps.weight", WeightType::kF32, {64, 32, 4});
  CHECK(MustRefuse(deep).message ==
        "blk.1024.ffn_gate_exps.weight: block numbers up to 1023 are served");
}

TEST_CASE("ReadMoeModel: a type without kernel is refused by name, or held without compute",
          "[store]") {
  const GgufBuilder gguf =
      MakeMoeGguf({.hidden = 256, .ffn = 256, .up = static_cast<WeightType>(16)});
  const Error error = MustRefuse(gguf);
  CHECK(error.reason == Reason::kUnsupportedType);
  CHECK(error.message ==
        "blk.0.ffn_up_exps.weight is IQ2_XXS, for which there is no kernel; a store of the source "
        "layout can hold it, without compute");
  const MoeModel held = MustRead(gguf, {.form = kernels::RecordForm::kSource});
  CHECK(!held.geometry.layers[0].compute);
  CHECK(Raw(held.geometry.layers[0].shape.up) == 16);
  CHECK(Part(held, 0, PartRole::kUp).bytes == 256 * 66);
}

}  // namespace moetier
