#ifndef MOETIER_TIERS_NVME_READ_QUEUE_H_
#define MOETIER_TIERS_NVME_READ_QUEUE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "tiers/nvme/piece_engine.h"
#include "tiers/nvme/record_reader.h"

namespace moetier {

// Splits requests into pieces, says which piece to start next, and joins their results. Demand
// passes prefetch, each in the order of arrival. Pure: no thread, clock or I/O, no allocation after
// construction.
class ReadQueue {
 public:
  struct Options {
    uint32_t depth = 0;                // pieces in flight
    uint32_t prefetch_depth = 0;       // of them, at most this many for prefetches
    uint32_t max_requests = 0;         // request slots
    uint32_t piece_bytes = 512 << 10;  // a multiple of kRecordAlignment
  };
  struct Finished {
    uint32_t slot = 0;
    ReadCompletion completion;
  };

  explicit ReadQueue(const Options& options);

  // `slot` is free and below max_requests; the request stays valid until it has finished.
  void Add(uint32_t slot, const ReadRequest& request);
  // The request is a demand read from now on, behind those that wait. No effect on a finished one.
  void Promote(uint32_t slot);
  // Appends the pieces in flight that the engine should cancel. No effect on a finished request.
  void Cancel(uint32_t slot, std::vector<uint32_t>& pieces);

  // The piece to start now, if any; it counts as in flight until Finish.
  std::optional<uint32_t> NextPiece();
  [[nodiscard]] const Piece& piece(uint32_t index) const { return pieces_[index].piece; }
  // `result` is bytes or -errno. A partial read becomes a new piece for the rest.
  void Finish(uint32_t index, int result);

  // The next finished request; its slot is free afterwards.
  std::optional<Finished> TakeFinished();

  [[nodiscard]] bool idle() const { return requests_active_ == 0; }
  [[nodiscard]] uint32_t requests_active() const { return requests_active_; }
  // Requests of which some piece is in flight.
  [[nodiscard]] uint32_t requests_started() const { return requests_started_; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Failure {
    IoOutcome outcome = IoOutcome::kOk;
    int error_number = 0;
    uint32_t segment = 0;
    uint64_t position = 0;  // in the segment
  };
  struct Request {
    const ReadRequest* request = nullptr;  // null: the slot is free or finished
    Urgency urgency = Urgency::kDemand;    // the request's, until it is promoted
    uint32_t segment = 0;                  // the next piece starts here
    uint64_t position = 0;
    uint32_t in_flight = 0;
    uint64_t bytes = 0;
    bool waiting = false;  // linked in its urgency's list
    bool cancel_asked = false;
    bool incomplete = false;  // some piece was not started, or was cancelled
    bool finished = false;    // in the list of TakeFinished
    Failure failure{};
    uint32_t previous = kNone, next = kNone;
  };
  struct PieceState {
    Piece piece;  // what is read now: the whole, or the rest after a partial read
    uint32_t slot = kNone;
    uint32_t segment = 0;
    uint64_t position = 0;  // of the whole piece in its segment
    uint64_t needed = 0;    // bytes of the whole piece
    uint64_t done = 0;      // bytes known to have arrived
    uint32_t rest_start = 0;
    uint32_t transient_errors = 0;
  };
  struct WaitingList {
    uint32_t head = kNone, tail = kNone;
  };

  WaitingList& ListOf(const Request& request);
  void Link(uint32_t slot);
  void Unlink(uint32_t slot);
  void StopStarting(uint32_t slot);
  void SkipEmptySegments(Request& request);
  std::optional<uint32_t> CutPiece(uint32_t slot);
  bool ContinuePartial(PieceState& state, int result);
  void Fail(PieceState& state, IoOutcome outcome, int error_number);
  void FinishIfDone(uint32_t slot);

  const Options options_;
  std::vector<Request> requests_;
  std::vector<PieceState> pieces_;
  std::vector<uint32_t> free_pieces_;
  std::vector<uint32_t> restarts_;  // pieces whose rest is to be read; still in flight
  std::vector<uint32_t> finished_;  // slots, a ring buffer of max_requests
  uint32_t finished_begin_ = 0, finished_count_ = 0;
  WaitingList demand_, prefetch_;
  uint32_t prefetch_in_flight_ = 0;  // pieces
  uint32_t requests_active_ = 0, requests_started_ = 0;
};

}  // namespace moetier

#endif  // MOETIER_TIERS_NVME_READ_QUEUE_H_
