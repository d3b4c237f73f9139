#include "daemon/ctl/progress_line.h"

#include <catch2/catch.hpp>
#include <cstdio>
#include <memory>
#include <string>

namespace moetier {
namespace {

using std::chrono::seconds;

class TestClock final : public Clock {
 public:
  [[nodiscard]] TimePoint Now() const override { return now; }
  TimePoint now;
};

// What a ProgressLine wrote.
class Capture {
 public:
  Capture() : stream_(std::tmpfile()) { REQUIRE(stream_ != nullptr); }
  ~Capture() { std::fclose(stream_); }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  [[nodiscard]] std::FILE* stream() const { return stream_; }
  [[nodiscard]] std::string text() const {
    std::rewind(stream_);
    std::string text(4096, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), stream_));
    return text;
  }

 private:
  std::FILE* stream_;
};

}  // namespace

TEST_CASE("FormatDuration: two units at most", "[ctl]") {
  CHECK(FormatDuration(seconds(0)) == "0 s");
  CHECK(FormatDuration(seconds(-5)) == "0 s");
  CHECK(FormatDuration(seconds(59)) == "59 s");
  CHECK(FormatDuration(seconds(61)) == "1 min 1 s");
  CHECK(FormatDuration(seconds(3660)) == "1 h 1 min");
  CHECK(FormatDuration(seconds(90000)) == "1 d 1 h");
}

TEST_CASE("FormatProgress: bytes, share, rate and the time left", "[ctl]") {
  CHECK(FormatProgress({.what = "import",
                        .done = 3_GiB,
                        .total = 12_GiB,
                        .done_at_start = {},
                        .elapsed = seconds(6)}) ==
        "import: 3.00 GiB of 12.0 GiB (25 %), 512.0 MiB/s, 18 s left");
}

TEST_CASE("FormatProgress: what an earlier run did counts as done, not as speed", "[ctl]") {
  CHECK(FormatProgress({.what = "import",
                        .done = 3_GiB,
                        .total = 4_GiB,
                        .done_at_start = 2_GiB,
                        .elapsed = seconds(2)}) ==
        "import: 3.00 GiB of 4.00 GiB (75 %), 512.0 MiB/s, 2 s left");
}

TEST_CASE("FormatProgress: nothing is claimed that is not known", "[ctl]") {
  CHECK(
      FormatProgress({.what = "x", .done = {}, .total = {}, .done_at_start = {}, .elapsed = {}}) ==
      "x: 0 B");
  CHECK(
      FormatProgress(
          {.what = "x", .done = 1_KiB, .total = {}, .done_at_start = {}, .elapsed = seconds(1)}) ==
      "x: 1.00 KiB, 1.00 KiB/s");
  // More done than announced: never above 100 %.
  CHECK(FormatProgress(
            {.what = "x", .done = 2_KiB, .total = 1_KiB, .done_at_start = {}, .elapsed = {}}) ==
        "x: 2.00 KiB of 2.00 KiB (100 %)");
}

TEST_CASE("ProgressLine: plain lines come every few seconds, and one at the end", "[ctl]") {
  const Capture capture;
  TestClock clock;
  {
    ProgressLine line("copy", capture.stream(), ProgressLine::Style::kLines, clock);
    for (uint64_t i = 0; i <= 12; ++i) {
      line.Update(Bytes(i), 12_B);
      clock.now += seconds(1);
    }
    line.Update(12_B, 12_B);
  }
  CHECK(capture.text() ==
        "copy: 5 B of 12 B (42 %), 1 B/s, 7 s left\n"
        "copy: 10 B of 12 B (83 %), 1 B/s, 2 s left\n"
        "copy: 12 B of 12 B (100 %), 1 B/s\n");
}

TEST_CASE("ProgressLine: a terminal's line is redrawn and ended once", "[ctl]") {
  const Capture capture;
  TestClock clock;
  {
    ProgressLine line("copy", capture.stream(), ProgressLine::Style::kRedraw, clock);
    line.Update(0_B, 2_B);
    clock.now += seconds(1);
    line.Update(1_B, 2_B);
    line.Update(1_B, 2_B);  // too soon
  }
  CHECK(capture.text() == "\rcopy: 1 B of 2 B (50 %), 1 B/s, 1 s left\033[K\n");
}

}  // namespace moetier
