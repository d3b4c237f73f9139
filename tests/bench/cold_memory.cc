#include "tests/bench/cold_memory.h"

#include <sys/mman.h>
#include <time.h>

#include <cerrno>
#include <cstring>

#include "base/bytes.h"
#include "base/check.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace moetier::bench {
namespace {

constexpr size_t kHugePage = (2_MiB).count();

#if defined(__x86_64__)
template <bool kPrefetch>
__attribute__((target("avx512f"))) unsigned ReadAvx512(const std::byte* at, size_t bytes) {
  __m512i sum[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(),
                    _mm512_setzero_si512()};
  for (const std::byte* end = at + bytes / 256 * 256; at < end; at += 256) {
    if (kPrefetch) {
      asm volatile(
          "prefetcht0 4096(%0)\n\tprefetcht0 4160(%0)\n\t"
          "prefetcht0 4224(%0)\n\tprefetcht0 4288(%0)"
          :
          : "r"(at));
    }
    sum[0] = _mm512_xor_si512(sum[0], _mm512_load_si512(at));
    sum[1] = _mm512_xor_si512(sum[1], _mm512_load_si512(at + 64));
    sum[2] = _mm512_xor_si512(sum[2], _mm512_load_si512(at + 128));
    sum[3] = _mm512_xor_si512(sum[3], _mm512_load_si512(at + 192));
  }
  const __m512i all =
      _mm512_xor_si512(_mm512_xor_si512(sum[0], sum[1]), _mm512_xor_si512(sum[2], sum[3]));
  return static_cast<unsigned>(_mm_cvtsi128_si32(_mm512_castsi512_si128(all)));
}

template <bool kPrefetch>
__attribute__((target("avx2"))) unsigned ReadAvx2(const std::byte* at, size_t bytes) {
  __m256i sum[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(),
                    _mm256_setzero_si256()};
  for (const std::byte* end = at + bytes / 128 * 128; at < end; at += 128) {
    if (kPrefetch) asm volatile("prefetcht0 4096(%0)\n\tprefetcht0 4160(%0)" : : "r"(at));
    const auto* lines = reinterpret_cast<const __m256i*>(at);
    sum[0] = _mm256_xor_si256(sum[0], _mm256_load_si256(lines));
    sum[1] = _mm256_xor_si256(sum[1], _mm256_load_si256(lines + 1));
    sum[2] = _mm256_xor_si256(sum[2], _mm256_load_si256(lines + 2));
    sum[3] = _mm256_xor_si256(sum[3], _mm256_load_si256(lines + 3));
  }
  const __m256i all =
      _mm256_xor_si256(_mm256_xor_si256(sum[0], sum[1]), _mm256_xor_si256(sum[2], sum[3]));
  return static_cast<unsigned>(_mm_cvtsi128_si32(_mm256_castsi256_si128(all)));
}
#endif

unsigned ReadGeneric(const std::byte* at, size_t bytes) {
  uint64_t sum = 0;
  for (size_t i = 0; i + 8 <= bytes; i += 8) {
    uint64_t word;
    std::memcpy(&word, at + i, sizeof word);
    sum ^= word;
  }
  return static_cast<unsigned>(sum);
}

}  // namespace

Result<std::unique_ptr<ColdMemory>> ColdMemory::Create(size_t bytes) {
  const size_t mapped = AlignUp(bytes, kHugePage);
  // One page more, so that the start can be moved to a 2 MiB border; the slack is never touched.
  void* base = mmap(nullptr, mapped + kHugePage, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    return Error{ErrorCode::kExhausted, Reason::kUnspecified,
                 fmt::format("map {} bytes of cold memory: {}", mapped, std::strerror(errno))};
  }
  auto* start = static_cast<std::byte*>(base);
  const size_t skip =
      AlignUp(reinterpret_cast<uintptr_t>(base), kHugePage) - reinterpret_cast<uintptr_t>(base);
  if (skip > 0) munmap(start, skip);
  if (skip < kHugePage) munmap(start + skip + mapped, kHugePage - skip);
  madvise(start + skip, mapped, MADV_HUGEPAGE);  // advice: small pages are slower, not wrong
  return std::unique_ptr<ColdMemory>(new ColdMemory(start + skip, mapped));
}

ColdMemory::~ColdMemory() { munmap(base_, bytes_); }

void ColdMemory::Fill(std::span<const std::byte> record, size_t piece_bytes) {
  piece_ = (piece_bytes + record.size() - 1) / record.size() * record.size();
  MOE_CHECK(piece_ * 2 <= bytes_, "pieces of {} bytes in {}", piece_, bytes_);
  const size_t used = bytes_ / piece_ * piece_;
  for (size_t at = 0; at < used; at += record.size()) {
    std::memcpy(base_ + at, record.data(), record.size());
  }
  next_ = 0;
}

std::span<const std::byte> ColdMemory::NextPiece() {
  const std::span<const std::byte> piece(base_ + next_, piece_);
  next_ += piece_;
  if (next_ + piece_ > bytes_) next_ = 0;
  return piece;
}

unsigned ReadAll(ReadLoop loop, std::span<const std::byte> piece) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) {
    return loop == ReadLoop::kPrefetch ? ReadAvx512<true>(piece.data(), piece.size())
                                       : ReadAvx512<false>(piece.data(), piece.size());
  }
  if (__builtin_cpu_supports("avx2")) {
    return loop == ReadLoop::kPrefetch ? ReadAvx2<true>(piece.data(), piece.size())
                                       : ReadAvx2<false>(piece.data(), piece.size());
  }
#endif
  return ReadGeneric(piece.data(), piece.size());
}

const char* ReadLoopName() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return "avx512";
  if (__builtin_cpu_supports("avx2")) return "avx2";
#endif
  return "generic";
}

double ThreadSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace moetier::bench
