#include "tests/unit/cuda/layer_call.h"

#include <algorithm>

#include "kernels/cuda/expert_plan.h"

namespace moetier::kernels::cuda {
namespace {

// The picks sorted by expert, and what the kernels need to know of them. `records` is where the
// experts lie on the device.
struct Schedule {
  Schedule(const std::vector<std::byte*>& records, const std::vector<Pick>& picks, uint32_t rows) {
    for (uint32_t expert = 0; expert < records.size(); ++expert) {
      const auto first = static_cast<uint32_t>(order.size());
      for (uint32_t p = 0; p < picks.size(); ++p) {
        if (picks[p].expert != expert) continue;
        order.push_back(p);
        row_of_pick.push_back(picks[p].row);
      }
      const uint32_t count = static_cast<uint32_t>(order.size()) - first;
      runs.push_back({records[expert], first, count});
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

std::vector<float> RowOf(const std::vector<float>& flat, size_t row, size_t columns) {
  const auto begin = flat.begin() + static_cast<ptrdiff_t>(row * columns);
  return {begin, begin + static_cast<ptrdiff_t>(columns)};
}

}  // namespace

std::vector<float> Flat(const Rows& rows) {
  std::vector<float> flat;
  for (const auto& row : rows) flat.insert(flat.end(), row.begin(), row.end());
  return flat;
}

LayerResult RunLayer(const Way& way, const std::vector<RandomExpert>& experts, const Rows& inputs,
                     const std::vector<Pick>& picks) {
  const ExpertShape& shape = experts[0].shape;
  const RecordLayout layout = *MakeRecordLayout(shape, RecordForm::kRows16);
  const ExpertPlan plan = *MakeExpertPlan(shape, layout);
  const auto owner = Must(KernelDevice::Open(way.seed));
  KernelDevice& device = *owner;
  std::vector<std::byte*> records;
  for (const RandomExpert& expert : experts) {
    AlignedRecord packed = PackedRecord(expert, layout);
    records.push_back(Must(device.Allocate(layout.bytes, way.records)));
    Must(device.Copy(records.back(), packed.bytes().data(), layout.bytes));
    Must(device.Wait());
  }
  const auto rows = static_cast<uint32_t>(inputs.size());
  const Schedule schedule(records, picks, rows);
  const ExpertRun* runs = Must(Upload(device, schedule.runs));
  const uint32_t* row_of_pick = Must(Upload(device, schedule.row_of_pick));
  const auto run_count = static_cast<uint32_t>(schedule.runs.size());
  const PreparedRows x = Must(NewRows(device, rows, shape.hidden));
  const PreparedRows h = Must(NewRows(device, static_cast<uint32_t>(picks.size()), shape.ffn));
  float* y = Must(Upload(device, std::vector<float>(picks.size() * shape.hidden, 1e30f)));
  float* out = Must(Upload(device, std::vector<float>(inputs.size() * shape.hidden, 1e30f)));
  const PrepareCall prepare = {Must(Upload(device, Flat(inputs))), rows, x};
  const GateUpCall gate_up = {plan,        runs, run_count, schedule.picks_max,
                              row_of_pick, x,    h,         way.staged_blocks};
  const DownCall down = {plan, runs, run_count, schedule.picks_max, h, y, way.staged_blocks};
  const CombineCall combine = {y,
                               shape.hidden,
                               rows,
                               Must(Upload(device, schedule.first_of_row)),
                               Must(Upload(device, schedule.pick_in_order)),
                               Must(Upload(device, schedule.weight_in_order)),
                               out};
  REQUIRE(LaunchPrepare(prepare, device.stream()) == 0);
  REQUIRE(LaunchGateUp(gate_up, device.stream()) == 0);
  REQUIRE(LaunchDown(down, device.stream()) == 0);
  REQUIRE(LaunchCombine(combine, device.stream()) == 0);
  Must(device.Wait());

  LayerResult result{Rows(picks.size()), Rows(inputs.size())};
  const std::vector<float> all_y = Must(Download(device, y, picks.size() * shape.hidden));
  const std::vector<float> all_out = Must(Download(device, out, inputs.size() * shape.hidden));
  for (size_t place = 0; place < picks.size(); ++place) {
    result.y[schedule.order[place]] = RowOf(all_y, place, shape.hidden);
  }
  for (size_t row = 0; row < inputs.size(); ++row) {
    result.out[row] = RowOf(all_out, row, shape.hidden);
  }
  return result;
}

}  // namespace moetier::kernels::cuda
