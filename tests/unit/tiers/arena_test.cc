#include "tiers/arena.h"

#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <set>
#include <thread>

#include "tests/support/fake_host.h"

namespace moetier {
namespace {

ArenaPlan Plan(std::initializer_list<SizeClassGeometry> classes, Bytes budget) {
  return PlanArena(std::vector<SizeClassGeometry>(classes), budget, 1).value();
}

ArenaPlan OneClass(Bytes slot_bytes, uint32_t slots) {
  return Plan({{slot_bytes, slots}}, slot_bytes * slots);
}

bool Names(const Arena& arena, std::string_view fallback) {
  return std::any_of(arena.fallbacks().begin(), arena.fallbacks().end(),
                     [&](const Fallback& f) { return f.name == fallback; });
}

// The sanitizers make mlock do nothing and say that it did.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kLocksForReal = false;
#elif defined(__has_feature)
constexpr bool kLocksForReal =
    !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer);
#else
constexpr bool kLocksForReal = true;
#endif

// Takes CAP_IPC_LOCK from the calling thread, as an unprivileged service has it.
void DropLockCapability() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  REQUIRE(::syscall(SYS_capget, &header, data) == 0);
  data[0].effective &= ~(1u << CAP_IPC_LOCK);
  REQUIRE(::syscall(SYS_capset, &header, data) == 0);
}

}  // namespace

TEST_CASE("Arena: slots of all classes are aligned, apart, and keep their bytes", "[tiers]") {
  const ArenaPlan plan = Plan({{8_KiB, 5}, {12_KiB, 3}, {4_KiB, 0}}, 1_MiB);
  const auto arena = Arena::Create(plan, {}).value();
  CHECK(arena->size() == 8_KiB * 5 + 12_KiB * 3);
  std::set<const std::byte*> starts;
  uint8_t stamp = 0;
  const auto each_slot = [&](auto visit) {
    for (uint8_t c = 0; c < 2; ++c) {
      for (uint32_t s = 0; s < plan.regions[c].slots; ++s) {
        visit(arena->Slot(SizeClass{c}, SlotIndex{s}), plan.regions[c].slot_bytes);
      }
    }
  };
  each_slot([&](std::span<std::byte> slot, Bytes bytes) {
    CHECK(slot.size() == bytes.count());
    CHECK(reinterpret_cast<uintptr_t>(slot.data()) % kRecordAlignment == 0);
    CHECK(starts.insert(slot.data()).second);
    std::fill(slot.begin(), slot.end(), std::byte{++stamp});
  });
  stamp = 0;
  each_slot([&](std::span<std::byte> slot, Bytes) {
    ++stamp;
    CHECK(
        std::all_of(slot.begin(), slot.end(), [&](std::byte b) { return b == std::byte{stamp}; }));
  });
}

TEST_CASE("Arena: progress ends at the whole, and every page is there already", "[tiers]") {
  Bytes last;
  uint32_t calls = 0;
  const auto arena = Arena::Create(OneClass(64_KiB, 64), {.on_progress =
                                                              [&](Bytes done, Bytes all) {
                                                                CHECK(done <= all);
                                                                CHECK(done > last);
                                                                last = done;
                                                                ++calls;
                                                                return true;
                                                              }})
                         .value();
  CHECK(calls >= 1);
  CHECK(last == 4_MiB);
  std::vector<unsigned char> pages(4 << 20 >> 12);
  const std::span<std::byte> slot = arena->Slot(SizeClass{0}, SlotIndex{0});
  REQUIRE(::mincore(slot.data(), 4 << 20, pages.data()) == 0);
  CHECK(std::all_of(pages.begin(), pages.end(), [](unsigned char page) { return page & 1; }));
}

TEST_CASE("Arena: whoever is told of the progress can end it", "[tiers]") {
  const auto stopped =
      Arena::Create(OneClass(64_KiB, 64), {.on_progress = [](Bytes, Bytes) { return false; }});
  REQUIRE(!stopped.has_value());
  CHECK(stopped.error().code == ErrorCode::kCancelled);
}

TEST_CASE("Arena: a model without experts needs no memory", "[tiers]") {
  const auto arena = Arena::Create(Plan({}, 1_GiB), {.pinning = Pinning::kPreferred}).value();
  CHECK(arena->size() == 0_B);
  CHECK(arena->pinned_bytes() == 0_B);
  CHECK(arena->fallbacks().empty());
}

