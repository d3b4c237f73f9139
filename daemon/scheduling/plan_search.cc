#include "daemon/scheduling/plan_search.h"

#include <array>

#include "base/check.h"

namespace moetier {
namespace {

// States x jobs of one search: 341 states for 12 jobs, 64 for 64, where a plan takes 60 to 150 us
// (bench_planner).
constexpr size_t kStateSteps = 4096;
constexpr size_t kMostStates = 512;
constexpr size_t kFewestStates = 32;
constexpr size_t kLooksBack = 6;

size_t StatesFor(size_t jobs) {
  return std::clamp(kStateSteps / std::max<size_t>(jobs, 1), kFewestStates, kMostStates);
}

// No plan ends before the last arrival's job has run alone. A greedy plan of a layer that waits for
// a drive often ends just then, and there is nothing to search.
double EarliestEnd(std::span<const PlanJob> jobs) {
  double end = 0;
  for (const PlanJob& job : jobs) {
    end = std::max(end, std::min(job.arrival + job.cpu, job.arrival + job.push + job.device));
  }
  return end;
}

}  // namespace

PlanSearch::PlanSearch() {
  states_.reserve(2 * kMostStates);
  next_.reserve(2 * kMostStates);
}

std::optional<PlanSearch::Found> PlanSearch::Find(std::span<const PlanJob> jobs,
                                                  const LaneClocks& start, const LaneTerms& terms,
                                                  bool zero_copy_used, double bound) {
  MOE_CHECK(jobs.size() <= kMaxJobs, "{} jobs for {} bits", jobs.size(), kMaxJobs);
  if (EarliestEnd(jobs) >= bound) return std::nullopt;
  // What the jobs from i on add to the lanes' clocks at least.
  std::array<double, kMaxJobs + 1> rest;
  rest[jobs.size()] = 0;
  for (size_t i = jobs.size(); i-- > 0;) {
    rest[i] = rest[i + 1] + std::min(jobs[i].cpu, jobs[i].device);
  }
  const size_t most = StatesFor(jobs.size());
  states_.assign(1, {start, 0});
  for (size_t i = 0; i < jobs.size(); ++i) {
    Extend(jobs[i], uint64_t{1} << i, terms, zero_copy_used, {bound, rest[i + 1]});
    if (states_.empty()) return std::nullopt;
    if (states_.size() > most) Thin(most);
  }
  const auto best = std::min_element(
      states_.begin(), states_.end(),
      [](const State& a, const State& b) { return a.clocks.end() < b.clocks.end(); });
  if (best->clocks.end() >= bound) return std::nullopt;
  return Found{best->clocks, best->on_device};
}

// A job keeps the order of the states that it is added to, so both kinds of child come sorted.
void PlanSearch::Extend(const PlanJob& job, uint64_t bit, const LaneTerms& terms,
                        bool zero_copy_used, const Limit& limit) {
  next_.clear();
  size_t device = 0;
  for (const State& state : states_) {
    State on_cpu = state;
    on_cpu.clocks.RunOnCpu(job, terms);
    while (device < states_.size() && states_[device].clocks.cpu < on_cpu.clocks.cpu) {
      KeepOnDevice(states_[device++], job, bit, terms, zero_copy_used, limit);
    }
    Keep(on_cpu, limit);
  }
  while (device < states_.size()) {
    KeepOnDevice(states_[device++], job, bit, terms, zero_copy_used, limit);
  }
  states_.swap(next_);
}

void PlanSearch::KeepOnDevice(State state, const PlanJob& job, uint64_t bit, const LaneTerms& terms,
                              bool zero_copy_used, const Limit& limit) {
  // Pushed jobs come last, so any bit set so far is a job that read pinned RAM.
  const bool first_zero_copy = !zero_copy_used && state.on_device == 0;
  state.clocks.RunOnDevice(job, terms, first_zero_copy);
  state.on_device |= bit;
  Keep(state, limit);
}

void PlanSearch::Keep(const State& state, const Limit& limit) {
  const LaneClocks& clocks = state.clocks;
  if (clocks.end() >= limit.bound) return;
  if (clocks.cpu + clocks.device + limit.rest >= 2 * limit.bound) return;  // the rest does not fit
  // Kept states have CPU clocks that are not later. While no copies queue, the last has the
  // earliest device clock; else some of the last are looked at: one too many does no harm.
  const size_t looks = std::min<size_t>(next_.size(), clocks.copy == 0 ? 1 : kLooksBack);
  for (size_t i = 1; i <= looks; ++i) {
    const LaneClocks& kept = next_[next_.size() - i].clocks;
    if (kept.device <= clocks.device && kept.copy <= clocks.copy) return;
  }
  next_.push_back(state);
}

void PlanSearch::Thin(size_t most) {
  const double first = states_.front().clocks.cpu;
  const double last = states_.back().clocks.cpu;
  const double step = (last - first) / static_cast<double>(most - 2);
  size_t kept = 1;
  for (size_t i = 1; i + 1 < states_.size(); ++i) {
    if (states_[i].clocks.cpu - states_[kept - 1].clocks.cpu >= step) states_[kept++] = states_[i];
  }
  states_[kept++] = states_.back();
  states_.resize(std::min(kept, most));
}

}  // namespace moetier
