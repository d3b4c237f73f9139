#include "tests/unit/store/read_model.h"

#include <catch2/catch.hpp>

namespace moetier::testing {

using kernels::WeightType;

Result<MoeModel> Read(const GgufBuilder& gguf, const MoeModelOptions& options) {
  const std::vector<std::byte> bytes = gguf.Bytes();
  const Result<GgufModel> model = GgufModel::Parse(bytes, bytes.size(), "m.gguf");
  INFO((model.has_value() ? "" : model.error().message));
  REQUIRE(model.has_value());
  return ReadMoeModel(*model, options);
}

MoeModel MustRead(const GgufBuilder& gguf, const MoeModelOptions& options) {
  Result<MoeModel> model = Read(gguf, options);
  INFO((model.has_value() ? "" : model.error().message));
  REQUIRE(model.has_value());
  return std::move(model).value();
}

Error MustRefuse(const GgufBuilder& gguf, const MoeModelOptions& options) {
  Result<MoeModel> model = Read(gguf, options);
  REQUIRE(!model.has_value());
  return std::move(model).error();
}

const PartSource& Part(const MoeModel& model, size_t layer, kernels::PartRole role) {
  const auto& part = model.layers[layer].parts[static_cast<size_t>(role)];
  REQUIRE(part.has_value());
  return *part;
}

GgufBuilder OneLayer(const std::set<std::string>& without) {
  GgufBuilder gguf;
  gguf.Text("general.architecture", "qwen3moe").U32("qwen3moe.expert_used_count", 2);
  const auto add = [&](const std::string& suffix, std::vector<uint64_t> shape) {
    if (!without.contains(suffix)) {
      gguf.AddTensor("blk.0." + suffix, WeightType::kF32, std::move(shape));
    }
  };
  add("ffn_gate_exps.weight", {64, 32, 4});
  add("ffn_up_exps.weight", {64, 32, 4});
  add("ffn_down_exps.weight", {32, 64, 4});
  return gguf;
}

}  // namespace moetier::testing
