#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <filesystem>
#include <random>

#include "tests/support/store_helpers.h"
#include "tests/support/temp_folder.h"
#include "tiers/store/import_journal.h"
#include "tiers/store/importer.h"
#include "tiers/store/verifier.h"

namespace moetier {
namespace {

const std::string kDemo = MOETIER_TEST_DATA "/demo-moe/moetier-demo-Q4_K_M.gguf";

// A running import_once.
pid_t StartImport(const std::string& directory) {
  std::string program = MOETIER_IMPORT_ONCE;
  std::string model = kDemo;
  std::string target = directory;
  std::array<char*, 4> arguments{program.data(), model.data(), target.data(), nullptr};
  pid_t pid = 0;
  REQUIRE(::posix_spawn(&pid, program.c_str(), nullptr, nullptr, arguments.data(), environ) == 0);
  return pid;
}

// Records that the journal of an unfinished import counts as done; none without a journal.
size_t RecordsDone(const std::string& directory) {
  const auto bytes =
      ReadWholeFile(HostFileSystem(), fmt::format("{}/{}", directory, kJournalFileName), 1 << 20);
  if (!bytes) return 0;
  const auto contents = ImportJournal::Parse(*bytes);
  return contents ? contents->checksums.size() : 0;
}

// Kills the import once its journal has `records`, or a moment after it has begun for 0. True if
// the kill met a running import.
bool KillAt(pid_t pid, const std::string& directory, size_t records, uint64_t extra_ns) {
  int status = 0;
  while (RecordsDone(directory) < records) {
    if (::waitpid(pid, &status, WNOHANG) == pid) return false;
    // Only paces the polling; where the kill falls does not decide the result.
    const timespec pause{0, 200'000};
    ::nanosleep(&pause, nullptr);
  }
  const timespec extra{0, static_cast<long>(extra_ns)};
  ::nanosleep(&extra, nullptr);
  ::kill(pid, SIGKILL);
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  return WIFSIGNALED(status);
}

}  // namespace

TEST_CASE("Import: killed at ten random moments it resumes each time, to the same bytes",
          "[integration]") {
  const testing::TempFolder folder;
  ImportOptions options;
  options.model_path = kDemo;
  options.store_directory = folder.File("whole");
  REQUIRE(ImportModel(options, HostFileSystem()).has_value());
  const auto expected = testing::StoreContents(options.store_directory);

  const std::string directory = folder.File("killed");
  std::mt19937_64 random(20260607);
  uint32_t killed = 0;
  size_t done = 0;
  for (uint32_t run = 0; killed < 10 && run < 100; ++run) {
    // Let on for a random share of a tenth of the 192 records.
    const pid_t pid = StartImport(directory);
    if (!KillAt(pid, directory, done + random() % 19, random() % 1'000'000)) {
      // On a fast drive an import can end before the kill: it is checked, and the next starts anew.
      CHECK(testing::StoreContents(directory) == expected);
      std::filesystem::remove_all(directory);
      done = 0;
      continue;
    }
    ++killed;
    if (ExpertStore::Open(directory).has_value()) continue;  // killed behind the index's rename
    const size_t now = RecordsDone(directory);
    CHECK(now >= done);  // what was done stays done
    done = now;
  }
  REQUIRE(killed == 10);

  options.store_directory = directory;
  const auto resumed = ImportModel(options, HostFileSystem());
  INFO((resumed ? "" : resumed.error().message));
  REQUIRE(resumed.has_value());
  if (!resumed->already_complete) CHECK(resumed->experts_resumed == done);
  CHECK(testing::StoreContents(directory) == expected);
  CHECK(VerifyStore(directory, {}, HostFileSystem())->good());
}

}  // namespace moetier
