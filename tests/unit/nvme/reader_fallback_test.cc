#include <fcntl.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <vector>

#include "base/unique_fd.h"
#include "tests/unit/nvme/reader_fixture.h"
#include "tiers/nvme/create_reader.h"

namespace moetier {
namespace {

constexpr uint64_t kBytes = 4 << 20;

int Refused() { return EPERM; }

// Pages of the file that are in the page cache.
size_t CachedPages(const std::string& path) {
  const UniqueFd fd = UniqueFd::Open(path, O_RDONLY).value();
  void* map = ::mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, fd.get(), 0);
  REQUIRE(map != MAP_FAILED);
  std::vector<unsigned char> pages(kBytes / 4096);
  REQUIRE(::mincore(map, kBytes, pages.data()) == 0);
  ::munmap(map, kBytes);
  return static_cast<size_t>(
      std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return page & 1; }));
}

void DropCache(const std::string& path) {
  const UniqueFd fd = UniqueFd::Open(path, O_RDONLY).value();
  REQUIRE(::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED) == 0);
}

void ReadAll(RecordReader& reader, CompletionBook& book, FileId file) {
  const AlignedBuffer memory(kBytes);
  constexpr size_t kRecord = 256 << 10;
  const size_t before = book.count();
  for (uint64_t offset = 0; offset < kBytes; offset += kRecord) {
    const uint64_t id = (uint64_t{Raw(file)} << 32) + offset;
    REQUIRE(reader.Submit(Read(id, file, offset, memory.span(offset, kRecord))).has_value());
  }
  book.WaitForCount(before + kBytes / kRecord);
  CHECK(HoldsPattern(memory.span(), 0));
}

}  // namespace

TEST_CASE("CreateRecordReader: a refused ring becomes a named thread pool that reads", "[nvme]") {
  const PatternFolder folder("/var/tmp");
  CompletionBook book;
  auto reader = CreateRecordReader({.seams = {.ring_error = Refused, .direct_error = {}}}, book);
  REQUIRE(reader.has_value());
  const auto fallbacks = (*reader)->fallbacks();
  REQUIRE(fallbacks.size() == 1);
  CHECK(fallbacks[0].name == "io_engine:preadv");
  CHECK(fallbacks[0].reason.find("Operation not permitted") != std::string::npos);
  CHECK((*reader)->description().starts_with("preadv, direct; set up an io_uring:"));
  ReadAll(**reader, book, (*reader)->AddFile(folder.Make("records", kBytes)).value());
}

TEST_CASE("CreateRecordReader: what is advised fits what refused the ring", "[nvme]") {
  const auto reason = [](int error) {
    CompletionBook book;
    const auto reader = CreateRecordReader(
        {.seams = {.ring_error = [error] { return error; }, .direct_error = {}}}, book);
    return (*reader)->fallbacks().at(0).reason;
  };
  CHECK_THAT(reason(EPERM), Catch::Contains("io_uring_disabled") && !Catch::Contains("Limit"));
  CHECK_THAT(reason(ENOMEM), Catch::Contains("LimitMEMLOCK") && !Catch::Contains("seccomp"));
  CHECK_THAT(reason(EMFILE), Catch::Contains("LimitNOFILE") && !Catch::Contains("seccomp"));
}

TEST_CASE("CreateRecordReader: a ring that was asked for by name is not replaced", "[nvme]") {
  CompletionBook book;
  const auto reader = CreateRecordReader(
      {.engine = IoEngine::kIoUring, .seams = {.ring_error = Refused, .direct_error = {}}}, book);
  REQUIRE(!reader.has_value());
  CHECK(reader.error().code == ErrorCode::kPermissionDenied);
}

