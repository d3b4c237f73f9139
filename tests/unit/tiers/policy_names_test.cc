#include <catch2/catch.hpp>
#include <string>

#include "tiers/eviction_policy.h"

namespace moetier {
namespace {

constexpr EvictionPolicy::Sizes kSizes{.slot_count = 4, .key_count = 8};

TEST_CASE("EvictionPolicy: every documented name makes a policy", "[tiers]") {
  for (const char* name : {"lru", "clock", "static", "heat", "heat:0", "heat:4294967295", "lfu:1:0",
                           "lfu:32:500", "lfu:4294967295:4294967295"}) {
    CAPTURE(name);
    CHECK(EvictionPolicy::Create(name, kSizes).has_value());
  }
}

TEST_CASE("EvictionPolicy: any other name is refused with what is allowed", "[tiers]") {
  for (const char* name : {"",
                           "LRU",
                           "lru ",
                           "mru",
                           "lfu",
                           "lfu:",
                           "lfu:32",
                           "lfu:0:0",
                           "lfu:-1:0",
                           "lfu:32:",
                           "lfu::5",
                           "lfu:32:5:6",
                           "lfu:32:5 ",
                           "lfu:4294967296:0",
                           "lfu:1:4294967296",
                           "lfu:1.5:2",
                           "heat:",
                           "heat:-1",
                           "heat:1:2",
                           "heat:4294967296",
                           "Heat"}) {
    CAPTURE(name);
    const auto policy = EvictionPolicy::Create(name, kSizes);
    REQUIRE_FALSE(policy.has_value());
    CHECK(policy.error().code == ErrorCode::kInvalidArgument);
    for (const char* word : {"lru", "clock", "static", "lfu:WINDOW:HALF_LIFE", "heat:HALF_LIFE"}) {
      CHECK(policy.error().message.find(word) != std::string::npos);
    }
  }
}

TEST_CASE("EvictionPolicy: an endless name is not repeated in full", "[tiers]") {
  const auto policy = EvictionPolicy::Create(std::string(100'000, 'x'), kSizes);
  CHECK(policy.error().message.size() < 300);
}

}  // namespace
}  // namespace moetier
