#include <catch2/catch.hpp>
#include <cstdlib>
#include <new>

#include "tests/support/ledger_script.h"

// Counts every allocation of this test program.
namespace {
size_t allocations = 0;
}  // namespace

void* operator new(size_t size) {
  ++allocations;
  if (void* const block = std::malloc(size)) return block;
  throw std::bad_alloc();
}
// Catch asks for memory this way too; a sanitizer's own form would not match our delete.
void* operator new(size_t size, const std::nothrow_t& /*tag*/) noexcept {
  ++allocations;
  return std::malloc(size);
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, size_t /*size*/) noexcept { std::free(block); }

namespace moetier {
namespace {

// One token of a model with 8 layers: a wave a layer, every second of them released early, and
// before each two guesses, of which one is dropped at once.
void DecodeToken(ResidencyLedger& ledger, const std::vector<ExpertKey>& keys, uint32_t token,
                 CommandList& commands) {
  for (uint32_t layer = 0; layer < 8; ++layer) {
    const uint32_t first = layer * 32 + (token * 7 + layer) % 28;
    const WaveId wave{token * 8 + layer + 1};
    commands.clear();
    for (const uint32_t guess : {first + 1, first + 5}) {
      ledger.Step(Prefetch{.key = keys[guess % 256], .room = PrefetchRoom::kEvict}, commands);
    }
    ledger.Step(DropPrefetch{.key = keys[(first + 5) % 256]}, commands);
    ledger.Step(ReserveWave{.wave = wave, .keys = std::span(keys).subspan(first, 4)}, commands);
    const size_t answers = commands.size();
    if (layer % 2 == 1) ledger.Step(ReleaseWave{.wave = wave}, commands);
    for (size_t i = 0; i < answers; ++i) {
      if (!std::holds_alternative<StartRead>(commands[i])) continue;
      const Ticket ticket = std::get<StartRead>(commands[i]).ticket;
      ledger.Step(ReadLanded{.ticket = ticket}, commands);
    }
    if (layer % 2 == 0) ledger.Step(ReleaseWave{.wave = wave}, commands);
  }
}

TEST_CASE("ResidencyLedger: a steady load allocates nothing", "[tiers]") {
  const std::vector<ExpertKey> keys = TestKeys(8 * 32);
  for (const char* policy : {"lru", "clock", "lfu:32:100", "heat:100", "static"}) {
    CAPTURE(policy);
    const auto ledger =
        ResidencyLedger::Create({.slot_count = 40, .policy = policy, .keys = keys}).value();
    CommandList commands;
    uint32_t token = 0;
    for (; token < 50; ++token) DecodeToken(*ledger, keys, token, commands);
    const size_t before = allocations;
    for (; token < 150; ++token) DecodeToken(*ledger, keys, token, commands);
    const size_t after = allocations;
    CHECK(after == before);
    CHECK(before > 0);
    CHECK(ledger->counts().evictions > 1000);
    CHECK(ledger->counts().kept_reads > 1000);
    CHECK(ledger->counts().prefetch_used > 500);
    CHECK(ledger->counts().prefetch_wasted > 500);
  }
}

}  // namespace
}  // namespace moetier
