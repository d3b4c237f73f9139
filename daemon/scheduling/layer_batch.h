#ifndef MOETIER_DAEMON_SCHEDULING_LAYER_BATCH_H_
#define MOETIER_DAEMON_SCHEDULING_LAYER_BATCH_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "daemon/scheduling/cpu_lane.h"
#include "daemon/scheduling/layer_call.h"
#include "kernels/activation_rows.h"
#include "tiers/residency_ledger.h"
#include "tiers/store/model_geometry.h"

namespace moetier {

// A call with the way to answer it and what it has come to so far.
struct PendingCall {
  LayerCall call;
  LayerDone done;
  LayerOutput output;
  std::optional<Error> fault;  // an expert it picked cannot be had
};

// Calls of one model and layer that run as one, so that each expert is read once. Rows are taken in
// pieces of at most kPieceRows; the result of every (row, pick) is kept, and the picks of a row are
// added in its own order, so the bits do not depend on what was merged or on which expert came
// first.
// Threads: the executor's only.
class LayerBatch {
 public:
  static constexpr uint32_t kPieceRows = 64;
  static constexpr uint32_t kDecodeRows = 8;  // larger requests load to the cold end
  // One in so many of a row's picks may be left out. From an empty cache all would be, and what a
  // model then writes is no text.
  static constexpr uint32_t kMaskedShare = 4;

  // One expert of the current piece and the (row, pick) results that wait for it.
  struct PickedExpert {
    ExpertKey key;
    uint32_t first_use = 0;  // into uses()
    uint32_t use_count = 0;
    // One token's worth a request, top_k in sum over its rows and pieces.
    float heat = 0;
    // kCold when only requests of more than kDecodeRows rows picked it.
    Admission admission = Admission::kCold;
  };

  // All calls name the same model and layer; `geometry` is that layer's and outlives the batch.
  LayerBatch(std::vector<PendingCall> calls, const LayerGeometry& geometry);

  // Prepares the next piece: its rows quantised, its experts in order of first appearance, those
  // admitted hot first.
  // False when there are no more rows.
  bool NextPiece();

  [[nodiscard]] std::span<const PickedExpert> experts() const { return experts_; }

  // The lane's task for expert `index`; its spans live until NextPiece.
  LaneTask Task(uint32_t index, const std::byte* record);
  // The expert cannot be had: every call with a row that picked it fails.
  void Fail(uint32_t index, const Error& error);
  // Leaves the expert out of the sums of the rows that picked it, unless a request of more than
  // kDecodeRows rows picked it or a row has kMaskedShare of its picks left out already. Whether it
  // did; else nothing has changed.
  bool TryMask(uint32_t index);
  // Counts the expert for every call that picked it.
  void Count(uint32_t index, Resolution resolution);
  // A lane computed the expert, for every call that picked it.
  void CountLane(uint32_t index, uint32_t lane);

  // After every expert of the piece has run or failed: sums the picks into the calls' outputs.
  void CombinePiece();

  [[nodiscard]] std::vector<PendingCall>& calls() { return calls_; }
  [[nodiscard]] std::span<const PendingCall> calls() const { return calls_; }
  [[nodiscard]] const LayerGeometry& geometry() const { return geometry_; }

 private:
  struct Row {
    uint32_t call;
    uint32_t row;  // within the call
  };
  // One pick: which row of the piece, and where its result lies.
  struct Use {
    uint32_t piece_row;
    uint32_t result;  // index of the [hidden] result
  };

  [[nodiscard]] uint32_t total_rows() const { return static_cast<uint32_t>(rows_.size()); }
  void CollectExperts();
  // Calls `visit` with each call that picked the expert.
  template <typename Visit>
  void ForEachCall(uint32_t index, Visit visit);
  [[nodiscard]] float* Result(uint32_t index) { return results_.data() + size_t{index} * stride_; }

  const LayerGeometry& geometry_;
  const uint32_t stride_;  // floats from one result to the next: hidden, rounded up to a unit
  std::vector<PendingCall> calls_;
  std::vector<Row> rows_;
  uint32_t piece_begin_ = 0;
  uint32_t piece_end_ = 0;
  kernels::ActivationRows inputs_;
  std::vector<uint32_t> first_result_;  // per row of the piece
  std::vector<uint32_t> masked_;        // likewise: picks left out
  std::vector<PickedExpert> experts_;
  std::vector<Use> uses_;
  std::vector<uint32_t> expert_of_id_;  // by expert number: index into experts_ + 1, 0 = not picked
  std::vector<kernels::ActivationRow> task_tokens_;  // parallel to uses_
  std::vector<float*> task_results_;                 // parallel to uses_
  std::vector<float> results_;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_LAYER_BATCH_H_
