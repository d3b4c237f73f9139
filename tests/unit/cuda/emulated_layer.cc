#include "tests/unit/cuda/emulated_layer.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>

#include "kernels/cuda/expert_plan.h"

namespace moetier::kernels::cuda {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// The picks sorted by expert, and what the kernels need to know of them.
struct Schedule {
  Schedule(std::vector<AlignedRecord>& records, const std::vector<Pick>& picks, uint32_t rows) {
    for (uint32_t expert = 0; expert < records.size(); ++expert) {
      const auto first = static_cast<uint32_t>(order.size());
      for (uint32_t p = 0; p < picks.size(); ++p) {
        if (picks[p].expert != expert) continue;
        order.push_back(p);
        row_of_pick.push_back(picks[p].row);
      }
      const uint32_t count = static_cast<uint32_t>(order.size()) - first;
      runs.push_back({records[expert].bytes().data(), first, count});
      picks_max = std::max(picks_max, count);
    }
    runs.push_back({nullptr, 0, 0});  // a place that this call does not need
    for (uint32_t row = 0; row <= rows; ++row) {
      first_of_row.push_back(static_cast<uint32_t>(pick_in_order.size()));
      for (uint32_t p = 0; p < picks.size(); ++p) {
        if (picks[p].row != row) continue;
        const auto place = std::find(order.begin(), order.end(), p) - order.begin();
        pick_in_order.push_back(static_cast<uint32_t>(place));
        weight_in_order.push_back(picks[p].weight);
      }
    }
  }

  std::vector<uint32_t> order;  // of picks on the device
  std::vector<ExpertRun> runs;
  std::vector<uint32_t> row_of_pick;
  uint32_t picks_max = 0;
  std::vector<uint32_t> first_of_row;
  std::vector<uint32_t> pick_in_order;
  std::vector<float> weight_in_order;
};

std::vector<float> Flat(const Rows& rows) {
  std::vector<float> flat;
  for (const auto& row : rows) flat.insert(flat.end(), row.begin(), row.end());
  return flat;
}

std::vector<float> RowOf(const std::vector<float>& flat, size_t row, size_t columns) {
  const auto begin = flat.begin() + static_cast<ptrdiff_t>(row * columns);
  return {begin, begin + static_cast<ptrdiff_t>(columns)};
}

}  // namespace

OwnedRows::OwnedRows(uint32_t rows, uint32_t columns)
    : columns_(columns),
      blocks_((columns + 31) / 32),
      values_(size_t{32} * rows * blocks_, kNan),
      codes_(size_t{32} * rows * blocks_, 99),
      scales_(size_t{rows} * blocks_, kNan),
      scaled_sums_(size_t{rows} * blocks_, kNan),
      half_sums_(size_t{2} * rows * blocks_, 123456) {}

PreparedRows OwnedRows::view() {
  return {values_.data(),    codes_.data(), scales_.data(), scaled_sums_.data(),
          half_sums_.data(), columns_,      blocks_};
}

LayerResult RunLayer(const simt::GridOptions& options, const std::vector<RandomExpert>& experts,
                     const Rows& inputs, const std::vector<Pick>& picks) {
  const ExpertShape& shape = experts[0].shape;
  const RecordLayout layout = *MakeRecordLayout(shape, RecordForm::kRows16);
  const ExpertPlan plan = *MakeExpertPlan(shape, layout);
  std::vector<AlignedRecord> records;
  for (const RandomExpert& expert : experts) records.push_back(PackedRecord(expert, layout));
  const auto rows = static_cast<uint32_t>(inputs.size());
  Schedule schedule(records, picks, rows);
  const auto run_count = static_cast<uint32_t>(schedule.runs.size());
  const std::vector<float> values = Flat(inputs);
  OwnedRows x(rows, shape.hidden);
  OwnedRows h(static_cast<uint32_t>(picks.size()), shape.ffn);
  std::vector<float> y(picks.size() * shape.hidden, 1e30f);
  std::vector<float> out(inputs.size() * shape.hidden, 1e30f);

  simt::Device device(options);
  simt::Stream& stream = device.NewStream();
  REQUIRE(LaunchPrepare({values.data(), rows, x.view()}, &stream) == 0);
  REQUIRE(LaunchGateUp({plan, schedule.runs.data(), run_count, schedule.picks_max,
                        schedule.row_of_pick.data(), x.view(), h.view()},
                       &stream) == 0);
  REQUIRE(
      LaunchDown({plan, schedule.runs.data(), run_count, schedule.picks_max, h.view(), y.data()},
                 &stream) == 0);
  REQUIRE(
      LaunchCombine({y.data(), shape.hidden, rows, schedule.first_of_row.data(),
                     schedule.pick_in_order.data(), schedule.weight_in_order.data(), out.data()},
                    &stream) == 0);
  const Status ran = device.Synchronise();
  if (!ran.has_value()) FAIL(ran.error().message);

  LayerResult result{Rows(picks.size()), Rows(inputs.size())};
  for (size_t place = 0; place < picks.size(); ++place) {
    result.y[schedule.order[place]] = RowOf(y, place, shape.hidden);
  }
  for (size_t row = 0; row < inputs.size(); ++row) result.out[row] = RowOf(out, row, shape.hidden);
  return result;
}

}  // namespace moetier::kernels::cuda
