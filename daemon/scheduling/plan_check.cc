#include "daemon/scheduling/plan_check.h"

#include <algorithm>

namespace moetier {
namespace {

PlanArm Other(PlanArm arm) {
  return arm == PlanArm::kPlanned ? PlanArm::kSimplest : PlanArm::kPlanned;
}

// Which arm a trial begins with: in turns, so that neither always runs on the caches that the other
// left.
PlanArm FirstArm(uint64_t trial) { return trial % 2 == 0 ? PlanArm::kPlanned : PlanArm::kSimplest; }

}  // namespace

PlanArm PlanCheck::arm() const {
  switch (phase_) {
    case Phase::kPause:
      return choice_;
    case Phase::kFirstBlock:
      return FirstArm(trials_);
    case Phase::kSecondBlock:
      return Other(FirstArm(trials_));
  }
  return choice_;
}

bool PlanCheck::Step(std::chrono::nanoseconds took) {
  block_time_ += took;
  if (++calls_ < options_.calls_a_block) return false;
  const std::chrono::nanoseconds block = block_time_;
  calls_ = 0;
  block_time_ = {};
  return EndBlock(block);
}

bool PlanCheck::EndBlock(std::chrono::nanoseconds took) {
  switch (phase_) {
    case Phase::kPause:
      if (++blocks_ >= pause_) {
        blocks_ = 0;
        phase_ = Phase::kFirstBlock;
      }
      return false;
    case Phase::kFirstBlock:
      first_block_ = took;
      phase_ = Phase::kSecondBlock;
      return false;
    case Phase::kSecondBlock:
      break;
  }
  phase_ = Phase::kPause;
  const bool planned_first = FirstArm(trials_) == PlanArm::kPlanned;
  ++trials_;
  if (first_block_.count() <= 0 || took.count() <= 0) return false;  // no clock ticks that slowly
  const double ratio =
      static_cast<double>(first_block_.count()) / static_cast<double>(took.count());
  return EndTrial(planned_first ? ratio : 1 / ratio);
}

bool PlanCheck::EndTrial(double ratio) {
  ratios_[ratio_count_++ % kTrials] = ratio;
  if (ratio_count_ < kTrials) return false;
  if (EvidenceAgainstChoice()) {
    ChangeTo(Other(choice_));
    return true;
  }
  const bool against =
      choice_ == PlanArm::kPlanned ? ratio > 1 + options_.margin : ratio < 1 - options_.margin;
  pause_ = against ? options_.shortest_pause : std::min(2 * pause_, options_.longest_pause);
  return false;
}

bool PlanCheck::EvidenceAgainstChoice() const {
  const double median = *median_ratio();
  const auto slower = static_cast<size_t>(
      std::count_if(ratios_.begin(), ratios_.end(), [](double ratio) { return ratio > 1; }));
  if (choice_ == PlanArm::kPlanned) return slower >= kMost && median > 1 + options_.margin;
  return slower <= kTrials - kMost && median < 1 - options_.margin;
}

void PlanCheck::ChangeTo(PlanArm arm) {
  choice_ = arm;
  (arm == PlanArm::kPlanned ? restorations_ : reversions_) += 1;
  ratio_count_ = 0;
  pause_ = options_.shortest_pause;
}

std::optional<double> PlanCheck::median_ratio() const {
  if (ratio_count_ < kTrials) return std::nullopt;
  std::array<double, kTrials> sorted = ratios_;
  std::nth_element(sorted.begin(), sorted.begin() + kTrials / 2, sorted.end());
  return sorted[kTrials / 2];
}

}  // namespace moetier