TEST_CASE("Arena: what is given back leaves the host's memory, and is taken again empty",
          "[tiers]") {
  ArenaPlan plan = OneClass(2_MiB, 8);
  plan.regions[0].records = 8;
  const auto arena = Arena::Create(plan, {}).value();
  const auto resident = [&](uint32_t slot) {
    std::vector<unsigned char> pages(2 << 20 >> 12);
    const std::span<std::byte> memory = arena->Slot(SizeClass{0}, SlotIndex{slot});
    REQUIRE(::mincore(memory.data(), memory.size(), pages.data()) == 0);
    return std::ranges::count_if(pages, [](unsigned char page) { return page & 1; });
  };
  std::ranges::fill(arena->Slot(SizeClass{0}, SlotIndex{5}), std::byte{7});
  arena->GiveBack(SizeClass{0}, SlotIndex{5});
  CHECK(resident(5) == 0);
  CHECK(resident(4) == 512);
  CHECK(arena->size() == 14_MiB);
  REQUIRE(arena->Take(SizeClass{0}, SlotIndex{5}, 1).has_value());
  CHECK(resident(5) == 512);
  CHECK(arena->size() == 16_MiB);
  CHECK(arena->Slot(SizeClass{0}, SlotIndex{5})[100] == std::byte{0});
}

TEST_CASE("Arena: it grows to a slot a record, in the addresses that it has", "[tiers]") {
  const auto arena = Arena::Create(Plan({{64_KiB, 100}, {4_KiB, 50}}, 2_MiB), {}).value();
  const uint32_t slots = arena->plan().regions[0].slots;
  REQUIRE(slots < 100);
  CHECK(arena->Places(SizeClass{0}) == 100);
  CHECK(arena->Places(SizeClass{1}) == 50);
  const Bytes before = arena->size();
  REQUIRE(arena->Take(SizeClass{0}, SlotIndex{slots}, 100 - slots).has_value());
  CHECK(arena->size() == before + 64_KiB * (100 - slots));
  std::ranges::fill(arena->Slot(SizeClass{0}, SlotIndex{99}), std::byte{9});
  CHECK(arena->Slot(SizeClass{1}, SlotIndex{0})[0] == std::byte{0});
}

TEST_CASE("Arena: locked memory is unlocked when it goes, and locked when it comes", "[tiers]") {
  ArenaPlan plan = OneClass(4_KiB, 8);
  plan.regions[0].records = 8;
  const auto arena = Arena::Create(plan, {.pinning = Pinning::kPreferred}).value();
  REQUIRE(arena->pinned_bytes() == 32_KiB);
  arena->GiveBack(SizeClass{0}, SlotIndex{1});
  CHECK(arena->pinned_bytes() == 28_KiB);
  REQUIRE(arena->Take(SizeClass{0}, SlotIndex{1}, 1).has_value());
  CHECK(arena->pinned_bytes() == 32_KiB);
}

TEST_CASE("Arena: the memory is given back", "[tiers]") {
  std::byte* slot = nullptr;
  {
    const auto arena = Arena::Create(OneClass(4_KiB, 16), {}).value();
    slot = arena->Slot(SizeClass{0}, SlotIndex{0}).data();
    CHECK(::msync(slot, 4096, MS_ASYNC) == 0);
  }
  CHECK(::msync(slot, 4096, MS_ASYNC) != 0);  // ENOMEM: nothing is mapped there
}

TEST_CASE("field_18: an arena above the cgroup's limit is refused before it is touched",
          "[tiers]") {
  const FakeHost host;
  host.Write("proc/meminfo", "MemTotal: 134217728 kB\nMemAvailable: 125829120 kB\n");
  host.Write("proc/self/cgroup", "0::/\n");
  host.Write("sys/fs/cgroup/memory.max", "67108864\n");
  host.Write("sys/fs/cgroup/memory.current", "33554432\n");
  bool touched = false;
  const auto arena =
      Arena::Create(OneClass(1_MiB, 64),
                    {.reserve = 1_MiB, .roots = host.roots(), .on_progress = [&](Bytes, Bytes) {
                       return touched = true;
                     }});
  REQUIRE(!arena.has_value());
  CHECK(arena.error().reason == Reason::kMemoryLimit);
  CHECK(arena.error().message.find("64.0 MiB wanted") != std::string::npos);
  CHECK(arena.error().message.find("32.0 MiB used") != std::string::npos);
  CHECK(!touched);
}

