#include "tests/sim/gpu_models.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/check.h"
#include "kernels/expert_ffn.h"
#include "kernels/reference/reference_expert.h"
#include "tests/support/random.h"
#include "tiers/store/importer.h"

namespace moetier {

using kernels::WeightType;
using testing::MoeSpec;

GpuModel::GpuModel(std::string name, const MoeSpec& spec)
    : name_(std::move(name)),
      spec_(spec),
      gguf_(testing::MakeMoeGguf(spec)),
      directory_(folder_.File("store")) {
  ImportOptions options;
  options.model_path = folder_.File("model.gguf");
  options.store_directory = directory_;
  gguf_.WriteFile(options.model_path);
  const Result<ImportSummary> imported = ImportModel(options, HostFileSystem(), nullptr);
  MOE_CHECK(imported.has_value(), "{}", imported.error().message);
  Random random(spec.seed);
  for (uint32_t i = 0; i < kRows * spec.hidden; ++i) {
    rows_.push_back(static_cast<float>(random.Between(0, 4000)) / 1000 - 2);
  }
}

std::span<const float> GpuModel::Row(uint32_t row) const {
  return std::span(rows_).subspan(size_t{row} * spec_.hidden, spec_.hidden);
}

std::span<const std::byte> GpuModel::Part(uint32_t layer, const char* role, uint32_t expert) const {
  const std::string tensor = fmt::format("blk.{}.ffn_{}_exps.weight", layer, role);
  const auto found =
      std::ranges::find(gguf_.tensors(), tensor, &testing::GgufBuilder::Tensor::name);
  MOE_CHECK(found != gguf_.tensors().end(), "the model has no {}", tensor);
  const size_t bytes = found->data.size() / spec_.experts;
  return std::span(found->data).subspan(expert * bytes, bytes);
}

const std::vector<float>& GpuModel::MadeBy(const Key& key) {
  std::vector<float>& made = made_[key];
  if (!made.empty()) return made;
  const auto& [layer, expert] = key;
  kernels::ExpertShape shape{.hidden = spec_.hidden,
                             .ffn = spec_.ffn,
                             .gate = spec_.gate,
                             .up = spec_.up,
                             .down = layer % 2 == 1 ? spec_.odd_down : spec_.down};
  kernels::SourceExpert source;
  source.parts[static_cast<size_t>(kernels::PartRole::kGate)] = Part(layer, "gate", expert);
  source.parts[static_cast<size_t>(kernels::PartRole::kUp)] = Part(layer, "up", expert);
  source.parts[static_cast<size_t>(kernels::PartRole::kDown)] = Part(layer, "down", expert);
  made.resize(size_t{kRows} * spec_.hidden);
  for (uint32_t row = 0; row < kRows; ++row) {
    kernels::ReferenceExpert(shape, source, Row(row),
                             std::span(made).subspan(size_t{row} * spec_.hidden, spec_.hidden));
  }
  return made;
}

std::vector<float> GpuModel::Expected(const LayerCall& call, std::span<const uint32_t> rows) {
  std::vector<float> output(size_t{call.rows} * spec_.hidden);
  for (size_t row = 0; row < call.rows; ++row) {
    const std::span<float> out = std::span(output).subspan(row * spec_.hidden, spec_.hidden);
    for (size_t pick = 0; pick < call.top_k; ++pick) {
      const size_t at = row * call.top_k + pick;
      const std::vector<float>& made = MadeBy({Raw(call.layer), call.experts[at]});
      kernels::AddWeighted(out, call.weights[at],
                           std::span(made).subspan(size_t{rows[row]} * spec_.hidden, spec_.hidden));
    }
    kernels::CanonicaliseNan(out);
  }
  return output;
}

std::vector<std::unique_ptr<GpuModel>> MakeGpuModels() {
  std::vector<std::unique_ptr<GpuModel>> models;
  const auto add = [&](std::string name, const MoeSpec& spec) {
    models.push_back(std::make_unique<GpuModel>(std::move(name), spec));
  };
  const MoeSpec small{.hidden = 64, .ffn = 64, .experts = 8, .seed = 3};
  MoeSpec each = small;
  each.odd_down = WeightType::kQ4_0;
  add("q8", each);
  each = small;
  each.gate = each.up = WeightType::kMXFP4;
  each.down = WeightType::kBF16;
  each.odd_down = WeightType::kF16;
  add("mxfp4", each);
  each = small;
  each.hidden = each.ffn = 256;
  each.experts = 6;
  each.gate = each.up = WeightType::kQ4_K;
  each.down = WeightType::kQ6_K;
  each.odd_down = WeightType::kQ5_K;
  add("q4_k", each);
  each.gate = each.up = WeightType::kQ2_K;
  each.down = each.odd_down = WeightType::kQ3_K;
  add("q2_k", each);
  return models;
}

}  // namespace moetier