TEST_CASE("CreateRecordReader: options out of range are named", "[nvme]") {
  CompletionBook book;
  CHECK(CreateRecordReader({.queue_depth = 0}, book).error().message ==
        "reader: queue depth is 0, allowed are 1 to 1024");
  CHECK(!CreateRecordReader({.max_queued = 0}, book).has_value());
  CHECK(!CreateRecordReader({.piece_size = Bytes(4097)}, book).has_value());
  CHECK(!CreateRecordReader({.piece_size = Bytes(0)}, book).has_value());
  CHECK(!CreateRecordReader({.preadv_threads = 65}, book).has_value());
}

TEST_CASE("field_53: a file without direct I/O is read without growing the page cache", "[nvme]") {
  const IoEngine engine = GENERATE(from_range(GrantedEngines()));
  const PatternFolder folder("/var/tmp");
  CompletionBook book;
  auto reader = CreateRecordReader(
      {.engine = engine,
       .seams = {.ring_error = {}, .direct_error = [](const std::string&) { return EINVAL; }}},
      book);
  REQUIRE(reader.has_value());
  const std::string path = folder.Make("records", kBytes);
  const FileId file = (*reader)->AddFile(path).value();
  const auto fallbacks = (*reader)->fallbacks();
  REQUIRE(fallbacks.size() == 1);
  CHECK(fallbacks[0].name == "io_mode:buffered");
  CHECK(fallbacks[0].reason.starts_with("open " + path + " for direct I/O: Invalid argument"));
  DropCache(path);
  ReadAll(**reader, book, file);
  CHECK(CachedPages(path) < kBytes / 4096 / 20);
}

TEST_CASE("field_53: direct reads leave the page cache alone", "[nvme]") {
  const PatternFolder folder("/var/tmp");
  CompletionBook book;
  auto reader = CreateRecordReader({}, book);
  REQUIRE(reader.has_value());
  const std::string path = folder.Make("records", kBytes);
  const FileId file = (*reader)->AddFile(path).value();
  if ((*reader)->description().find("buffered") != std::string::npos) return;  // no direct I/O here
  DropCache(path);
  ReadAll(**reader, book, file);
  CHECK(CachedPages(path) == 0);
}

TEST_CASE("field_55: each file has the I/O mode that its own drive allows", "[nvme]") {
  const PatternFolder folder("/var/tmp");
  CompletionBook book;
  const auto second_drive_refuses = [](const std::string& path) {
    return path.ends_with("mirror") ? EINVAL : 0;
  };
  auto reader =
      CreateRecordReader({.engine = IoEngine::kPreadv,
                          .seams = {.ring_error = {}, .direct_error = second_drive_refuses}},
                         book);
  REQUIRE(reader.has_value());
  const FileId first = (*reader)->AddFile(folder.Make("records", kBytes)).value();
  CHECK((*reader)->fallbacks().empty());
  CHECK((*reader)->description() == "preadv, direct");
  const FileId second = (*reader)->AddFile(folder.Make("mirror", kBytes)).value();
  CHECK((*reader)->fallbacks().size() == 1);
  CHECK((*reader)->description().starts_with("preadv, direct (1 of 2 files buffered); "));
  ReadAll(**reader, book, first);
  ReadAll(**reader, book, second);
}

TEST_CASE("AddFile: direct I/O that was asked for by name is not replaced", "[nvme]") {
  const PatternFolder folder("/var/tmp");
  CompletionBook book;
  auto reader = CreateRecordReader(
      {.mode = IoMode::kDirect,
       .seams = {.ring_error = {}, .direct_error = [](const std::string&) { return EINVAL; }}},
      book);
  REQUIRE(reader.has_value());
  CHECK(!(*reader)->AddFile(folder.Make("records", kBytes)).has_value());
}

TEST_CASE("AddFile: files on tmpfs are read, whatever the kernel says to direct I/O", "[nvme]") {
  const IoEngine engine = GENERATE(from_range(GrantedEngines()));
  struct statfs info {};
  if (::statfs("/dev/shm", &info) != 0) return;  // no tmpfs on this host
  const PatternFolder folder("/dev/shm");
  CompletionBook book;
  auto reader = CreateRecordReader({.engine = engine}, book);
  REQUIRE(reader.has_value());
  ReadAll(**reader, book, (*reader)->AddFile(folder.Make("records", kBytes)).value());
}

