#include "daemon/scheduling/layer_batch.h"

#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "kernels/expert_ffn.h"

namespace moetier {
namespace {

constexpr uint32_t kUnitRows = 32;  // RunDownUnit writes whole units

}  // namespace

LayerBatch::LayerBatch(std::vector<PendingCall> calls, const LayerGeometry& geometry)
    : geometry_(geometry),
      stride_(static_cast<uint32_t>(AlignUp(geometry.shape.hidden, kUnitRows))),
      calls_(std::move(calls)) {
  for (uint32_t call = 0; call < calls_.size(); ++call) {
    PendingCall& pending = calls_[call];
    pending.output.output.assign(size_t{pending.call.rows} * geometry.shape.hidden, 0.0f);
    for (uint32_t row = 0; row < pending.call.rows; ++row) rows_.push_back({call, row});
  }
  expert_of_id_.assign(geometry.experts, 0);
}

bool LayerBatch::NextPiece() {
  piece_begin_ = piece_end_;
  if (piece_begin_ == rows_.size()) return false;
  piece_end_ = std::min<uint32_t>(piece_begin_ + kPieceRows, total_rows());
  const uint32_t hidden = geometry_.shape.hidden;
  inputs_.Resize(piece_end_ - piece_begin_, hidden);
  first_result_.clear();
  uint32_t results = 0;
  for (uint32_t i = piece_begin_; i < piece_end_; ++i) {
    const LayerCall& call = calls_[rows_[i].call].call;
    inputs_.PutRow(i - piece_begin_,
                   std::span(call.hidden).subspan(size_t{rows_[i].row} * hidden, hidden));
    first_result_.push_back(results);
    results += call.top_k;
  }
  results_.resize(size_t{results} * stride_);
  masked_.assign(first_result_.size(), 0);
  CollectExperts();
  return true;
}

void LayerBatch::CollectExperts() {
  experts_.clear();
  std::fill(expert_of_id_.begin(), expert_of_id_.end(), 0);
  const auto for_each_pick = [this](auto&& visit) {
    for (uint32_t i = piece_begin_; i < piece_end_; ++i) {
      const LayerCall& call = calls_[rows_[i].call].call;
      for (uint32_t pick = 0; pick < call.top_k; ++pick) {
        const uint16_t id = call.experts[size_t{rows_[i].row} * call.top_k + pick];
        visit(id,
              Use{.piece_row = i - piece_begin_, .result = first_result_[i - piece_begin_] + pick});
      }
    }
  };
  // Two passes make one array of uses, grouped by expert.
  uint32_t uses = 0;
  for (const Admission admission : {Admission::kHot, Admission::kCold}) {
    for_each_pick([&](uint16_t id, const Use& use) {
      const LayerCall& call = calls_[rows_[piece_begin_ + use.piece_row].call].call;
      const bool decodes = call.rows <= kDecodeRows;
      if (decodes != (admission == Admission::kHot)) return;
      ++uses;
      if (expert_of_id_[id] == 0) {
        experts_.push_back(
            {.key = {call.model, call.layer, ExpertIndex{id}}, .admission = admission});
        expert_of_id_[id] = static_cast<uint32_t>(experts_.size());
      }
      PickedExpert& expert = experts_[expert_of_id_[id] - 1];
      ++expert.use_count;
      expert.heat += 1.0f / static_cast<float>(call.rows);
    });
  }
  uint32_t next = 0;
  for (PickedExpert& expert : experts_) {
    expert.first_use = next;
    next += std::exchange(expert.use_count, 0);
  }
  uses_.resize(uses);
  task_tokens_.resize(uses);
  task_results_.resize(uses);
  for_each_pick([&](uint16_t id, Use use) {
    PickedExpert& expert = experts_[expert_of_id_[id] - 1];
    const uint32_t at = expert.first_use + expert.use_count++;
    uses_[at] = use;
    task_tokens_[at] = inputs_.row(use.piece_row);
    task_results_[at] = Result(use.result);
  });
}

LaneTask LayerBatch::Task(uint32_t index, const std::byte* record) {
  const PickedExpert& expert = experts_[index];
  return {.expert = {.shape = &geometry_.shape, .layout = &geometry_.record, .record = record},
          .tokens = std::span(task_tokens_).subspan(expert.first_use, expert.use_count),
          .y = std::span(task_results_).subspan(expert.first_use, expert.use_count)};
}

void LayerBatch::Fail(uint32_t index, const Error& error) {
  const PickedExpert& expert = experts_[index];
  for (uint32_t i = 0; i < expert.use_count; ++i) {
    const Use& use = uses_[expert.first_use + i];
    calls_[rows_[piece_begin_ + use.piece_row].call].fault = error;
    std::fill_n(Result(use.result), stride_, 0.0f);  // never sent; defined for CombinePiece
  }
}

bool LayerBatch::TryMask(uint32_t index) {
  const PickedExpert& expert = experts_[index];
  const std::span<const Use> uses = std::span(uses_).subspan(expert.first_use, expert.use_count);
  const bool may = std::ranges::all_of(uses, [&](const Use& use) {
    const LayerCall& call = calls_[rows_[piece_begin_ + use.piece_row].call].call;
    return call.rows <= kDecodeRows && masked_[use.piece_row] < call.top_k / kMaskedShare;
  });
  if (!may) return false;
  for (const Use& use : uses) {
    const Row& row = rows_[piece_begin_ + use.piece_row];
    ++masked_[use.piece_row];
    calls_[row.call].output.masked.push_back(
        {.row = row.row, .pick = use.result - first_result_[use.piece_row]});
    std::fill_n(Result(use.result), stride_, 0.0f);
  }
  return true;
}

template <typename Visit>
void LayerBatch::ForEachCall(uint32_t index, Visit visit) {
  const PickedExpert& expert = experts_[index];
  uint32_t last_call = UINT32_MAX;  // uses are in row order, so a call's stand together
  for (uint32_t i = 0; i < expert.use_count; ++i) {
    const uint32_t call = rows_[piece_begin_ + uses_[expert.first_use + i].piece_row].call;
    if (call == last_call) continue;
    last_call = call;
    visit(calls_[call]);
  }
}

void LayerBatch::Count(uint32_t index, Resolution resolution) {
  ForEachCall(index, [&](PendingCall& pending) {
    LayerOutput& output = pending.output;
    if (resolution == Resolution::kHit) ++output.hits;
    if (resolution == Resolution::kInFlight) ++output.in_flight;
    if (resolution == Resolution::kMiss) ++output.misses;
  });
}

void LayerBatch::CountLane(uint32_t index, uint32_t lane) {
  ForEachCall(index, [&](PendingCall& pending) {
    std::vector<LaneCount>& lanes = pending.output.lanes;
    const auto found = std::ranges::find(lanes, lane, &LaneCount::lane);
    if (found == lanes.end()) {
      lanes.push_back({.lane = lane, .experts = 1});
    } else {
      ++found->experts;
    }
  });
}

void LayerBatch::CombinePiece() {
  const uint32_t hidden = geometry_.shape.hidden;
  for (uint32_t i = piece_begin_; i < piece_end_; ++i) {
    PendingCall& pending = calls_[rows_[i].call];
    const size_t row = rows_[i].row;
    const std::span<float> out = std::span(pending.output.output).subspan(row * hidden, hidden);
    for (uint32_t pick = 0; pick < pending.call.top_k; ++pick) {
      const float* y = Result(first_result_[i - piece_begin_] + pick);
      kernels::AddWeighted(out, pending.call.weights[row * pending.call.top_k + pick], {y, hidden});
    }
    kernels::CanonicaliseNan(out);
  }
}

}  // namespace moetier
