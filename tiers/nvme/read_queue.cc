#include "tiers/nvme/read_queue.h"

#include <algorithm>
#include <cerrno>
#include <tuple>

#include "base/bytes.h"
#include "base/check.h"
#include "tiers/store/model_geometry.h"

namespace moetier {
namespace {

// 8: a signal or a full kernel queue passes within a few tries; a device that keeps saying EAGAIN
// is broken.
constexpr uint32_t kMaxTransientErrors = 8;

// What has to be read of a segment: up to the block that holds the last needed byte.
uint64_t LengthToRead(const ReadSegment& segment) {
  return std::min<uint64_t>(segment.destination.size(), AlignUp(segment.needed, kRecordAlignment));
}

}  // namespace

ReadQueue::ReadQueue(const Options& options)
    : options_(options),
      requests_(options.max_requests),
      pieces_(options.depth),
      finished_(options.max_requests) {
  free_pieces_.reserve(options.depth);
  restarts_.reserve(options.depth);
  for (uint32_t index = options.depth; index > 0; --index) free_pieces_.push_back(index - 1);
}

ReadQueue::WaitingList& ReadQueue::ListOf(const Request& request) {
  return request.urgency == Urgency::kDemand ? demand_ : prefetch_;
}

void ReadQueue::Link(uint32_t slot) {
  Request& request = requests_[slot];
  WaitingList& list = ListOf(request);
  request.waiting = true;
  request.previous = list.tail;
  request.next = kNone;
  (list.tail == kNone ? list.head : requests_[list.tail].next) = slot;
  list.tail = slot;
}

void ReadQueue::Unlink(uint32_t slot) {
  Request& request = requests_[slot];
  WaitingList& list = ListOf(request);
  request.waiting = false;
  (request.previous == kNone ? list.head : requests_[request.previous].next) = request.next;
  (request.next == kNone ? list.tail : requests_[request.next].previous) = request.previous;
}

void ReadQueue::Add(uint32_t slot, const ReadRequest& request) {
  MOE_CHECK(requests_[slot].request == nullptr, "read slot {} is taken", slot);
  requests_[slot] = Request{.request = &request, .urgency = request.urgency};
  ++requests_active_;
  SkipEmptySegments(requests_[slot]);
  Link(slot);
  if (requests_[slot].segment == request.segment_count) Unlink(slot);  // nothing is needed
  FinishIfDone(slot);
}

void ReadQueue::SkipEmptySegments(Request& request) {
  const ReadRequest& wanted = *request.request;
  while (request.segment < wanted.segment_count &&
         request.position >= LengthToRead(wanted.segments[request.segment])) {
    ++request.segment;
    request.position = 0;
  }
}

// A failed or cancelled request starts no further piece.
void ReadQueue::StopStarting(uint32_t slot) {
  if (!requests_[slot].waiting) return;
  requests_[slot].incomplete = true;
  Unlink(slot);
}

void ReadQueue::Promote(uint32_t slot) {
  Request& request = requests_[slot];
  if (request.request == nullptr || request.urgency == Urgency::kDemand) return;
  const bool waiting = request.waiting;
  if (waiting) Unlink(slot);
  request.urgency = Urgency::kDemand;
  prefetch_in_flight_ -= request.in_flight;
  if (waiting) Link(slot);
}

void ReadQueue::Cancel(uint32_t slot, std::vector<uint32_t>& pieces) {
  Request& request = requests_[slot];
  if (request.request == nullptr || request.finished) return;
  // Once the last piece has started the request may still end well: then it is kOk.
  request.cancel_asked = true;
  StopStarting(slot);
  for (uint32_t index = 0; index < pieces_.size(); ++index) {
    if (pieces_[index].slot == slot) pieces.push_back(index);
  }
  FinishIfDone(slot);
}

std::optional<uint32_t> ReadQueue::NextPiece() {
  if (!restarts_.empty()) {
    const uint32_t index = restarts_.back();
    restarts_.pop_back();
    return index;
  }
  if (free_pieces_.empty()) return std::nullopt;
  if (demand_.head != kNone) return CutPiece(demand_.head);
  if (prefetch_.head != kNone && prefetch_in_flight_ < options_.prefetch_depth) {
    return CutPiece(prefetch_.head);
  }
  return std::nullopt;
}

std::optional<uint32_t> ReadQueue::CutPiece(uint32_t slot) {
  Request& request = requests_[slot];
  const ReadSegment& segment = request.request->segments[request.segment];
  const uint64_t left = LengthToRead(segment) - request.position;
  const auto length = static_cast<uint32_t>(std::min<uint64_t>(left, options_.piece_bytes));
  const uint32_t index = free_pieces_.back();
  free_pieces_.pop_back();
  pieces_[index] = PieceState{
      .piece = {.file = segment.file,
                .offset = segment.offset + request.position,
                .address = segment.destination.data() + request.position,
                .length = length},
      .slot = slot,
      .segment = request.segment,
      .position = request.position,
      .needed = std::min<uint64_t>(length, segment.needed - request.position),
  };
  if (request.in_flight++ == 0) ++requests_started_;
  if (request.urgency == Urgency::kPrefetch) ++prefetch_in_flight_;
  request.position += length;
  SkipEmptySegments(request);
  if (request.segment == request.request->segment_count) Unlink(slot);
  return index;
}

// Whether the rest of the piece is to be read: it goes on from the last whole block.
bool ReadQueue::ContinuePartial(PieceState& state, int result) {
  if (result == -EINTR || result == -EAGAIN) return ++state.transient_errors <= kMaxTransientErrors;
  if (result <= 0) return false;
  const uint64_t arrived = state.rest_start + static_cast<uint64_t>(result);
  if (arrived <= state.done) return false;  // the file ends here, within a block
  state.done = arrived;
  if (arrived >= state.needed) return false;
  const auto start = static_cast<uint32_t>(AlignDown(arrived, kRecordAlignment));
  const uint32_t step = start - state.rest_start;
  state.piece.offset += step;
  state.piece.address += step;
  state.piece.length -= step;
  state.rest_start = start;
  return true;
}

void ReadQueue::Fail(PieceState& state, IoOutcome outcome, int error_number) {
  Request& request = requests_[state.slot];
  const Failure failure{outcome, error_number, state.segment, state.position + state.done};
  const auto place = [](const Failure& f) { return std::tuple(f.segment, f.position); };
  if (request.failure.outcome == IoOutcome::kOk || place(failure) < place(request.failure)) {
    request.failure = failure;
  }
  StopStarting(state.slot);
}

void ReadQueue::Finish(uint32_t index, int result) {
  PieceState& state = pieces_[index];
  Request& request = requests_[state.slot];
  MOE_CHECK(request.request != nullptr && request.in_flight > 0, "piece {} is not in flight",
            index);
  // After a failure only the rest of what lies before it can change the answer.
  const Failure& failure = request.failure;
  const bool rest_wanted =
      !request.cancel_asked &&
      (failure.outcome == IoOutcome::kOk ||
       std::tuple(state.segment, state.position) < std::tuple(failure.segment, failure.position));
  const bool has_rest = ContinuePartial(state, result);
  if (has_rest && rest_wanted) {
    restarts_.push_back(index);
    return;
  }
  if (has_rest || (result == -ECANCELED && request.cancel_asked)) {
    request.incomplete = true;
  } else if (result < 0) {
    Fail(state, IoOutcome::kError, -result);
  } else if (state.done < state.needed) {
    Fail(state, IoOutcome::kShort, 0);
  } else {
    request.bytes += state.needed;
  }
  const uint32_t slot = state.slot;
  state.slot = kNone;
  free_pieces_.push_back(index);
  if (request.urgency == Urgency::kPrefetch) --prefetch_in_flight_;
  if (--request.in_flight == 0) --requests_started_;
  FinishIfDone(slot);
}

void ReadQueue::FinishIfDone(uint32_t slot) {
  Request& request = requests_[slot];
  if (request.waiting || request.in_flight > 0) return;
  request.finished = true;
  const auto capacity = static_cast<uint32_t>(finished_.size());
  finished_[(finished_begin_ + finished_count_++) % capacity] = slot;
}

std::optional<ReadQueue::Finished> ReadQueue::TakeFinished() {
  if (finished_count_ == 0) return std::nullopt;
  const uint32_t slot = finished_[finished_begin_];
  finished_begin_ = (finished_begin_ + 1) % static_cast<uint32_t>(finished_.size());
  --finished_count_;
  Request& request = requests_[slot];
  Finished finished{.slot = slot, .completion = {.id = request.request->id}};
  ReadCompletion& completion = finished.completion;
  const Failure& failure = request.failure;
  if (!request.incomplete && failure.outcome == IoOutcome::kOk) {
    completion.bytes_read = request.bytes;
  } else if (request.cancel_asked) {
    completion.outcome = IoOutcome::kCancelled;
  } else {
    completion.outcome = failure.outcome;
    completion.error_number = failure.error_number;
    completion.segment = failure.segment;
    completion.bytes_read = failure.position;
  }
  request.request = nullptr;
  --requests_active_;
  return finished;
}

}  // namespace moetier