TEST_CASE("AddFile: what cannot be read as records is refused with its path", "[nvme]") {
  const PatternFolder folder("/var/tmp");
  CompletionBook book;
  auto reader = CreateRecordReader({}, book);
  REQUIRE(reader.has_value());
  CHECK((*reader)->AddFile("/var/tmp/absent").error().message ==
        "open /var/tmp/absent: No such file or directory");
  CHECK((*reader)->AddFile("/var/tmp").error().code == ErrorCode::kInvalidArgument);
  const std::string fifo = folder.Make("file", 1) + ".fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  CHECK((*reader)->AddFile(fifo).error().code == ErrorCode::kInvalidArgument);
  CHECK((*reader)->AddFile(folder.Make("empty", 0)).has_value());
}

TEST_CASE(
    "AddOpenFile: a file without a name is read directly, by a descriptor of the reader's own",
    "[nvme]") {
  const IoEngine engine = GENERATE(from_range(GrantedEngines()));
  const PatternFolder folder("/var/tmp");
  const std::string path = folder.Make("records", kBytes);
  UniqueFd given = UniqueFd::Open(path, O_RDONLY).value();
  REQUIRE(::unlink(path.c_str()) == 0);
  CompletionBook book;
  auto reader = CreateRecordReader({.engine = engine}, book);
  REQUIRE(reader.has_value());
  const FileId file = (*reader)->AddOpenFile(given.get(), "records").value();
  CHECK((::fcntl(given.get(), F_GETFL) & O_DIRECT) == 0);  // the giver's flags are his
  given.Reset();
  CHECK((*reader)->fallbacks().empty());
  ReadAll(**reader, book, file);
}

TEST_CASE("AddOpenFile: a file that only its giver may open is read through the giver's descriptor",
          "[nvme]") {
  const PatternFolder folder("/var/tmp");
  const std::string path = folder.Make("records", kBytes);
  UniqueFd given = UniqueFd::Open(path, O_RDONLY).value();
  REQUIRE(::chmod(path.c_str(), 0) == 0);
  CompletionBook book;
  auto reader = CreateRecordReader({}, book);
  auto direct = CreateRecordReader({.mode = IoMode::kDirect}, book);
  REQUIRE(reader.has_value());
  REQUIRE(direct.has_value());
  ::setfsuid(65534);  // root may open what it likes; of this thread alone
  const Result<FileId> file = (*reader)->AddOpenFile(given.get(), "records");
  const Result<FileId> refused = (*direct)->AddOpenFile(given.get(), "records");
  ::setfsuid(::getuid());
  REQUIRE(file.has_value());
  given.Reset();
  const auto fallbacks = (*reader)->fallbacks();
  REQUIRE(fallbacks.size() == 1);
  CHECK(fallbacks[0].name == "io_mode:buffered");
  CHECK(fallbacks[0].reason.starts_with("records: open /proc/self/fd/"));
  CHECK(fallbacks[0].reason.find("Permission denied") != std::string::npos);
  ReadAll(**reader, book, *file);
  REQUIRE(!refused.has_value());
  CHECK(refused.error().message.starts_with("records: open /proc/self/fd/"));
}

TEST_CASE("AddFile: more files than the table holds are refused", "[nvme]") {
  const PatternFolder folder("/var/tmp");
  const std::string path = folder.Make("records", 4096);
  CompletionBook book;
  auto reader = CreateRecordReader({}, book);
  REQUIRE(reader.has_value());
  for (int i = 0; i < 512; ++i) REQUIRE((*reader)->AddFile(path).has_value());
  CHECK((*reader)->AddFile(path).error().code == ErrorCode::kExhausted);
}

}  // namespace moetier
