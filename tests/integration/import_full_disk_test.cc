#include <sched.h>
#include <sys/mount.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "tests/support/store_helpers.h"
#include "tests/support/temp_folder.h"
#include "tiers/store/importer.h"

namespace moetier {
namespace {

const std::string kDemo = MOETIER_TEST_DATA "/demo-moe/moetier-demo-Q4_K_M.gguf";
constexpr uint64_t kDiskBytes = uint64_t{40} << 20;  // the store has 22 MiB

// A tmpfs of kDiskBytes that only this process sees.
class SmallDisk {
 public:
  SmallDisk() {
    mounted_ = ::unshare(CLONE_NEWNS) == 0 &&
               ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
               ::mount("tmpfs", folder_.path().c_str(), "tmpfs", 0,
                       fmt::format("size={}", kDiskBytes).c_str()) == 0;
  }
  ~SmallDisk() {
    if (mounted_) ::umount(folder_.path().c_str());
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  [[nodiscard]] bool mounted() const { return mounted_; }
  [[nodiscard]] std::string File(const std::string& name) const { return folder_.File(name); }
  // Leaves `free` bytes on the disk.
  void Fill(uint64_t free) const {
    const uint64_t now = std::filesystem::space(folder_.path()).available;
    if (now > free) testing::WriteFileBytes(File("filler"), std::vector<std::byte>(now - free));
  }
  void Empty() const { std::filesystem::remove(File("filler")); }

 private:
  testing::TempFolder folder_;
  bool mounted_ = false;
};

}  // namespace

TEST_CASE("field_51: a disk that is full, or fills up on the way, costs nothing but time",
          "[integration]") {
  const SmallDisk disk;
  if (!disk.mounted()) {
    WARN("skipped: a private tmpfs needs root; importer_test has the same on a fake file system");
    return;
  }
  ImportOptions options;
  options.model_path = kDemo;
  options.store_directory = disk.File("store");
  options.sync_bytes = 1 << 20;
  disk.Fill(10 << 20);
  const auto refused = ImportModel(options, HostFileSystem());
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().reason == Reason::kOutOfSpace);
  CHECK_THAT(refused.error().message,
             Catch::Contains("the store needs") && Catch::Contains("are free; free"));
  disk.Empty();

  const auto failed = ImportModel(options, HostFileSystem(), [&](const ImportProgress& progress) {
    if (progress.experts_done == 60) disk.Fill(2 << 20);
    return true;
  });
  REQUIRE_FALSE(failed.has_value());
  CHECK(failed.error().reason == Reason::kOutOfSpace);
  CHECK_THAT(failed.error().message, Catch::Contains("No space left on device") &&
                                         Catch::Contains("run the import again to resume"));
  disk.Empty();

  const auto resumed = ImportModel(options, HostFileSystem());
  REQUIRE(resumed.has_value());
  CHECK(resumed->experts_resumed >= 50);
  const testing::TempFolder folder;
  options.store_directory = folder.File("whole");
  REQUIRE(ImportModel(options, HostFileSystem()).has_value());
  CHECK(testing::StoreContents(disk.File("store")) ==
        testing::StoreContents(options.store_directory));
}

}  // namespace moetier
