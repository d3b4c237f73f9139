// What a client can do with the descriptor of a shared arena: map and read, whoever it is and
// whatever it tries.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <string>

#include "tests/support/as_nobody.h"
#include "tests/support/fake_host.h"
#include "tiers/arena.h"

namespace moetier {
namespace {

ArenaPlan TwoClasses() {
  const std::vector<SizeClassGeometry> classes = {{64_KiB, 40}, {12_KiB, 11}};
  return PlanArena(classes, 64_KiB * 40 + 12_KiB * 11, 1).value();
}

std::unique_ptr<Arena> MakeShared(const ArenaPlan& plan, ArenaOptions options = {}) {
  options.memory = ArenaMemory::kShared;
  return Arena::Create(plan, options).value();
}

std::string PathOf(const UniqueFd& file) { return fmt::format("/proc/self/fd/{}", file.get()); }

// A client's read-only mapping of the whole arena.
class Mapping {
 public:
  Mapping(const UniqueFd& file, size_t size)
      : size_(size), block_(::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0)) {
    REQUIRE(block_ != MAP_FAILED);
  }
  ~Mapping() { ::munmap(block_, size_); }
  [[nodiscard]] std::byte at(uint64_t offset) const {
    return static_cast<const std::byte*>(block_)[offset];
  }
  [[nodiscard]] void* block() const { return block_; }
  [[nodiscard]] bool BecomesWritable() const {
    return ::mprotect(block_, size_, PROT_READ | PROT_WRITE) == 0;
  }

 private:
  size_t size_;
  void* block_;
};

// Through none of these ways can who holds `file` change a byte or the size.
void CheckHarmless(int file, size_t size) {
  const char byte = 7;
  CHECK(::pwrite(file, &byte, 1, 0) < 0);
  CHECK(::ftruncate(file, 0) != 0);
  CHECK(::ftruncate(file, static_cast<off_t>(size * 2)) != 0);
  CHECK(::fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) != 0);
  CHECK(::fallocate(file, FALLOC_FL_ZERO_RANGE, 0, 4096) != 0);
  CHECK(::fallocate(file, 0, static_cast<off_t>(size), 4096) != 0);
  CHECK(::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) == MAP_FAILED);
  CHECK(::fcntl(file, F_ADD_SEALS, F_SEAL_WRITE) != 0);
}

}  // namespace

TEST_CASE("Shared arena: a client sees each slot at its offset, as it is now", "[tiers]") {
  const ArenaPlan plan = TwoClasses();
  const auto arena = MakeShared(plan);
  const UniqueFd file = arena->OpenReadOnly().value();
  struct stat info {};
  REQUIRE(::fstat(file.get(), &info) == 0);
  REQUIRE(static_cast<uint64_t>(info.st_size) == arena->size().count());
  const Mapping client(file, arena->size().count());
  uint8_t stamp = 0;
  for (uint8_t c = 0; c < 2; ++c) {
    for (uint32_t s = 0; s < plan.regions[c].slots; ++s) {
      const std::span<std::byte> slot = arena->Slot(SizeClass{c}, SlotIndex{s});
      const uint64_t offset = arena->Offset(SizeClass{c}, SlotIndex{s});
      CHECK(slot.data() == arena->Slot(SizeClass{0}, SlotIndex{0}).data() + offset);
      CHECK(client.at(offset) == std::byte{0});
      std::ranges::fill(slot, std::byte{++stamp});
      CHECK(client.at(offset) == std::byte{stamp});
      CHECK(client.at(offset + slot.size() - 1) == std::byte{stamp});
    }
  }
}

