#include "tests/sim/sim_model.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/expert_ffn.h"
#include "tiers/arena_plan.h"

namespace moetier {
namespace {

class SimStore final : public ExpertStore {
 public:
  SimStore(const SimModel& model, const testing::SyntheticModel& records, SimModel::Landing landing,
           SimModel::Checks checks)
      : model_(model), records_(records), landing_(landing), checks_(checks) {
    files_.push_back({.path = "sim", .bytes = model.file().size()});
  }
  const ModelGeometry& geometry() const override { return model_.geometry(); }
  StoreKind kind() const override { return StoreKind::kPackedRows16; }
  uint64_t fingerprint() const override { return 42; }
  std::span<const StoreFile> files() const override { return files_; }
  std::span<const std::string> source_paths() const override { return {}; }
  ExtentList Locate(LayerIndex layer, ExpertIndex expert) const override {
    ExtentList list;
    list.extents[0] = records_.Locate(layer, expert);
    list.count = 1;
    return list;
  }
  bool lands_directly() const override { return landing_ == SimModel::Landing::kDirect; }
  Status Land(LayerIndex layer, ExpertIndex expert,
              std::span<const std::span<const std::byte>> landed, std::span<std::byte> slot,
              Verify verify) const override {
    const std::span<const std::byte> truth = model_.Record({kSimModel, layer, expert});
    if (verify == Verify::kYes && checks_ == SimModel::Checks::kHonest &&
        !std::ranges::equal(landed[0], truth)) {
      return Error{ErrorCode::kDataLoss, Reason::kChecksum, "the bytes are not the record's"};
    }
    if (!lands_directly()) std::memcpy(slot.data(), landed[0].data(), landed[0].size());
    return Ok{};
  }

 private:
  const SimModel& model_;
  const testing::SyntheticModel& records_;
  const SimModel::Landing landing_;
  const SimModel::Checks checks_;
  std::vector<StoreFile> files_;
};

}  // namespace

SimModel::SimModel()
    : model_({.experts = 8, .hidden = 32, .ffn = 32}),
      file_(model_.file()),
      kernels_(kernels::ExpertKernels::Create(kernels::BestInstructionSet()).value()),
      lane_({.workers = 1}, kernels_) {
  rows_ = model_.MakeCall(geometry().layers.front().layer, kRows, 1, 7).hidden;
  for (const LayerGeometry& layer : geometry().layers) {
    for (uint16_t expert = 0; expert < layer.experts; ++expert) {
      keys_.push_back({kSimModel, layer.layer, ExpertIndex{expert}});
      offsets_.push_back(model_.Locate(layer.layer, ExpertIndex{expert}).offset);
      LayerCall all;
      all.layer = layer.layer;
      all.rows = kRows;
      all.top_k = 1;
      all.hidden = rows_;
      all.experts.assign(kRows, expert);
      all.weights.assign(kRows, 1.0f);
      made_.push_back(model_.Reference(all));
    }
  }
}

size_t SimModel::IndexOf(const ExpertKey& key) const {
  const auto found = std::ranges::lower_bound(keys_, key);
  MOE_CHECK(found != keys_.end() && *found == key, "{} is no expert", ToString(key));
  return static_cast<size_t>(found - keys_.begin());
}

std::span<const std::byte> SimModel::Record(const ExpertKey& key) const {
  return file_.subspan(offsets_[IndexOf(key)], geometry().Find(key.layer)->record.bytes);
}

const ExpertKey& SimModel::KeyAt(uint64_t offset) const {
  const auto found = std::ranges::find(offsets_, offset);
  MOE_CHECK(found != offsets_.end(), "no record begins at {}", offset);
  return keys_[static_cast<size_t>(found - offsets_.begin())];
}

std::span<const float> SimModel::Row(uint32_t row) const {
  return std::span(rows_).subspan(size_t{row} * geometry().hidden, geometry().hidden);
}

std::vector<float> SimModel::Expected(const LayerCall& call, std::span<const uint32_t> rows) const {
  const size_t hidden = geometry().hidden;
  std::vector<float> output(call.rows * hidden);
  for (size_t row = 0; row < call.rows; ++row) {
    const std::span<float> out = std::span(output).subspan(row * hidden, hidden);
    for (size_t pick = 0; pick < call.top_k; ++pick) {
      const size_t at = row * call.top_k + pick;
      const std::vector<float>& made =
          made_[IndexOf({kSimModel, call.layer, ExpertIndex{call.experts[at]}})];
      kernels::AddWeighted(out, call.weights[at],
                           std::span(made).subspan(size_t{rows[row]} * hidden, hidden));
    }
    kernels::CanonicaliseNan(out);
  }
  return output;
}

std::unique_ptr<ExpertStore> SimModel::MakeStore(Landing landing, Checks checks) const {
  return std::make_unique<SimStore>(*this, model_, landing, checks);
}

std::unique_ptr<Arena> SimModel::TakeArena() {
  if (arena_) return std::move(arena_);
  const ArenaPlan plan =
      PlanArena(geometry().size_classes, geometry().TotalBytes(), geometry().top_k).value();
  return Arena::Create(plan, {}).value();
}

}  // namespace moetier
