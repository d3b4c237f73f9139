#ifndef MOETIER_DAEMON_SCHEDULING_CPU_LANE_H_
#define MOETIER_DAEMON_SCHEDULING_CPU_LANE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "kernels/activation_rows.h"
#include "kernels/expert_ffn.h"

namespace moetier {

// One expert and the rows that picked it. y[i] receives the expert's output for tokens[i],
// [hidden] f32 with room for whole units of 32, without the router weight.
struct LaneTask {
  kernels::ExpertView expert;
  std::span<const kernels::ActivationRow> tokens;
  std::span<float* const> y;
};

// Computes experts on the CPU with persistent workers. A run has two phases (gate/up, down); in
// each the units of all its tasks are claimed from one counter, some neighbours at a time, so
// uneven experts balance. The bits do not depend on the number of workers. Threads: Run by one
// thread at a time, which is worker 0; the others spin for a bounded time
//          between runs, then sleep on a futex.
// Memory:  grows to the largest run and stays.
class CpuLane {
 public:
  struct Options {
    uint32_t workers = 1;      // worker 0 included; 1 to kMaxCpuWorkers
    bool pin_workers = false;  // worker i to the i-th allowed CPU (worker 0 is the caller's affair)
  };

  CpuLane(const Options& options, const kernels::ExpertKernels& kernels);
  ~CpuLane();
  CpuLane(const CpuLane&) = delete;
  CpuLane& operator=(const CpuLane&) = delete;

  // Returns when every y is written.
  void Run(std::span<const LaneTask> tasks);

  [[nodiscard]] uint32_t workers() const { return options_.workers; }

 private:
  // One claim counter and one completion counter; on lines of their own, since all workers hit
  // them.
  struct alignas(64) Phase {
    std::atomic<uint32_t> next{0};
    alignas(64) std::atomic<uint32_t> done{0};
    uint32_t total = 0;
  };
  // Neighbouring units of one task, which one worker computes.
  struct Share {
    uint32_t task;
    uint32_t first;
    uint32_t end;
  };

  void WorkerLoop(uint32_t worker);
  void RunPhases();
  void Divide(std::vector<Share>& shares, uint32_t task, uint32_t units, uint64_t bytes) const;
  void Claim(Phase& phase, std::span<const Share> shares,
             void (CpuLane::*run)(const LaneTask& task, uint32_t first_h_row, uint32_t unit));
  void RunGateUp(const LaneTask& task, uint32_t first_h_row, uint32_t unit);
  void RunDown(const LaneTask& task, uint32_t first_h_row, uint32_t unit);
  void PinToCpu(uint32_t worker);

  const Options options_;
  const kernels::ExpertKernels& kernels_;

  // The run in progress; written by Run while the gate is closed, read by workers inside it.
  std::span<const LaneTask> tasks_;
  std::vector<Share> gate_up_shares_;
  std::vector<Share> down_shares_;
  std::vector<uint32_t> first_h_row_;  // per task
  kernels::ActivationRows h_;
  Phase gate_up_;
  Phase down_;

  // Bits 0..9 workers inside, bit 10 open, bits 11.. run number. Entering needs the open bit, so a
  // worker that wakes late cannot touch a run that has ended. Acquire/release order the run's
  // fields.
  std::atomic<uint32_t> gate_{0};
  std::atomic<bool> stopping_{false};
  std::vector<std::jthread> threads_;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_CPU_LANE_H_
