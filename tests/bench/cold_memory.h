#ifndef MOETIER_TESTS_BENCH_COLD_MEMORY_H_
#define MOETIER_TESTS_BENCH_COLD_MEMORY_H_

#include <cstddef>
#include <memory>
#include <span>

#include "base/result.h"

namespace moetier::bench {

// Anonymous memory on 2 MiB pages where the system gives them, filled with copies of one record.
// Pieces are handed out round and round, so that what a piece holds was last read one whole round
// ago: more than any cache keeps.
class ColdMemory {
 public:
  // kExhausted when the system refuses the mapping.
  static Result<std::unique_ptr<ColdMemory>> Create(size_t bytes);
  ~ColdMemory();
  ColdMemory(const ColdMemory&) = delete;
  ColdMemory& operator=(const ColdMemory&) = delete;

  // `piece_bytes` is rounded up to whole records.
  void Fill(std::span<const std::byte> record, size_t piece_bytes);

  // Whole records, back to back, 64-byte aligned.
  std::span<const std::byte> NextPiece();

 private:
  ColdMemory(std::byte* base, size_t bytes) : base_(base), bytes_(bytes) {}

  std::byte* base_;
  size_t bytes_;
  size_t piece_ = 0;
  size_t next_ = 0;
};

// One pass of 64-byte loads (32-byte ones where the processor lacks AVX-512), four an iteration;
// with `prefetch`, every line is asked for 4 KiB ahead. The result only keeps the loads alive.
enum class ReadLoop { kPlain, kPrefetch };
unsigned ReadAll(ReadLoop loop, std::span<const std::byte> piece);
const char* ReadLoopName();  // "avx512", "avx2" or "generic"

// CPU time of this thread.
double ThreadSeconds();

}  // namespace moetier::bench

#endif  // MOETIER_TESTS_BENCH_COLD_MEMORY_H_
