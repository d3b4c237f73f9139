#include "tests/support/synthetic_model.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "base/check.h"
#include "kernels/expert_ffn.h"
#include "kernels/reference/reference_expert.h"

namespace moetier::testing {
namespace {

using Random = std::mt19937_64;

// Q8_0 blocks with a small scale of either sign and any codes but -128.
std::vector<std::byte> RandomQ8Rows(Random& random, uint64_t bytes) {
  std::vector<std::byte> rows(bytes);
  std::uniform_int_distribution<int> code(-127, 127);
  std::uniform_int_distribution<int> mantissa(0, 1023);
  for (uint64_t block = 0; block + 34 <= bytes; block += 34) {
    // f16 with exponent field 6: 2^-9, so that outputs stay near 1.
    const auto scale = static_cast<uint16_t>(6 << 10 | mantissa(random));
    rows[block] = static_cast<std::byte>(scale & 0xFF);
    rows[block + 1] = static_cast<std::byte>(scale >> 8);
    for (int i = 0; i < 32; ++i) {
      rows[block + 2 + static_cast<uint64_t>(i)] = static_cast<std::byte>(code(random) & 0xFF);
    }
  }
  return rows;
}

class SyntheticStore final : public ExpertStore {
 public:
  explicit SyntheticStore(const SyntheticModel& model) : model_(model) {
    files_.push_back({.path = "synthetic", .bytes = 0});
  }
  const ModelGeometry& geometry() const override { return model_.geometry(); }
  StoreKind kind() const override { return StoreKind::kPackedRows16; }
  uint64_t fingerprint() const override { return 42; }
  std::span<const StoreFile> files() const override { return files_; }
  std::span<const std::string> source_paths() const override { return {}; }
  ExtentList Locate(LayerIndex layer, ExpertIndex expert) const override {
    ExtentList list;
    list.extents[0] = model_.Locate(layer, expert);
    list.count = 1;
    return list;
  }
  bool lands_directly() const override { return true; }
  Status Land(LayerIndex, ExpertIndex, std::span<const std::span<const std::byte>>,
              std::span<std::byte>, Verify) const override {
    return Ok{};
  }

 private:
  const SyntheticModel& model_;
  std::vector<StoreFile> files_;
};

}  // namespace

SyntheticModel::SyntheticModel(const Options& options) {
  geometry_ = {.name = "synthetic",
               .architecture = "test",
               .hidden = options.hidden,
               .top_k = 2,
               .layers = {},
               .size_classes = {}};
  Random random(options.seed);
  std::vector<uint16_t> blocks{1, 2, 4};
  if (options.equal_layers > 0) {
    blocks.resize(options.equal_layers);
    std::iota(blocks.begin(), blocks.end(), uint16_t{0});
  }
  for (const uint16_t block : blocks) {
    const bool is_large = options.equal_layers == 0 && block == 4;
    const uint32_t ffn = is_large ? 2 * options.ffn : options.ffn;
    const auto q8 = kernels::WeightType::kQ8_0;
    LayerGeometry layer;
    layer.layer = LayerIndex{block};
    layer.experts = options.experts;
    layer.shape = {.hidden = options.hidden, .ffn = ffn, .gate = q8, .up = q8, .down = q8};
    layer.record = kernels::MakeRecordLayout(layer.shape, kernels::RecordForm::kRows16).value();
    geometry_.layers.push_back(layer);
  }
  AssignSizeClasses(geometry_);
  for (const LayerGeometry& layer : geometry_.layers) {
    auto& experts = source_.emplace_back();
    auto& offsets = offsets_.emplace_back();
    for (uint32_t expert = 0; expert < layer.experts; ++expert) {
      auto& parts = experts.emplace_back(kernels::kPartRoles);
      const auto bytes = kernels::SourceBytes(layer.shape);
      kernels::SourceExpert source;
      for (size_t role = 0; role < kernels::kPartRoles; ++role) {
        parts[role] = RandomQ8Rows(random, bytes[role]);
        source.parts[role] = parts[role];
      }
      offsets.push_back(file_.size());
      const uint64_t begin = file_.size();
      file_.resize(begin + AlignUp(layer.record.bytes, kRecordAlignment));
      kernels::PackRecord(layer.record, source,
                          std::span(file_).subspan(begin, layer.record.bytes));
    }
  }
}

Extent SyntheticModel::Locate(LayerIndex layer, ExpertIndex expert) const {
  const LayerGeometry* found = geometry_.Find(layer);
  MOE_CHECK(found != nullptr, "blk.{}", Raw(layer));
  const auto ordinal = static_cast<size_t>(found - geometry_.layers.data());
  return {.file = 0, .offset = offsets_[ordinal][Raw(expert)], .bytes = found->record.bytes};
}

std::unique_ptr<ExpertStore> SyntheticModel::MakeStore() const {
  return std::make_unique<SyntheticStore>(*this);
}

LayerCall SyntheticModel::MakeCall(LayerIndex layer, uint32_t rows, uint32_t top_k,
                                   uint64_t seed) const {
  Random random(seed);
  std::normal_distribution<float> normal;
  const LayerGeometry* geometry = geometry_.Find(layer);
  LayerCall call;
  call.layer = layer;
  call.rows = rows;
  call.top_k = top_k;
  for (uint32_t i = 0; i < rows * geometry_.hidden; ++i) call.hidden.push_back(normal(random));
  std::vector<uint16_t> ids(geometry->experts);
  std::iota(ids.begin(), ids.end(), uint16_t{0});
  for (uint32_t row = 0; row < rows; ++row) {
    std::shuffle(ids.begin(), ids.end(), random);
    call.experts.insert(call.experts.end(), ids.begin(), ids.begin() + top_k);
    for (uint32_t pick = 0; pick < top_k; ++pick) call.weights.push_back(normal(random));
  }
  return call;
}

std::vector<float> SyntheticModel::Reference(const LayerCall& call) const {
  const LayerGeometry* layer = geometry_.Find(call.layer);
  const auto ordinal = static_cast<size_t>(layer - geometry_.layers.data());
  const size_t hidden = geometry_.hidden;
  std::vector<float> output(call.rows * hidden);
  std::vector<float> y(hidden);
  for (size_t row = 0; row < call.rows; ++row) {
    const std::span<float> out = std::span(output).subspan(row * hidden, hidden);
    for (size_t pick = 0; pick < call.top_k; ++pick) {
      kernels::SourceExpert source;
      const auto& parts = source_[ordinal][call.experts[row * call.top_k + pick]];
      for (size_t role = 0; role < kernels::kPartRoles; ++role) source.parts[role] = parts[role];
      kernels::ReferenceExpert(layer->shape, source,
                               std::span(call.hidden).subspan(row * hidden, hidden), y);
      kernels::AddWeighted(out, call.weights[row * call.top_k + pick], y);
    }
  }
  return output;
}

}  // namespace moetier::testing