TEST_CASE("field_03 field_19: an arena that may not be locked is pageable, by name", "[tiers]") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_MEMLOCK, &before) == 0);
  const auto limit = GENERATE(Bytes(64_KiB), Bytes(1_MiB));  // below one arena, below two
  if (limit == 1_MiB && !kLocksForReal) return;
  rlimit small = before;
  small.rlim_cur = limit.count();
  REQUIRE(::setrlimit(RLIMIT_MEMLOCK, &small) == 0);
  std::unique_ptr<Arena> first, second;
  std::thread([&] {
    DropLockCapability();
    first = Arena::Create(OneClass(768_KiB, 1), {.pinning = Pinning::kPreferred}).value();
    second = Arena::Create(OneClass(768_KiB, 1), {.pinning = Pinning::kPreferred}).value();
  }).join();
  ::setrlimit(RLIMIT_MEMLOCK, &before);
  CHECK(Names(*first, "memory_pin:pageable") == (limit == 64_KiB));
  CHECK(first->pinned_bytes() == (limit == 64_KiB ? 0_B : 768_KiB));
  CHECK(Names(*second, "memory_pin:pageable"));
  CHECK(second->pinned_bytes() == 0_B);
}

TEST_CASE("Arena: memory that must be locked and may not is refused with the limit", "[tiers]") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_MEMLOCK, &before) == 0);
  rlimit small = before;
  small.rlim_cur = (64_KiB).count();
  REQUIRE(::setrlimit(RLIMIT_MEMLOCK, &small) == 0);
  std::string refusal = "locked";
  std::thread([&] {
    DropLockCapability();
    const auto arena = Arena::Create(OneClass(768_KiB, 1),
                                     {.what = "models[m].ram", .pinning = Pinning::kRequired});
    if (!arena.has_value()) refusal = arena.error().message;
  }).join();
  ::setrlimit(RLIMIT_MEMLOCK, &before);
  CHECK_THAT(refusal, Catch::StartsWith("models[m].ram: 768.0 KiB to lock") &&
                          Catch::Contains("LimitMEMLOCK") && Catch::EndsWith("to auto"));
}

TEST_CASE("Arena: an arena within the memlock limit is locked", "[tiers]") {
  const auto arena =
      Arena::Create(OneClass(4_KiB, 8), {.pinning = Pinning::kPreferred}).value();  // 32 KiB
  CHECK(arena->pinned_bytes() == 32_KiB);
  CHECK(!Names(*arena, "memory_pin:pageable"));
}

TEST_CASE("field_24: huge pages that are not there fall back in named steps", "[tiers]") {
  // No host has 64 EiB of huge pages; a small block shows the steps where the pool is empty.
  const auto arena = Arena::Create(OneClass(1_MiB, 4), {.pages = PageSize::k1GiB}).value();
  std::ifstream giant("/sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages");
  std::ifstream large("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
  uint64_t giants = 0, larges = 0;
  giant >> giants;
  large >> larges;
  if (giants == 0) CHECK(Names(*arena, "memory_pages:2MiB"));
  if (giants == 0 && larges < 2) CHECK(Names(*arena, "memory_pages:transparent"));
  CHECK(!arena->page_size().empty());
  std::ranges::fill(arena->Slot(SizeClass{0}, SlotIndex{3}), std::byte{1});
}

TEST_CASE("field_24: small pages where transparent ones were asked for have a name", "[tiers]") {
  // A /proc that shows no huge page behind the block, as on a host with fragmented memory.
  const FakeHost host;
  host.Write("proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable: 8388608 kB\n");
  host.Write("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
  const auto arena = Arena::Create(OneClass(1_MiB, 4), {.roots = host.roots()}).value();
  CHECK(arena->page_size() == "4 KiB pages");
  REQUIRE(arena->fallbacks().size() == 1);
  CHECK(arena->fallbacks()[0].name == "memory_pages:4KiB");
  CHECK(arena->fallbacks()[0].reason ==
        "huge pages back 0 % of 4.00 MiB; transparent_hugepage/enabled is never: set it to "
        "madvise, or free memory before the start if it is fragmented");
}

TEST_CASE("Arena: small pages that were asked for are no fallback", "[tiers]") {
  const auto arena = Arena::Create(OneClass(1_MiB, 4), {.pages = PageSize::kSmall}).value();
  CHECK(arena->fallbacks().empty());
}

TEST_CASE("field_20: an arena beyond any address space is an error that does not stick",
          "[tiers]") {
  ArenaPlan plan;
  plan.total = Bytes(uint64_t{1} << 60);
  plan.regions.push_back({Bytes(uint64_t{1} << 60), 1, 0});
  CHECK(Arena::Create(plan, {}).error().reason == Reason::kMemoryLimit);
  plan.total = Bytes(UINT64_MAX - 4095);
  CHECK(Arena::Create(plan, {}).error().reason == Reason::kMemoryLimit);
  CHECK(Arena::Create(OneClass(4_KiB, 1), {}).has_value());
}

}  // namespace moetier
