#include "tests/gpu/bench_layer.h"

#include <bit>
#include <random>

#include "kernels/reference/reference_expert.h"
#include "tests/unit/kernels/random_expert.h"

namespace moetier::bench {

using namespace kernels;        // NOLINT: a program of its own
using namespace kernels::cuda;  // NOLINT

Result<std::unique_ptr<BenchLayer>> BenchLayer::Create(KernelDevice& device,
                                                       const Options& options) {
  std::unique_ptr<BenchLayer> layer(new BenchLayer(device, options));
  RETURN_IF_ERROR(layer->FillExperts());
  RETURN_IF_ERROR(layer->FillCall());
  return layer;
}

Status BenchLayer::FillExperts() {
  const WeightType type = options_.type;
  const ExpertShape shape = {
      .hidden = options_.hidden, .ffn = options_.ffn, .gate = type, .up = type, .down = type};
  ASSIGN_OR_RETURN(layout_, MakeRecordLayout(shape, RecordForm::kRows16));
  ASSIGN_OR_RETURN(plan_, MakeExpertPlan(shape, layout_));
  gate_up_bytes_ = 2 * plan_.gate.bytes * ((options_.ffn + 15) / 16);
  down_bytes_ = plan_.down_place.bytes * ((options_.hidden + 15) / 16);
  const size_t call_bytes = options_.experts * layout_.bytes;
  calls_ = static_cast<uint32_t>((options_.rotated_bytes + call_bytes - 1) / call_bytes);

  const RandomExpert expert(shape, BlockKind::kTame, 7);
  std::mt19937_64 random(8);
  std::vector<float> rows;
  for (uint32_t r = 0; r < options_.rows; ++r) {
    const std::vector<float> row = NormalRow(options_.hidden, random);
    std::vector<float> expected(options_.hidden);
    ReferenceExpert(shape, expert.source(), row, expected);
    rows.insert(rows.end(), row.begin(), row.end());
    expected_.insert(expected_.end(), expected.begin(), expected.end());
  }
  AlignedRecord packed = PackedRecord(expert, layout_);
  ASSIGN_OR_RETURN(records_, device_.Allocate(all_bytes(), options_.memory));
  RETURN_IF_ERROR(device_.Copy(records_, packed.bytes().data(), layout_.bytes));
  for (size_t e = 1; e < size_t{calls_} * options_.experts; ++e) {
    RETURN_IF_ERROR(device_.Copy(records_ + e * layout_.bytes, records_, layout_.bytes));
  }
  RETURN_IF_ERROR(device_.Wait());
  ASSIGN_OR_RETURN(prepare_.values, Upload(device_, rows));
  return Ok{};
}

Status BenchLayer::FillCall() {
  const uint32_t rows = options_.rows;
  const uint32_t experts = options_.experts;
  std::vector<ExpertRun> runs;
  for (uint32_t e = 0; e < calls_ * experts; ++e) {
    runs.push_back({records_ + e * layout_.bytes, e % experts * rows, rows});
  }
  std::vector<uint32_t> row_of_pick;  // expert by expert
  for (uint32_t p = 0; p < picks(); ++p) row_of_pick.push_back(p % rows);
  std::vector<uint32_t> first_of_row;
  std::vector<uint32_t> in_order;
  for (uint32_t r = 0; r <= rows; ++r) first_of_row.push_back(r * experts);
  for (uint32_t p = 0; p < picks(); ++p) in_order.push_back(p % experts * rows + p / experts);
  ASSIGN_OR_RETURN(runs_, Upload(device_, runs));
  ASSIGN_OR_RETURN(row_of_pick_, Upload(device_, row_of_pick));
  ASSIGN_OR_RETURN(prepare_.out, NewRows(device_, rows, options_.hidden));
  prepare_.rows = rows;
  ASSIGN_OR_RETURN(h_, NewRows(device_, picks(), options_.ffn));
  ASSIGN_OR_RETURN(y_, Upload(device_, std::vector<float>(size_t{picks()} * options_.hidden)));
  combine_.y = y_;
  combine_.hidden = options_.hidden;
  combine_.rows = rows;
  ASSIGN_OR_RETURN(combine_.first_of_row, Upload(device_, first_of_row));
  ASSIGN_OR_RETURN(combine_.pick_in_order, Upload(device_, in_order));
  ASSIGN_OR_RETURN(combine_.weight_in_order, Upload(device_, std::vector<float>(picks(), 0.125f)));
  ASSIGN_OR_RETURN(combine_.out,
                   Upload(device_, std::vector<float>(size_t{rows} * options_.hidden)));
  return Ok{};
}

GateUpCall BenchLayer::GateUp(uint32_t call, uint32_t staged_blocks) const {
  const ExpertRun* runs = runs_ + call * options_.experts;
  return {plan_,        runs, options_.experts, options_.rows, row_of_pick_,
          prepare_.out, h_,   staged_blocks};
}

DownCall BenchLayer::Down(uint32_t call, uint32_t staged_blocks) const {
  return {plan_,        runs_ + call * options_.experts, options_.experts, options_.rows, h_, y_,
          staged_blocks};
}

Status BenchLayer::CheckBits(uint32_t staged_blocks) {
  // What an earlier call left there must not pass for this one's.
  const std::vector<float> none(size_t{picks()} * options_.hidden, 1e30f);
  RETURN_IF_ERROR(device_.Copy(y_, none.data(), none.size() * sizeof(float)));
  RETURN_IF_ERROR(device_.Wait());
  RETURN_IF_ERROR(device_.Run([&] { return WholeCalls(staged_blocks, 1); }));
  ASSIGN_OR_RETURN(const std::vector<float> y, Download(device_, y_, none.size()));
  size_t different = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    const float expected = expected_[i % expected_.size()];
    if (std::bit_cast<uint32_t>(y[i]) != std::bit_cast<uint32_t>(expected)) ++different;
  }
  if (different == 0) return Ok{};
  return Error{ErrorCode::kDataLoss, Reason::kUnspecified,
               fmt::format("{} of {} outputs of {} differ from the reference (staged_blocks {})",
                           different, y.size(), Info(options_.type).name, staged_blocks)};
}

int BenchLayer::WholeCalls(uint32_t staged_blocks, uint32_t calls) const {
  int code = 0;
  for (uint32_t call = 0; call < calls && code == 0; ++call) {
    const uint32_t experts = call % calls_;
    code = LaunchPrepare(prepare_, device_.stream());
    if (code == 0) code = LaunchGateUp(GateUp(experts, staged_blocks), device_.stream());
    if (code == 0) code = LaunchDown(Down(experts, staged_blocks), device_.stream());
    if (code == 0) code = LaunchCombine(combine_, device_.stream());
  }
  return code;
}

int BenchLayer::GateUpRound(uint32_t staged_blocks) const {
  int code = 0;
  for (uint32_t call = 0; call < calls_ && code == 0; ++call) {
    code = LaunchGateUp(GateUp(call, staged_blocks), device_.stream());
  }
  return code;
}

int BenchLayer::DownRound(uint32_t staged_blocks) const {
  int code = 0;
  for (uint32_t call = 0; call < calls_ && code == 0; ++call) {
    code = LaunchDown(Down(call, staged_blocks), device_.stream());
  }
  return code;
}

int BenchLayer::Round(uint32_t staged_blocks) const {
  const int code = GateUpRound(staged_blocks);
  return code != 0 ? code : DownRound(staged_blocks);
}

}  // namespace moetier::bench
