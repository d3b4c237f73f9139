#ifndef MOETIER_BASE_BYTES_H_
#define MOETIER_BASE_BYTES_H_

#include <compare>
#include <cstdint>
#include <limits>

namespace moetier {

// A number of bytes. Sums and multiples stay Bytes, and stay at the largest number rather than
// begin again at 0; a quotient of two is a plain number.
class Bytes {
 public:
  constexpr Bytes() = default;
  explicit constexpr Bytes(uint64_t count) : count_(count) {}
  [[nodiscard]] constexpr uint64_t count() const { return count_; }

  friend constexpr auto operator<=>(Bytes, Bytes) = default;
  friend constexpr Bytes operator+(Bytes a, Bytes b) {
    const uint64_t sum = a.count_ + b.count_;
    return Bytes(sum < a.count_ ? std::numeric_limits<uint64_t>::max() : sum);
  }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return Bytes(a.count_ - b.count_); }
  friend constexpr Bytes operator*(Bytes a, uint64_t n) {
    const bool fits = n == 0 || a.count_ <= std::numeric_limits<uint64_t>::max() / n;
    return Bytes(fits ? a.count_ * n : std::numeric_limits<uint64_t>::max());
  }
  friend constexpr uint64_t operator/(Bytes a, Bytes b) { return a.count_ / b.count_; }
  constexpr Bytes& operator+=(Bytes other) { return *this = *this + other; }
  constexpr Bytes& operator-=(Bytes other) { return *this = *this - other; }

 private:
  uint64_t count_ = 0;
};

constexpr Bytes operator""_B(unsigned long long n) { return Bytes(n); }
constexpr Bytes operator""_KiB(unsigned long long n) { return Bytes(n << 10); }
constexpr Bytes operator""_MiB(unsigned long long n) { return Bytes(n << 20); }
constexpr Bytes operator""_GiB(unsigned long long n) { return Bytes(n << 30); }

// `value` rounded up to a multiple of `alignment`, a power of two. The caller has bounded `value`.
constexpr uint64_t AlignUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}
constexpr uint64_t AlignDown(uint64_t value, uint64_t alignment) {
  return value & ~(alignment - 1);
}

}  // namespace moetier

#endif  // MOETIER_BASE_BYTES_H_
