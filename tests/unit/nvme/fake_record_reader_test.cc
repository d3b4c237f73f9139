#include "tests/support/fake_record_reader.h"

#include <catch2/catch.hpp>
#include <cerrno>

#include "tests/unit/nvme/reader_fixture.h"

namespace moetier {
namespace {

std::vector<std::byte> PatternBytes(size_t size) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = PatternByte(i);
  return bytes;
}

}  // namespace

TEST_CASE("FakeRecordReader: nothing completes before the test says so", "[nvme]") {
  CompletionBook book;
  FakeRecordReader reader({}, book);
  const FileId file = reader.AddMemoryFile(PatternBytes(8192));
  const AlignedBuffer memory(3 * 4096);
  REQUIRE(reader.Submit(Read(1, file, 0, memory.span(0, 4096), Urgency::kPrefetch)).has_value());
  REQUIRE(reader.Submit(Read(2, file, 4096, memory.span(4096, 4096))).has_value());
  CHECK(book.count() == 0);
  CHECK(reader.pending().size() == 2);
  REQUIRE(reader.CompleteNext());
  CHECK(book.WaitFor(2).outcome == IoOutcome::kOk);  // demand first
  CHECK(HoldsPattern(memory.span(4096, 4096), 4096));
  reader.Cancel(1);
  CHECK(book.count() == 1);
  CHECK(reader.cancel_asked(1));
  SECTION("the cancel wins") {
    REQUIRE(reader.Complete(1));
    CHECK(book.WaitFor(1).outcome == IoOutcome::kCancelled);
  }
  SECTION("the read wins") {
    REQUIRE(reader.Complete(1, FakeRecordReader::CancelRace::kReadWins));
    CHECK(book.WaitFor(1).outcome == IoOutcome::kOk);
  }
  CHECK(!reader.CompleteNext());
}

TEST_CASE("FakeRecordReader: a promoted prefetch completes like the demand before it", "[nvme]") {
  CompletionBook book;
  FakeRecordReader reader({}, book);
  const FileId file = reader.AddMemoryFile(PatternBytes(8192));
  const AlignedBuffer memory(2 * 4096);
  REQUIRE(reader.Submit(Read(1, file, 0, memory.span(0, 4096), Urgency::kPrefetch)).has_value());
  REQUIRE(reader.Submit(Read(2, file, 4096, memory.span(4096, 4096))).has_value());
  reader.Promote(1);
  REQUIRE(reader.CompleteNext());
  CHECK(book.WaitFor(1).outcome == IoOutcome::kOk);
}

TEST_CASE("FakeRecordReader: faults strike the reads that cover them, as often as told", "[nvme]") {
  using Kind = FakeRecordReader::Fault::Kind;
  CompletionBook book;
  FakeRecordReader reader({}, book);
  const FileId file = reader.AddMemoryFile(PatternBytes(8192));
  const AlignedBuffer memory(4096);
  const auto read = [&](uint64_t id, uint64_t offset) {
    REQUIRE(reader.Submit(Read(id, file, offset, memory.span())).has_value());
    reader.CompleteAll();
    return book.WaitFor(id);
  };
  reader.Inject(
      {.kind = Kind::kError, .file = file, .offset = 100, .error_number = EIO, .times = 1});
  CHECK(read(1, 4096).outcome == IoOutcome::kOk);
  CHECK(read(2, 0).error_number == EIO);
  CHECK(read(3, 0).outcome == IoOutcome::kOk);
  reader.Inject({.kind = Kind::kShort, .file = file, .offset = 100});
  CHECK(read(4, 0).outcome == IoOutcome::kShort);
  CHECK(read(5, 0).bytes_read == 100);
  reader.ClearFaults();
  reader.Inject({.kind = Kind::kCorrupt, .file = file, .offset = 100});
  CHECK(read(6, 0).outcome == IoOutcome::kOk);
  CHECK(memory.span()[99] == PatternByte(99));
  CHECK(memory.span()[100] != PatternByte(100));
}

TEST_CASE("FakeRecordReader: its thread completes what is not held", "[nvme]") {
  const PatternFolder folder("/var/tmp");
  CompletionBook book;
  FakeRecordReader reader({.delivery = FakeRecordReader::Delivery::kThread}, book);
  const FileId file = reader.AddFile(folder.Make("records", 8192)).value();
  const AlignedBuffer memory(8192);
  reader.HoldNew(true);
  REQUIRE(reader.Submit(Read(1, file, 0, memory.span(0, 4096))).has_value());
  reader.HoldNew(false);
  REQUIRE(reader.Submit(Read(2, file, 4096, memory.span(4096, 4096))).has_value());
  CHECK(book.WaitFor(2).outcome == IoOutcome::kOk);
  CHECK(book.count() == 1);
  reader.Release();
  CHECK(book.WaitFor(1).outcome == IoOutcome::kOk);
  CHECK(HoldsPattern(memory.span(), 0));
}

}  // namespace moetier
