#include "tiers/nvme/record_reader.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <random>
#include <thread>
#include <vector>

#include "tests/unit/nvme/reader_fixture.h"
#include "tiers/nvme/create_reader.h"

namespace moetier {
namespace {

constexpr uint64_t kFileBytes = (8u << 20) + 1000;  // ends within a block

std::unique_ptr<RecordReader> Make(ReaderOptions options, ReadListener& listener) {
  auto reader = CreateRecordReader(options, listener);
  INFO((reader.has_value() ? "" : reader.error().message));
  REQUIRE(reader.has_value());
  return std::move(reader).value();
}

IoEngine EachEngine() { return GENERATE(from_range(GrantedEngines())); }
IoMode EachMode() { return GENERATE(IoMode::kAuto, IoMode::kBuffered); }

// Submits again what the listener sees fail, from within the listener.
class RetryOnce final : public ReadListener {
 public:
  void OnRead(const ReadCompletion& completion) override {
    if (completion.outcome != IoOutcome::kOk && !retried_.exchange(true)) {
      retry.segments[0].needed = 1;
      if (!reader->Submit(retry).has_value()) return;
    } else {
      book.OnRead(completion);
    }
  }
  CompletionBook book;
  RecordReader* reader = nullptr;
  ReadRequest retry;

 private:
  std::atomic<bool> retried_{false};
};

}  // namespace

TEST_CASE("RecordReader: thousands of random reads deliver the bytes of their offsets", "[nvme]") {
  const IoEngine engine = EachEngine();
  const IoMode mode = EachMode();
  const PatternFolder folder("/var/tmp");
  CompletionBook book;
  auto reader = Make({.queue_depth = 16,
                      .piece_size = 16_KiB,
                      .preadv_threads = 4,
                      .engine = engine,
                      .mode = mode},
                     book);
  const FileId file = reader->AddFile(folder.Make("records", kFileBytes)).value();

  constexpr size_t kSlots = 64;
  constexpr size_t kSlotBytes = 64 << 10;
  const AlignedBuffer memory(kSlots * kSlotBytes);
  std::minstd_rand random(1);
  uint64_t id = 0;
  uint64_t bytes = 0;
  for (int round = 0; round < 20; ++round) {
    std::vector<ReadRequest> requests;
    for (size_t slot = 0; slot < kSlots; ++slot) {
      const uint64_t offset = random() % (kFileBytes / 4096) * 4096;
      const uint64_t size = (1 + random() % (kSlotBytes / 4096)) * 4096;
      const Urgency urgency = random() % 2 == 0 ? Urgency::kDemand : Urgency::kPrefetch;
      ReadRequest request = Read(++id, file, offset, memory.span(slot * kSlotBytes, size), urgency);
      request.segments[0].needed = std::min(size, kFileBytes - offset);
      bytes += request.segments[0].needed;
      requests.push_back(request);
      REQUIRE(reader->Submit(request).has_value());
      if (random() % 2 == 0) reader->Promote(id);
    }
    for (const ReadRequest& request : requests) {
      const ReadCompletion completion = book.WaitFor(request.id);
      REQUIRE(completion.outcome == IoOutcome::kOk);
      const ReadSegment& segment = request.segments[0];
      REQUIRE(completion.bytes_read == segment.needed);
      REQUIRE(HoldsPattern(segment.destination.first(segment.needed), segment.offset));
    }
  }
  CHECK(book.repeated() == 0);
  CHECK(reader->stats().reads == id);
  CHECK(reader->stats().bytes == bytes);
  CHECK(reader->stats().queued == 0);
  CHECK(reader->stats().read_latency_us_p50 > 0);
  CHECK(reader->stats().read_latency_us_p99 >= reader->stats().read_latency_us_p50);
}

TEST_CASE("RecordReader: six segments of two files make one record", "[nvme]") {
  const PatternFolder folder("/var/tmp");
  CompletionBook book;
  auto reader = Make({.engine = EachEngine()}, book);
  const FileId first = reader->AddFile(folder.Make("a", 1 << 20)).value();
  const FileId second = reader->AddFile(folder.Make("b", 1 << 20)).value();
  const AlignedBuffer memory(6 * 8192);
  ReadRequest request{.id = 5, .segments = {}, .segment_count = 6};
  for (uint32_t i = 0; i < 6; ++i) {
    request.segments[i] = {i % 2 == 0 ? first : second, uint64_t{i} * 65536,
                           memory.span(i * 8192, 8192), 5000};
  }
  REQUIRE(reader->Submit(request).has_value());
  const ReadCompletion completion = book.WaitFor(5);
  CHECK(completion.outcome == IoOutcome::kOk);
  CHECK(completion.bytes_read == 6 * 5000);
  for (uint32_t i = 0; i < 6; ++i) {
    CHECK(HoldsPattern(memory.span(i * 8192, 5000), uint64_t{i} * 65536));
  }
}

TEST_CASE("RecordReader: the file's end is short, and says how many bytes there are", "[nvme]") {
  const PatternFolder folder("/var/tmp");
  CompletionBook book;
  auto reader = Make({.piece_size = 4_KiB, .engine = EachEngine(), .mode = EachMode()}, book);
  const FileId file = reader->AddFile(folder.Make("records", 10000)).value();
  const AlignedBuffer memory(16384);
  REQUIRE(reader->Submit(Read(1, file, 0, memory.span())).has_value());
  const ReadCompletion completion = book.WaitFor(1);
  CHECK(completion.outcome == IoOutcome::kShort);
  CHECK(completion.segment == 0);
  CHECK(completion.bytes_read == 10000);
  CHECK(reader->stats().errors == 1);
  REQUIRE(reader->Submit(Read(2, file, 16384, memory.span())).has_value());
  CHECK(book.WaitFor(2).bytes_read == 0);
}

TEST_CASE("RecordReader: cancels race with reads, and each read completes exactly once", "[nvme]") {
  const PatternFolder folder("/var/tmp");
  CompletionBook book;
  auto reader = Make(
      {.queue_depth = 8, .piece_size = 4_KiB, .preadv_threads = 4, .engine = EachEngine()}, book);
  const FileId file = reader->AddFile(folder.Make("records", 4 << 20)).value();
  constexpr uint64_t kReads = 1000;
  constexpr size_t kSlotBytes = 16384;
  const AlignedBuffer memory(kReads * kSlotBytes);
  std::atomic<uint64_t> submitted{0};
  std::jthread canceller([&] {
    std::minstd_rand random(2);
    while (submitted.load() < kReads) reader->Cancel(1 + random() % (submitted.load() + 1));
  });
  for (uint64_t id = 1; id <= kReads; ++id) {
    const uint64_t offset = id % 200 * kSlotBytes;
    REQUIRE(reader->Submit(Read(id, file, offset, memory.span((id - 1) * kSlotBytes, kSlotBytes)))
                .has_value());
    submitted.store(id);
    if (id % 2 == 0) reader->Cancel(id);
  }
  book.WaitForCount(kReads);
  for (uint64_t id = 1; id <= kReads; ++id) {
    const ReadCompletion completion = book.WaitFor(id);
    if (completion.outcome == IoOutcome::kOk) {
      REQUIRE(HoldsPattern(memory.span((id - 1) * kSlotBytes, kSlotBytes), id % 200 * kSlotBytes));
    } else {
      REQUIRE(completion.outcome == IoOutcome::kCancelled);
    }
  }
  CHECK(book.repeated() == 0);
  CHECK(reader->stats().reads + reader->stats().cancelled == kReads);
}

TEST_CASE("RecordReader: the destructor completes every read", "[nvme]") {
  const PatternFolder folder("/var/tmp");
  CompletionBook book;
  auto reader = Make(
      {.queue_depth = 2, .piece_size = 4_KiB, .preadv_threads = 2, .engine = EachEngine()}, book);
  const FileId file = reader->AddFile(folder.Make("records", 4 << 20)).value();
  const AlignedBuffer memory(4 << 20);
  for (uint64_t id = 0; id < 16; ++id) {
    const uint64_t offset = id << 18;
    REQUIRE(reader->Submit(Read(id, file, offset, memory.span(offset, 1 << 18))).has_value());
  }
  reader.reset();
  CHECK(book.count() == 16);
  CHECK(book.repeated() == 0);
}

TEST_CASE("RecordReader: a full queue refuses and takes reads again later", "[nvme]") {
  const PatternFolder folder("/var/tmp");
  CompletionBook book;
  auto reader = Make({.max_queued = 2, .engine = EachEngine()}, book);
  const FileId file = reader->AddFile(folder.Make("records", 1 << 20)).value();
  constexpr uint64_t kTries = 2000;
  const AlignedBuffer memory((kTries + 1) * 4096);
  uint64_t accepted = 0;
  uint64_t refused = 0;
  for (uint64_t id = 0; id < kTries; ++id) {
    const Status status = reader->Submit(Read(id, file, 0, memory.span(id * 4096, 4096)));
    if (status.has_value()) {
      ++accepted;
    } else {
      ++refused;
      REQUIRE(status.error().code == ErrorCode::kExhausted);
    }
  }
  CHECK(refused > 0);
  book.WaitForCount(accepted);
  CHECK(reader->Submit(Read(kTries, file, 0, memory.span(kTries * 4096, 4096))).has_value());
  book.WaitFor(kTries);
}

TEST_CASE("RecordReader: the listener may submit the same id again", "[nvme]") {
  const PatternFolder folder("/var/tmp");
  RetryOnce listener;
  auto reader = Make({.max_queued = 1, .engine = EachEngine()}, listener);
  listener.reader = reader.get();
  const FileId file = reader->AddFile(folder.Make("records", 100)).value();
  const AlignedBuffer memory(4096);
  listener.retry = Read(1, file, 0, memory.span());
  REQUIRE(reader->Submit(listener.retry).has_value());
  CHECK(listener.book.WaitFor(1).outcome == IoOutcome::kOk);
}

TEST_CASE("RecordReader: requests that no drive could serve are refused", "[nvme]") {
  const PatternFolder folder("/var/tmp");
  CompletionBook book;
  auto reader = Make({.engine = EachEngine()}, book);
  const FileId file = reader->AddFile(folder.Make("records", 1 << 20)).value();
  const AlignedBuffer memory(16384);
  const ReadRequest good = Read(1, file, 0, memory.span(0, 4096));

  ReadRequest bad = good;
  bad.segment_count = 0;
  CHECK(reader->Submit(bad).error().code == ErrorCode::kInvalidArgument);
  bad.segment_count = 7;
  CHECK(reader->Submit(bad).error().code == ErrorCode::kInvalidArgument);
  bad = good;
  bad.segments[0].offset = 512;
  CHECK(reader->Submit(bad).error().code == ErrorCode::kInvalidArgument);
  bad = good;
  bad.segments[0].destination = memory.span(8, 4096);
  CHECK(reader->Submit(bad).error().code == ErrorCode::kInvalidArgument);
  bad = good;
  bad.segments[0].destination = memory.span(0, 100);
  CHECK(reader->Submit(bad).error().code == ErrorCode::kInvalidArgument);
  bad = good;
  bad.segments[0].needed = 4097;
  CHECK(reader->Submit(bad).error().code == ErrorCode::kInvalidArgument);
  bad = good;
  bad.segments[0].offset = UINT64_MAX - 4095;
  CHECK(reader->Submit(bad).error().code == ErrorCode::kInvalidArgument);
  bad = good;
  bad.segments[0].file = FileId{77};
  CHECK(reader->Submit(bad).error().code == ErrorCode::kInvalidArgument);
  bad.segments[0].file = FileId{UINT32_MAX};
  CHECK(reader->Submit(bad).error().message == "read request 1, segment 0: no such file");

  reader->RemoveFile(file);
  CHECK(reader->Submit(good).error().code == ErrorCode::kInvalidArgument);
  CHECK(book.count() == 0);
}

TEST_CASE("RecordReader: a removed file's number is used again for other bytes", "[nvme]") {
  const PatternFolder folder("/var/tmp");
  CompletionBook book;
  auto reader = Make({.engine = EachEngine()}, book);
  const FileId first = reader->AddFile(folder.Make("short", 4096)).value();
  reader->RemoveFile(first);
  const FileId second = reader->AddFile(folder.Make("long", 8192)).value();
  CHECK(first == second);
  const AlignedBuffer memory(4096);
  REQUIRE(reader->Submit(Read(1, second, 4096, memory.span())).has_value());
  CHECK(book.WaitFor(1).outcome == IoOutcome::kOk);
  CHECK(HoldsPattern(memory.span(), 4096));
}

}  // namespace moetier
