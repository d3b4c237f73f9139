#ifndef MOETIER_DAEMON_SCHEDULING_PREFETCH_COUNTS_H_
#define MOETIER_DAEMON_SCHEDULING_PREFETCH_COUNTS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace moetier {

// Who guesses experts ahead of a call.
enum class GuessSource : uint8_t { kRouter, kHint, kHistory };
inline constexpr size_t kGuessSources = 3;

constexpr std::string_view GuessSourceName(GuessSource source) {
  switch (source) {
    case GuessSource::kRouter:
      return "router";
    case GuessSource::kHint:
      return "hint";
    case GuessSource::kHistory:
      return "history";
  }
  return "unknown";
}

// How good a source is, over the calls that found guesses of it; counted when such a call begins,
// per distinct expert. Recall = right / picks, precision = right / guesses, in-time share =
// in_time / absent.
struct SourceCounts {
  uint64_t calls = 0;
  uint64_t picks = 0;
  uint64_t guesses = 0;
  uint64_t right = 0;    // guessed and picked
  uint64_t absent = 0;   // of these, not resident when guessed
  uint64_t in_time = 0;  // of these, resident when the call began
  uint64_t stale = 0;    // lists of guesses that came after their call had begun
};

// All prefetches, over the models that are loaded.
struct PrefetchTotals {
  uint64_t started = 0;
  uint64_t used = 0;     // named by a wave
  uint64_t late = 0;     // of these, while still being read
  uint64_t wasted = 0;   // evicted, cancelled or failed before that
  uint64_t refused = 0;  // not started: no room
  uint32_t in_flight = 0;
};

// Experts that preheats read into free slots, over the models that are loaded. No guesses.
struct PreheatTotals {
  uint64_t started = 0;
  uint64_t used = 0;    // named by a wave
  uint64_t wasted = 0;  // evicted, cancelled or failed before that
  uint32_t in_flight = 0;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_PREFETCH_COUNTS_H_