TEST_CASE("Shared arena: nothing can be written through what a client is given", "[tiers]") {
  const auto arena = MakeShared(TwoClasses());
  const size_t size = arena->size().count();
  const UniqueFd file = arena->OpenReadOnly().value();
  const Mapping client(file, size);
  CheckHarmless(file.get(), size);
  CHECK(!client.BecomesWritable());
  CHECK(::madvise(client.block(), 4096, MADV_REMOVE) != 0);
  // A debugger's way in, which overrides a mapping's protection where it may.
  const UniqueFd memory = UniqueFd::Open("/proc/self/mem", O_RDWR).value();
  const char byte = 7;
  CHECK(::pwrite(memory.get(), &byte, 1, reinterpret_cast<off_t>(client.block())) < 0);
  // A private mapping is the client's own copy.
  void* const copy = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file.get(), 0);
  REQUIRE(copy != MAP_FAILED);
  static_cast<std::byte*>(copy)[0] = std::byte{7};
  ::munmap(copy, size);
  CHECK(arena->Slot(SizeClass{0}, SlotIndex{0})[0] == std::byte{0});
}

TEST_CASE("Shared arena: its owner may open it for writing, and still writes nothing", "[tiers]") {
  const auto arena = MakeShared(TwoClasses());
  const size_t size = arena->size().count();
  const UniqueFd file = arena->OpenReadOnly().value();
  struct stat info {};
  REQUIRE(::fstat(file.get(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0400);
  REQUIRE(::fchmod(file.get(), 0777) == 0);
  const UniqueFd again = UniqueFd::Open(PathOf(file), O_RDWR).value();
  CheckHarmless(again.get(), size);
  CHECK(!UniqueFd::Open(PathOf(file), O_RDWR | O_TRUNC).has_value());
  const Mapping client(again, size);
  CHECK(!client.BecomesWritable());
}

TEST_CASE("Shared arena: another user opens nothing anew", "[tiers]") {
  const auto arena = MakeShared(TwoClasses());
  const UniqueFd file = arena->OpenReadOnly().value();
  const testing::AsNobody nobody;
  if (::geteuid() != 0) return;  // who is not root is the memory's owner
  CHECK(::fchmod(file.get(), 0777) != 0);
  for (const int flags : {O_RDONLY, O_WRONLY, O_RDWR}) {
    const Result<UniqueFd> again = UniqueFd::Open(PathOf(file), flags);
    REQUIRE(!again.has_value());
    CHECK(again.error().code == ErrorCode::kPermissionDenied);
  }
}

TEST_CASE("Shared arena: no client keeps the next one from its descriptor", "[tiers]") {
  const auto arena = MakeShared(TwoClasses());
  const UniqueFd first = arena->OpenReadOnly().value();
  REQUIRE(::fchmod(first.get(), 0) == 0);
  const testing::AsNobody nobody;  // as a daemon that is not root
  CHECK(arena->OpenReadOnly().has_value());
}

TEST_CASE("Shared arena: its memory goes when the last client has unmapped it", "[tiers]") {
  auto arena = MakeShared(TwoClasses());
  const size_t size = arena->size().count();
  UniqueFd file = arena->OpenReadOnly().value();
  std::ranges::fill(arena->Slot(SizeClass{0}, SlotIndex{3}), std::byte{5});
  const uint64_t offset = arena->Offset(SizeClass{0}, SlotIndex{3});
  const Mapping client(file, size);
  file.Reset();
  arena.reset();
  CHECK(client.at(offset) == std::byte{5});
}

TEST_CASE("Shared arena: it keeps its size, and says so", "[tiers]") {
  const auto arena = MakeShared(TwoClasses());
  const Status resizable = arena->CheckResizable();
  REQUIRE(!resizable.has_value());
  CHECK(resizable.error().code == ErrorCode::kFailedPrecondition);
  CHECK_THAT(resizable.error().message, Catch::Contains("memory.arena to private"));
}

TEST_CASE("Shared arena: large pages stand behind it, or a fallback says why not", "[tiers]") {
  const std::vector<SizeClassGeometry> classes = {{1_MiB, 9}};
  const ArenaPlan plan = PlanArena(classes, 9_MiB, 1).value();
  const auto arena = MakeShared(plan);
  INFO(arena->page_size());
  if (arena->fallbacks().empty()) {
    CHECK(arena->page_size() == "shared, transparent 2 MiB pages for 89 %");  // 8 of 9 MiB
  } else {
    CHECK(arena->fallbacks()[0].name == "memory_pages:4KiB");
    CHECK_THAT(arena->fallbacks()[0].reason, Catch::Contains("MADV_COLLAPSE"));
  }
  const auto small = MakeShared(plan, {.pages = PageSize::kSmall});
  CHECK(small->page_size() == "shared, 4 KiB pages");
  CHECK(small->fallbacks().empty());
}

TEST_CASE("Shared arena: small pages where large ones were asked for have a name", "[tiers]") {
  // A /proc that shows no huge page behind the block, as where a collapse was refused.
  const FakeHost host;
  host.Write("proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable: 8388608 kB\n");
  const auto arena = MakeShared(TwoClasses(), {.roots = host.roots()});
  CHECK(arena->page_size() == "shared, 4 KiB pages");
  REQUIRE(arena->fallbacks().size() == 1);
  CHECK(arena->fallbacks()[0].name == "memory_pages:4KiB");
  CHECK_THAT(arena->fallbacks()[0].reason,
             Catch::StartsWith("huge pages back 0 % of 2.63 MiB; madvise(MADV_COLLAPSE): ") &&
                 Catch::Contains("shmem_enabled") && Catch::EndsWith("memory.arena to private"));
}

TEST_CASE("Shared arena: every page is there before it serves, and can be locked", "[tiers]") {
  Bytes last;
  const auto arena = MakeShared(
      TwoClasses(), {.pinning = Pinning::kPreferred, .on_progress = [&](Bytes done, Bytes) {
                       last = done;
                       return true;
                     }});
  CHECK(last == arena->size());
  std::vector<unsigned char> pages(arena->size().count() / 4096);
  const std::span<std::byte> slot = arena->Slot(SizeClass{0}, SlotIndex{0});
  REQUIRE(::mincore(slot.data(), arena->size().count(), pages.data()) == 0);
  CHECK(std::ranges::all_of(pages, [](unsigned char page) { return page & 1; }));
  const bool pageable = std::ranges::any_of(
      arena->fallbacks(), [](const Fallback& f) { return f.name == "memory_pin:pageable"; });
  CHECK(arena->pinned_bytes() == (pageable ? 0_B : arena->size()));
}

TEST_CASE("Shared arena: above the cgroup's limit it is refused before it is touched", "[tiers]") {
  const FakeHost host;
  host.Write("proc/meminfo", "MemTotal: 134217728 kB\nMemAvailable: 125829120 kB\n");
  host.Write("proc/self/cgroup", "0::/\n");
  host.Write("sys/fs/cgroup/memory.max", "2097152\n");
  host.Write("sys/fs/cgroup/memory.current", "1048576\n");
  bool touched = false;
  const auto arena =
      Arena::Create(TwoClasses(), {.memory = ArenaMemory::kShared,
                                   .reserve = 64_KiB,
                                   .roots = host.roots(),
                                   .on_progress = [&](Bytes, Bytes) { return touched = true; }});
  REQUIRE(!arena.has_value());
  CHECK(arena.error().reason == Reason::kMemoryLimit);
  CHECK(!touched);
}

TEST_CASE("Shared arena: pages of the hugetlb pool are refused, not quietly others", "[tiers]") {
  const auto arena =
      Arena::Create(TwoClasses(), {.memory = ArenaMemory::kShared, .pages = PageSize::k2MiB});
  REQUIRE(!arena.has_value());
  CHECK(arena.error().reason == Reason::kBadConfig);
}

TEST_CASE("Arena: private memory cannot be mapped by others, and says what to set", "[tiers]") {
  const auto arena = Arena::Create(TwoClasses(), {}).value();
  const Result<UniqueFd> file = arena->OpenReadOnly();
  REQUIRE(!file.has_value());
  CHECK(file.error().code == ErrorCode::kFailedPrecondition);
  CHECK(file.error().reason == Reason::kBadConfig);
  CHECK_THAT(file.error().message, Catch::Contains("memory.arena to shared"));
}

}  // namespace moetier
