#include "daemon/ctl/progress_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/text_size.h"

namespace moetier {
namespace {

// Often enough to look alive, seldom enough not to cost anything or to flood a log.
constexpr std::chrono::milliseconds kRedrawInterval{100};
constexpr std::chrono::seconds kLineInterval{5};

}  // namespace

std::string FormatDuration(std::chrono::seconds duration) {
  const int64_t seconds = std::max<int64_t>(0, duration.count());
  const int64_t minutes = seconds / 60;
  const int64_t hours = minutes / 60;
  if (hours >= 24) return fmt::format("{} d {} h", hours / 24, hours % 24);
  if (hours > 0) return fmt::format("{} h {} min", hours, minutes % 60);
  if (minutes > 0) return fmt::format("{} min {} s", minutes, seconds % 60);
  return fmt::format("{} s", seconds);
}

std::string FormatProgress(const ProgressState& state) {
  const uint64_t done = state.done.count();
  const uint64_t total = std::max(state.total.count(), done);
  const uint64_t fresh = done - std::min(done, state.done_at_start.count());
  std::string text = fmt::format("{}: {}", state.what, FormatSize(state.done));
  if (state.total.count() > 0) {
    const double percent = 100.0 * static_cast<double>(done) / static_cast<double>(total);
    text += fmt::format(" of {} ({:.0f} %)", FormatSize(Bytes(total)), percent);
  }
  constexpr double kTooShort = 0.05;  // seconds; a rate over less says nothing
  if (state.elapsed.count() < kTooShort || fresh == 0) return text;
  const double rate = static_cast<double>(fresh) / state.elapsed.count();
  text += fmt::format(", {}/s", FormatSize(Bytes(static_cast<uint64_t>(rate))));
  if (state.total.count() > 0 && done < total && rate >= 1) {
    const double left = static_cast<double>(total - done) / rate;
    constexpr double kLongest = 1e9;  // about 30 years: keeps the conversion in range
    text += fmt::format(
        ", {} left",
        FormatDuration(std::chrono::seconds(static_cast<int64_t>(std::min(left, kLongest)))));
  }
  return text;
}

ProgressLine::Style ProgressLine::StyleFor(std::FILE* stream) {
  return ::isatty(::fileno(stream)) == 1 ? Style::kRedraw : Style::kLines;
}

ProgressLine::ProgressLine(std::string what, std::FILE* stream, Style style, const Clock& clock)
    : what_(std::move(what)), stream_(stream), style_(style), clock_(clock) {}

ProgressLine::~ProgressLine() {
  if (line_open_) std::fputc('\n', stream_);
  std::fflush(stream_);
}

void ProgressLine::Update(Bytes done, Bytes total) {
  const TimePoint now = clock_.Now();
  if (!started_) {
    started_ = now;
    done_at_start_ = done;
    shown_ = now;
  }
  const bool all_done = total.count() > 0 && done >= total;
  const bool due =
      now - shown_ >= (style_ == Style::kRedraw
                           ? std::chrono::duration_cast<TimePoint::duration>(kRedrawInterval)
                           : std::chrono::duration_cast<TimePoint::duration>(kLineInterval));
  if (finished_ || !(due || all_done)) return;
  shown_ = now;
  finished_ = all_done;
  const std::string text = FormatProgress({.what = what_,
                                           .done = done,
                                           .total = total,
                                           .done_at_start = done_at_start_,
                                           .elapsed = now - *started_});
  if (style_ == Style::kRedraw) {
    // Carriage return, the line, and an escape that erases what an earlier, longer one left.
    std::fputs(fmt::format("\r{}\033[K", text).c_str(), stream_);
    line_open_ = true;
  } else {
    std::fputs((text + "\n").c_str(), stream_);
  }
  std::fflush(stream_);
}

}  // namespace moetier
