#ifndef MOETIER_DAEMON_CTL_PROGRESS_LINE_H_
#define MOETIER_DAEMON_CTL_PROGRESS_LINE_H_

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/clock.h"

namespace moetier {

// "45 s", "3 min 20 s", "2 h 5 min", "4 d 1 h": two units at most.
std::string FormatDuration(std::chrono::seconds duration);

struct ProgressState {
  std::string_view what;  // "import"
  Bytes done;
  Bytes total;          // 0: not known
  Bytes done_at_start;  // what an earlier run had done: it does not count for the rate
  std::chrono::duration<double> elapsed{};
};

// "import: 1.50 GiB of 12.0 GiB (12 %), 512.0 MiB/s, 21 s left"
std::string FormatProgress(const ProgressState& state);

// Shows how far a long step is: on a terminal one line that redraws itself, elsewhere a plain line
// every few seconds. Writes to `stream` (stderr, so that stdout has only the result).
// Threads: one.
class ProgressLine {
 public:
  enum class Style : uint8_t { kRedraw, kLines };
  // Redraws when `stream` is a terminal.
  static Style StyleFor(std::FILE* stream);

  ProgressLine(std::string what, std::FILE* stream, Style style, const Clock& clock);
  ~ProgressLine();  // ends a line that is being redrawn
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Shows it if the last line is old enough, or if everything is done.
  void Update(Bytes done, Bytes total);

 private:
  const std::string what_;
  std::FILE* const stream_;
  const Style style_;
  const Clock& clock_;
  std::optional<TimePoint> started_;  // at the first Update
  Bytes done_at_start_;
  TimePoint shown_;
  bool finished_ = false;   // the line with everything done has been shown
  bool line_open_ = false;  // kRedraw: the cursor stands behind a line of ours
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_CTL_PROGRESS_LINE_H_
