#include <catch2/catch.hpp>

#include "tests/support/fake_file_system.h"
#include "tiers/store/import_journal.h"

namespace moetier {
namespace {

constexpr ImportIdentity kIdentity{.fingerprint = 7, .plan = 8};
using Checksums = std::vector<uint64_t>;

// A journal of two batches: {1, 2} and {3}.
FakeFileSystem TwoBatches() {
  FakeFileSystem files;
  ImportJournal journal = ImportJournal::Create(files, "/j", kIdentity).value();
  REQUIRE(journal.Append(Checksums{1, 2}).has_value());
  REQUIRE(journal.Append(Checksums{3}).has_value());
  return files;
}

}  // namespace

TEST_CASE("ImportJournal: gives back what was appended", "[store]") {
  FakeFileSystem files = TwoBatches();
  const auto contents = ImportJournal::Parse(files.Bytes("/j"));
  REQUIRE(contents.has_value());
  CHECK(contents->identity == kIdentity);
  CHECK(contents->checksums == Checksums{1, 2, 3});
  CHECK(contents->valid_bytes == files.Bytes("/j").size());
}

TEST_CASE("ImportJournal: a torn batch is as if it had not been written", "[store]") {
  FakeFileSystem files = TwoBatches();
  const std::vector<std::byte> whole = files.Bytes("/j");
  for (size_t length = whole.size() - 1; length >= 64; --length) {
    const auto contents = ImportJournal::Parse(std::span(whole).first(length));
    REQUIRE(contents.has_value());
    CHECK(contents->checksums == Checksums{1, 2});
    CHECK(contents->valid_bytes == 64);
  }
  CHECK_FALSE(ImportJournal::Parse(std::span(whole).first(31)).has_value());
}

TEST_CASE("ImportJournal: a flipped bit ends it at the batch before", "[store]") {
  FakeFileSystem files = TwoBatches();
  const std::vector<std::byte> whole = files.Bytes("/j");
  for (size_t at = 0; at < whole.size(); ++at) {
    std::vector<std::byte> flipped = whole;
    flipped[at] ^= std::byte{4};
    const auto contents = ImportJournal::Parse(flipped);
    INFO(at);
    CHECK(contents.has_value() == (at >= 32));
    if (contents) CHECK(contents->checksums == (at < 64 ? Checksums{} : Checksums{1, 2}));
  }
}

TEST_CASE("ImportJournal: goes on behind a torn batch", "[store]") {
  FakeFileSystem files = TwoBatches();
  files.Bytes("/j").pop_back();
  const auto torn = ImportJournal::Parse(files.Bytes("/j"));
  ImportJournal journal = ImportJournal::Continue(files, "/j", *torn).value();
  REQUIRE(journal.Append(Checksums{9, 9}).has_value());
  CHECK(ImportJournal::Parse(files.Bytes("/j"))->checksums == Checksums{1, 2, 9, 9});
}

}  // namespace moetier
