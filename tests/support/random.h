#ifndef MOETIER_TESTS_SUPPORT_RANDOM_H_
#define MOETIER_TESTS_SUPPORT_RANDOM_H_

#include <cstdint>

namespace moetier {

// A stream of numbers that is the same on every machine (splitmix64), unlike the standard
// library's distributions: a printed seed must replay everywhere.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  // 0 to bound - 1; the slight bias of the remainder does not matter here.
  uint32_t Below(uint64_t bound) { return static_cast<uint32_t>(Next() % bound); }
  // Both ends are possible.
  uint32_t Between(uint32_t low, uint32_t high) { return low + Below(uint64_t{high} - low + 1); }
  bool Percent(uint32_t percent) { return Below(100) < percent; }

 private:
  uint64_t state_;
};

}  // namespace moetier

#endif  // MOETIER_TESTS_SUPPORT_RANDOM_H_
