#include "tiers/nvme/read_queue.h"

#include <array>
#include <catch2/catch.hpp>
#include <cerrno>
#include <vector>

#include "base/bytes.h"

namespace moetier {
namespace {

constexpr uint32_t kBlock = 4096;
constexpr uint32_t kPiece = 4 * kBlock;

// Spans over memory that nobody touches: the queue moves addresses only.
std::span<std::byte> Somewhere(size_t size) {
  return {reinterpret_cast<std::byte*>(uintptr_t{1} << 40), size};
}

ReadRequest Request(uint64_t id, uint64_t bytes, Urgency urgency = Urgency::kDemand) {
  ReadRequest request{.id = id, .urgency = urgency, .segments = {}, .segment_count = 1};
  request.segments[0] = {FileId{3}, 0, Somewhere(AlignUp(bytes, kBlock)), bytes};
  return request;
}

// A queue with its requests, and what a test asks of them.
class QueueScript {
 public:
  explicit QueueScript(uint32_t depth, uint32_t prefetch_depth = 1)
      : queue_({.depth = depth,
                .prefetch_depth = prefetch_depth,
                .max_requests = 8,
                .piece_bytes = kPiece}) {}

  void Add(uint32_t slot, const ReadRequest& request) {
    requests_[slot] = request;
    queue_.Add(slot, requests_[slot]);
  }
  std::vector<uint32_t> Start() {
    std::vector<uint32_t> started;
    while (const auto index = queue_.NextPiece()) started.push_back(*index);
    return started;
  }
  std::vector<uint32_t> Cancel(uint32_t slot) {
    std::vector<uint32_t> pieces;
    queue_.Cancel(slot, pieces);
    return pieces;
  }
  void FinishWhole(uint32_t piece) {
    queue_.Finish(piece, static_cast<int>(queue_.piece(piece).length));
  }
  ReadQueue& queue() { return queue_; }

