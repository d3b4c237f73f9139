#include "tiers/store/heat_files.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "tests/support/temp_folder.h"

namespace moetier {
namespace {

using Names = std::vector<std::string>;

// A heat file's name.
std::string NameOf(uint64_t fingerprint, const std::string& ending = ".heat") {
  return fmt::format("{:016x}{}", fingerprint, ending);
}

struct Folder {
  // Written so many minutes ago.
  void Write(const std::string& name, int minutes, size_t bytes = 100) const {
    const std::filesystem::path path = folder.path() + "/" + name;
    std::ofstream(path) << std::string(bytes, 'x');
    std::filesystem::last_write_time(
        path, std::filesystem::file_time_type::clock::now() - std::chrono::minutes(minutes));
  }
  [[nodiscard]] bool Has(const std::string& name) const {
    return std::filesystem::exists(folder.path() + "/" + name);
  }
  Names Trim(const HeatFilesBound& bound, const std::set<uint64_t>& kept = {}) const {
    const Result<TrimmedHeatFiles> trimmed = TrimHeatFiles(folder.path(), bound, kept);
    REQUIRE(trimmed.has_value());
    CHECK(trimmed->failed.empty());
    return trimmed->removed;
  }

  testing::TempFolder folder;
};

}  // namespace

TEST_CASE("TrimHeatFiles: beyond the number those written least recently go, the oldest first",
          "[store]") {
  const Folder folder;
  for (uint64_t i = 1; i <= 5; ++i) folder.Write(NameOf(i), static_cast<int>(10 * i));
  CHECK(folder.Trim({.files = 5}).empty());
  CHECK(folder.Trim({.files = 3}) == Names{NameOf(5), NameOf(4)});
  CHECK(folder.Has(NameOf(3)));
  CHECK_FALSE(folder.Has(NameOf(4)));
}

TEST_CASE("TrimHeatFiles: beyond the bytes too", "[store]") {
  const Folder folder;
  folder.Write(NameOf(1), 30, 600);
  folder.Write(NameOf(2), 20, 600);
  folder.Write(NameOf(3), 10, 300);
  CHECK(folder.Trim({.files = 100, .bytes = Bytes(1000)}) == Names{NameOf(1)});
}

TEST_CASE("TrimHeatFiles: what is kept stays, however old, and counts; its damaged file does not",
          "[store]") {
  const Folder folder;
  folder.Write(NameOf(0xABC), 50);
  folder.Write(NameOf(0xABC, ".heat.damaged"), 49);
  folder.Write(NameOf(2, ".heat.partial"), 40);
  folder.Write(NameOf(3), 30);
  folder.Write(NameOf(4), 20);
  CHECK(folder.Trim({.files = 2}, {0xABC}) ==
        Names{NameOf(0xABC, ".heat.damaged"), NameOf(2, ".heat.partial"), NameOf(3)});
  CHECK(folder.Has(NameOf(0xABC)));
  CHECK(folder.Has(NameOf(4)));
}

TEST_CASE("TrimHeatFiles: files that are none of ours are neither counted nor removed", "[store]") {
  const Folder folder;
  for (const char* name : {"notes", "0123.heat", "0123456789abcdefg.heat", "+123456789abcdef.heat",
                           "0123456789abcdef.heat.old"}) {
    folder.Write(name, 60);
  }
  std::filesystem::create_directory(folder.folder.path() + "/" + NameOf(9));
  folder.Write(NameOf(1), 10);
  CHECK(folder.Trim({.files = 1}).empty());
  CHECK(folder.Trim({.files = 0}) == Names{NameOf(1)});
  CHECK(folder.Has("notes"));
  CHECK(folder.Has(NameOf(9)));
}

TEST_CASE("TrimHeatFiles: no directory has no files, and what is none is an error", "[store]") {
  const Folder folder;
  CHECK(TrimHeatFiles(folder.folder.path() + "/none", {}, {})->removed.empty());
  folder.Write("file", 0);
  const auto none = TrimHeatFiles(folder.folder.path() + "/file", {}, {});
  REQUIRE_FALSE(none.has_value());
  CHECK_THAT(none.error().message, Catch::Contains("/file: Not a directory"));
}

}  // namespace moetier
