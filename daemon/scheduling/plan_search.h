#ifndef MOETIER_DAEMON_SCHEDULING_PLAN_SEARCH_H_
#define MOETIER_DAEMON_SCHEDULING_PLAN_SEARCH_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace moetier {

// An expert of a layer that may run on the CPU or on the device. Milliseconds from the plan's
// start, as raw numbers: this is the inner loop.
struct PlanJob {
  double cpu = 0;      // its time on the CPU lane
  double device = 0;   // its time on the device, from pinned RAM or after its push
  double arrival = 0;  // when its bytes are in RAM
  double push = 0;     // then copied to VRAM, if the device takes it
  bool pushed = false;
};

// What opening a lane costs its first job, and whether pushes wait for each other.
struct LaneTerms {
  double cpu_opening = 0;
  double device_opening = 0;
  double zero_copy_opening = 0;  // on top of the device's, for the first job that is not pushed
  bool copies_queue = true;
};

// When each lane is free again; 0: not used yet. A lane runs its jobs one after another, in the
// order given.
struct LaneClocks {
  double cpu = 0;
  double device = 0;
  double copy = 0;

  [[nodiscard]] double end() const { return std::max(cpu, device); }

  void RunOnCpu(const PlanJob& job, const LaneTerms& terms) {
    cpu = std::max(cpu == 0 ? terms.cpu_opening : cpu, job.arrival) + job.cpu;
  }
  // `first_zero_copy`: no job before it read pinned RAM.
  void RunOnDevice(const PlanJob& job, const LaneTerms& terms, bool first_zero_copy) {
    const double open = device == 0 ? terms.device_opening : device;
    if (job.pushed) {
      const double in_vram = std::max(copy, job.arrival) + job.push;
      if (terms.copies_queue) copy = in_vram;
      device = std::max(open, in_vram) + job.device;
    } else {
      device = open + (first_zero_copy ? terms.zero_copy_opening : 0) + job.device;
    }
  }
};

// Finds the split of jobs between CPU and device whose later lane ends soonest.
//
// Jobs are decided one by one, in the order that lanes run them. Two ways to get here differ only
// in the lanes' clocks, and a clock that is further on never ends sooner: so a state that no clock
// of another beats need not be kept, nor one that cannot end before the best plan known. What is
// left is exact. Jobs of equal cost leave at most one state more than there are jobs; for unequal
// ones the number of states is bounded, and past the bound states with near clocks are thinned.
// Threads: its owner's. Memory: all taken at creation.
class PlanSearch {
 public:
  static constexpr size_t kMaxJobs = 64;  // one bit each

  PlanSearch();

  struct Found {
    LaneClocks clocks;
    uint64_t on_device = 0;  // bit i: job i
  };
  // At most kMaxJobs jobs, those that are not pushed before those that are. Empty when no plan
  // ends before `bound`.
  std::optional<Found> Find(std::span<const PlanJob> jobs, const LaneClocks& start,
                            const LaneTerms& terms, bool zero_copy_used, double bound);

 private:
  struct State {
    LaneClocks clocks;
    uint64_t on_device;
  };

  // What a state must end before, and what the jobs not yet decided add to its clocks at least.
  struct Limit {
    double bound;
    double rest;
  };

  // Replaces states_ by what comes of them with one more job.
  void Extend(const PlanJob& job, uint64_t bit, const LaneTerms& terms, bool zero_copy_used,
              const Limit& limit);
  void KeepOnDevice(State state, const PlanJob& job, uint64_t bit, const LaneTerms& terms,
                    bool zero_copy_used, const Limit& limit);
  void Keep(const State& state, const Limit& limit);
  void Thin(size_t most);

  // Sorted by the CPU's clock.
  std::vector<State> states_;
  std::vector<State> next_;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_PLAN_SEARCH_H_