 private:
  std::array<ReadRequest, 8> requests_;
  ReadQueue queue_;
};

}  // namespace

TEST_CASE("ReadQueue: a read is cut into pieces that cover it once", "[nvme]") {
  QueueScript script(8);
  script.Add(0, Request(7, 2 * kPiece + kBlock + 1));
  const auto pieces = script.Start();
  REQUIRE(pieces.size() == 3);
  uint64_t offset = 0;
  for (const uint32_t index : pieces) {
    const Piece& piece = script.queue().piece(index);
    CHECK(piece.file == FileId{3});
    CHECK(piece.offset == offset);
    CHECK(piece.address == Somewhere(1).data() + offset);
    offset += piece.length;
  }
  CHECK(offset == 2 * kPiece + 2 * kBlock);  // up to the block of the last needed byte
  for (const uint32_t index : pieces) {
    CHECK(!script.queue().TakeFinished());
    script.FinishWhole(index);
  }
  const auto finished = script.queue().TakeFinished();
  REQUIRE(finished);
  CHECK(finished->completion.id == 7);
  CHECK(finished->completion.outcome == IoOutcome::kOk);
  CHECK(finished->completion.bytes_read == 2 * kPiece + kBlock + 1);
  CHECK(script.queue().idle());
}

TEST_CASE("ReadQueue: nothing is read beyond the last needed block", "[nvme]") {
  QueueScript script(8);
  ReadRequest request = Request(1, kPiece);
  request.segments[0].needed = 10;
  script.Add(0, request);
  const auto pieces = script.Start();
  REQUIRE(pieces.size() == 1);
  CHECK(script.queue().piece(pieces[0]).length == kBlock);
}

TEST_CASE("ReadQueue: segments that need nothing are passed over", "[nvme]") {
  QueueScript script(8);
  ReadRequest request = Request(1, kBlock);
  request.segments[2] = request.segments[0];
  request.segments[0].needed = 0;
  request.segments[1] = request.segments[0];
  request.segment_count = 3;
  script.Add(0, request);
  CHECK(script.Start().size() == 1);

  ReadRequest nothing = Request(2, kBlock);
  nothing.segments[0].needed = 0;
  script.Add(1, nothing);
  CHECK(script.Start().empty());
  const auto finished = script.queue().TakeFinished();
  REQUIRE(finished);
  CHECK(finished->completion.id == 2);
  CHECK(finished->completion.outcome == IoOutcome::kOk);
}

TEST_CASE("ReadQueue: demand passes prefetches that wait", "[nvme]") {
  QueueScript script(2, 2);
  script.Add(0, Request(1, 3 * kPiece, Urgency::kPrefetch));
  const auto prefetches = script.Start();
  REQUIRE(prefetches.size() == 2);
  script.Add(1, Request(2, kPiece));
  script.FinishWhole(prefetches[0]);
  const auto next = script.Start();
  REQUIRE(next.size() == 1);
  script.FinishWhole(next[0]);
  CHECK(script.queue().TakeFinished()->completion.id == 2);
}

TEST_CASE("ReadQueue: prefetches leave the rest of the depth to demand", "[nvme]") {
  QueueScript script(4, 1);
  script.Add(0, Request(1, 3 * kPiece, Urgency::kPrefetch));
  CHECK(script.Start().size() == 1);
  script.Add(1, Request(2, 5 * kPiece));
  CHECK(script.Start().size() == 3);
}

TEST_CASE(
    "ReadQueue: a promoted prefetch stands behind the demand that waits and before prefetches",
    "[nvme]") {
  QueueScript script(1, 1);
  script.Add(0, Request(1, kPiece, Urgency::kPrefetch));
  script.Add(1, Request(2, kPiece, Urgency::kPrefetch));
  script.Add(2, Request(3, kPiece));
  script.queue().Promote(1);
  std::vector<uint64_t> order;
  for (const uint64_t expected : {3, 2, 1}) {
    const auto pieces = script.Start();
    REQUIRE(pieces.size() == 1);
    script.FinishWhole(pieces[0]);
    CHECK(script.queue().TakeFinished()->completion.id == expected);
  }
}

TEST_CASE("ReadQueue: what a promoted read has in flight leaves the prefetches' share", "[nvme]") {
  QueueScript script(4, 1);
  script.Add(0, Request(1, 2 * kPiece, Urgency::kPrefetch));
  script.Add(1, Request(2, kPiece, Urgency::kPrefetch));
  CHECK(script.Start().size() == 1);
  script.queue().Promote(0);
  CHECK(script.Start().size() == 2);  // its second piece, and the other prefetch
}

TEST_CASE("ReadQueue: to promote what is demand, ended or cancelled changes nothing", "[nvme]") {
  QueueScript script(4, 1);
  script.queue().Promote(0);
  script.Add(0, Request(1, kPiece));
  script.queue().Promote(0);
  script.Add(1, Request(2, 2 * kPiece, Urgency::kPrefetch));
  const auto pieces = script.Start();
  REQUIRE(pieces.size() == 2);
  script.Cancel(1);
  script.queue().Promote(1);
  for (const uint32_t piece : pieces) script.FinishWhole(piece);
  CHECK(script.Start().empty());
  CHECK(script.queue().TakeFinished()->completion.outcome == IoOutcome::kOk);
  CHECK(script.queue().TakeFinished()->completion.outcome == IoOutcome::kCancelled);
  CHECK(script.queue().idle());
}

TEST_CASE("ReadQueue: a queued read is cancelled at once", "[nvme]") {
  QueueScript script(1);
  script.Add(0, Request(1, kPiece));
  REQUIRE(script.Start().size() == 1);
  script.Add(1, Request(2, kPiece));
  CHECK(script.Cancel(1).empty());
  const auto finished = script.queue().TakeFinished();
  REQUIRE(finished);
  CHECK(finished->completion.id == 2);
  CHECK(finished->completion.outcome == IoOutcome::kCancelled);
  CHECK(script.Cancel(1).empty());  // twice is once
  CHECK(!script.queue().TakeFinished());
}

TEST_CASE("ReadQueue: a read in flight ends after its last piece, cancelled or not", "[nvme]") {
  QueueScript script(2);
  script.Add(0, Request(1, 3 * kPiece));
  const auto pieces = script.Start();
  REQUIRE(pieces.size() == 2);
  CHECK(script.Cancel(0).size() == 2);
  CHECK(!script.queue().TakeFinished());
  script.queue().Finish(pieces[0], -ECANCELED);
  CHECK(!script.queue().TakeFinished());
  CHECK(script.Start().empty());  // the third piece is not wanted any more
  script.FinishWhole(pieces[1]);
  CHECK(script.queue().TakeFinished()->completion.outcome == IoOutcome::kCancelled);
}

TEST_CASE("ReadQueue: a cancel that comes too late leaves a good read good", "[nvme]") {
  QueueScript script(2);
  script.Add(0, Request(1, 2 * kPiece));
  const auto pieces = script.Start();
  script.Cancel(0);
  for (const uint32_t piece : pieces) script.FinishWhole(piece);
  CHECK(script.queue().TakeFinished()->completion.outcome == IoOutcome::kOk);
}

TEST_CASE("ReadQueue: a partial read goes on from the last whole block", "[nvme]") {
  QueueScript script(1);
  script.Add(0, Request(1, kPiece));
  const uint32_t piece = script.Start().at(0);
  script.queue().Finish(piece, kBlock + 100);
  CHECK(script.Start() == std::vector<uint32_t>{piece});
  CHECK(script.queue().piece(piece).offset == kBlock);
  CHECK(script.queue().piece(piece).address == Somewhere(1).data() + kBlock);
  CHECK(script.queue().piece(piece).length == kPiece - kBlock);
  script.FinishWhole(piece);
  const auto finished = script.queue().TakeFinished();
  REQUIRE(finished);
  CHECK(finished->completion.outcome == IoOutcome::kOk);
  CHECK(finished->completion.bytes_read == kPiece);
}

TEST_CASE("ReadQueue: the file's end within the needed bytes is short, with the bytes had",
          "[nvme]") {
  QueueScript script(1);
  script.Add(0, Request(1, 2 * kPiece));
  script.FinishWhole(script.Start().at(0));
  const uint32_t piece = script.Start().at(0);
  SECTION("the rest reads nothing") {
    script.queue().Finish(piece, 3 * kBlock);
    CHECK(script.Start().size() == 1);
    script.queue().Finish(piece, 0);
    CHECK(script.queue().TakeFinished()->completion.bytes_read == kPiece + 3 * kBlock);
  }
  SECTION("the rest reads the same bytes again") {
    script.queue().Finish(piece, 2 * kBlock + 5);
    CHECK(script.Start().size() == 1);
    script.queue().Finish(piece, 5);
    const auto finished = script.queue().TakeFinished();
    REQUIRE(finished);
    CHECK(finished->completion.outcome == IoOutcome::kShort);
    CHECK(finished->completion.segment == 0);
    CHECK(finished->completion.bytes_read == kPiece + 2 * kBlock + 5);
  }
}

TEST_CASE("ReadQueue: the file's end behind the needed bytes is no fault", "[nvme]") {
  QueueScript script(1);
  script.Add(0, Request(1, kBlock + 7));
  script.queue().Finish(script.Start().at(0), kBlock + 7);
  CHECK(script.queue().TakeFinished()->completion.outcome == IoOutcome::kOk);
}

TEST_CASE("ReadQueue: an error names the first segment and waits for the other pieces", "[nvme]") {
  QueueScript script(2);
  ReadRequest request = Request(1, kPiece);
  for (uint32_t i = 1; i < 3; ++i) request.segments[i] = request.segments[0];
  request.segment_count = 3;
  script.Add(0, request);
  const auto pieces = script.Start();
  REQUIRE(pieces.size() == 2);
  script.queue().Finish(pieces[1], -EIO);
  CHECK(script.Start().empty());  // the third segment is not tried
  CHECK(!script.queue().TakeFinished());
  script.queue().Finish(pieces[0], -ENXIO);
  const auto finished = script.queue().TakeFinished();
  REQUIRE(finished);
  CHECK(finished->completion.outcome == IoOutcome::kError);
  CHECK(finished->completion.segment == 0);
  CHECK(finished->completion.error_number == ENXIO);
}

TEST_CASE("ReadQueue: the rest of a partial read is read if it may fail before the known failure",
          "[nvme]") {
  QueueScript script(2);
  ReadRequest request = Request(1, kPiece);
  request.segments[1] = request.segments[0];
  request.segment_count = 2;
  script.Add(0, request);
  const auto pieces = script.Start();
  uint32_t segment = 0;
  SECTION("the failure lies before it: it is left") {
    script.queue().Finish(pieces[0], -EIO);
    script.queue().Finish(pieces[1], kBlock);
    CHECK(script.Start().empty());
  }
  SECTION("the failure lies behind it: it goes on, and does not count as short") {
    script.queue().Finish(pieces[1], -EIO);
    script.queue().Finish(pieces[0], kBlock);
    CHECK(script.Start() == std::vector<uint32_t>{pieces[0]});
    script.FinishWhole(pieces[0]);
    segment = 1;
  }
  const auto finished = script.queue().TakeFinished();
  REQUIRE(finished);
  CHECK(finished->completion.outcome == IoOutcome::kError);
  CHECK(finished->completion.error_number == EIO);
  CHECK(finished->completion.segment == segment);
}

TEST_CASE("ReadQueue: interrupted pieces are tried again, but not for ever", "[nvme]") {
  QueueScript script(1);
  script.Add(0, Request(1, kPiece));
  uint32_t tries = 0;
  for (auto pieces = script.Start(); !pieces.empty(); pieces = script.Start()) {
    script.queue().Finish(pieces[0], -EAGAIN);
    REQUIRE(++tries < 100);
  }
  CHECK(tries > 1);
  const auto finished = script.queue().TakeFinished();
  REQUIRE(finished);
  CHECK(finished->completion.error_number == EAGAIN);
}

}  // namespace moetier
