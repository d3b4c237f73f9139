#ifndef MOETIER_DAEMON_SCHEDULING_PLAN_CHECK_H_
#define MOETIER_DAEMON_SCHEDULING_PLAN_CHECK_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace moetier {

// Which plan a layer call runs: the planner's, or PlanSimplest's.
enum class PlanArm : uint8_t { kPlanned, kSimplest };

// Sees to it that planning is never slower than the simplest plan, by the only judge there is: the
// measured time of whole calls. Calls come in blocks (a token: every layer once). Now and then two
// blocks that follow each other are a trial: one runs each arm, in turns first, and the ratio of
// their times, planned over simplest, counts. The last trials decide:
//
//             most > 1, median > 1 + margin              most < 1, median < 1 - margin
//   kPlanned ------------------------------> kSimplest ------------------------------> kPlanned
//
// A change forgets the trials before it, so each change has full evidence of its own. Trials grow
// rarer as long as they confirm the choice; a change, or one that speaks against the choice, makes
// them frequent again.
// A pure state machine. Threads: its owner's. Never allocates.
class PlanCheck {
 public:
  static constexpr size_t kTrials = 15;  // that decide; a block that was disturbed is one of many
  static constexpr size_t kMost = 12;    // of them; equal arms look so in 1.8 % of windows

  struct Options {
    uint32_t calls_a_block = 1;     // at least 1; the layers of the model
    double margin = 0.03;           // what a median must differ by
    uint32_t shortest_pause = 8;    // blocks between trials: they cost a tenth of what the other
    uint32_t longest_pause = 1024;  // arm loses at first, a thousandth in the long run
  };

  explicit PlanCheck(const Options& options) : options_(options), pause_(options.shortest_pause) {}

  // What the next call should run.
  [[nodiscard]] PlanArm arm() const;

  // That call ran so and took so long, from its arrival to its answer. Only calls of one kind may
  // be told (say, one row), in which the two plans differ. True when the arm of choice changed.
  bool Step(std::chrono::nanoseconds took);

  [[nodiscard]] PlanArm choice() const { return choice_; }
  [[nodiscard]] uint64_t trials() const { return trials_; }
  [[nodiscard]] uint64_t reversions() const { return reversions_; }      // to the simplest plan
  [[nodiscard]] uint64_t restorations() const { return restorations_; }  // back to the planner's
  // Time of planned blocks over that of simplest ones; empty until there are enough trials.
  [[nodiscard]] std::optional<double> median_ratio() const;

 private:
  enum class Phase : uint8_t { kPause, kFirstBlock, kSecondBlock };

  bool EndBlock(std::chrono::nanoseconds took);
  bool EndTrial(double ratio);
  [[nodiscard]] bool EvidenceAgainstChoice() const;
  void ChangeTo(PlanArm arm);

  Options options_;
  PlanArm choice_ = PlanArm::kPlanned;
  Phase phase_ = Phase::kPause;
  uint32_t pause_;       // blocks between trials
  uint32_t blocks_ = 0;  // of this pause
  uint32_t calls_ = 0;   // of this block
  std::chrono::nanoseconds block_time_{0};
  std::chrono::nanoseconds first_block_{0};
  std::array<double, kTrials> ratios_{};  // a ring
  size_t ratio_count_ = 0;                // since the last change
  uint64_t trials_ = 0;
  uint64_t reversions_ = 0;
  uint64_t restorations_ = 0;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_PLAN_CHECK_H_
