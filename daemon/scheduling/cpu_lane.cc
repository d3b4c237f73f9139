#include "daemon/scheduling/cpu_lane.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/check.h"
#include "base/cpu_workers.h"

namespace moetier {
namespace {

constexpr uint32_t kInsideMask = 0x3FF;
constexpr uint32_t kOpen = 1u << 10;
constexpr uint32_t kRunStep = 1u << 11;
static_assert(kMaxCpuWorkers - 1 <= kInsideMask, "worker 0 is not counted, the others are");

// Spins before sleeping: about 20 us at a few ns a pause. Longer starves an engine that shares the
// cores; shorter pays a futex wake-up (about 6 us) on every layer of a decode.
constexpr uint32_t kSpins = 2000;

// What a worker claims at once, if there is enough for all: a shorter stream of bytes ends before
// the memory's prefetchers have caught up with it (measured with two workers: 64 KiB take 0.85 of
// the time of single units, or the same where memory is the limit).
constexpr uint64_t kShareBytes = 64 * 1024;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Waits until `counter` reaches `total`. The others are inside a unit, so this is short; yielding
// keeps it correct when there are more workers than cores.
void AwaitCount(const std::atomic<uint32_t>& counter, uint32_t total) {
  for (uint32_t spins = 0; counter.load(std::memory_order_acquire) < total; ++spins) {
    if (spins < kSpins) {
      Pause();
    } else {
      std::this_thread::yield();
    }
  }
}

}  // namespace

CpuLane::CpuLane(const Options& options, const kernels::ExpertKernels& kernels)
    : options_(options), kernels_(kernels) {
  MOE_CHECK(options.workers >= 1 && options.workers <= kMaxCpuWorkers, "{} workers",
            options.workers);
  for (uint32_t worker = 1; worker < options_.workers; ++worker) {
    threads_.emplace_back([this, worker] { WorkerLoop(worker); });
  }
}

CpuLane::~CpuLane() {
  stopping_.store(true, std::memory_order_relaxed);
  gate_.fetch_add(kRunStep, std::memory_order_release);
  gate_.notify_all();
}

void CpuLane::Run(std::span<const LaneTask> tasks) {
  if (tasks.empty()) return;
  tasks_ = tasks;
  gate_up_shares_.clear();
  down_shares_.clear();
  first_h_row_.clear();
  uint32_t h_rows = 0;
  uint32_t ffn = 0;
  for (uint32_t task = 0; task < tasks.size(); ++task) {
    const kernels::ExpertShape& shape = *tasks[task].expert.shape;
    const kernels::RecordLayout& layout = *tasks[task].expert.layout;
    const uint64_t gate_up_bytes = layout.part(kernels::PartRole::kDown)->offset;
    Divide(gate_up_shares_, task, kernels::GateUpUnits(shape), gate_up_bytes);
    Divide(down_shares_, task, kernels::DownUnits(shape), layout.bytes - gate_up_bytes);
    first_h_row_.push_back(h_rows);
    h_rows += static_cast<uint32_t>(tasks[task].tokens.size());
    MOE_CHECK(ffn == 0 || ffn == shape.ffn, "a run mixes ffn sizes {} and {}", ffn, shape.ffn);
    ffn = shape.ffn;
  }
  h_.Resize(h_rows, ffn);
  for (Phase* phase : {&gate_up_, &down_}) {
    phase->next.store(0, std::memory_order_relaxed);
    phase->done.store(0, std::memory_order_relaxed);
  }
  gate_up_.total = static_cast<uint32_t>(gate_up_shares_.size());
  down_.total = static_cast<uint32_t>(down_shares_.size());

  gate_.fetch_add(kRunStep + kOpen, std::memory_order_release);
  gate_.notify_all();
  RunPhases();
  gate_.fetch_sub(kOpen, std::memory_order_acq_rel);
  while ((gate_.load(std::memory_order_acquire) & kInsideMask) != 0) Pause();
}

void CpuLane::WorkerLoop(uint32_t worker) {
  pthread_setname_np(pthread_self(), ("cpu-worker-" + std::to_string(worker)).c_str());
  if (options_.pin_workers) PinToCpu(worker);
  uint32_t last_run = 0;
  uint32_t spins = 0;
  while (!stopping_.load(std::memory_order_relaxed)) {
    uint32_t gate = gate_.load(std::memory_order_acquire);
    const uint32_t run = gate & ~(kInsideMask | kOpen);
    if ((gate & kOpen) != 0 && run != last_run) {
      if (!gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acq_rel)) continue;
      RunPhases();
      gate_.fetch_sub(1, std::memory_order_release);
      last_run = run;
      spins = 0;
    } else if (++spins < kSpins) {
      Pause();
    } else {
      gate_.wait(gate, std::memory_order_acquire);
      spins = 0;
    }
  }
}

void CpuLane::RunPhases() {
  Claim(gate_up_, gate_up_shares_, &CpuLane::RunGateUp);
  AwaitCount(gate_up_.done, gate_up_.total);  // down reads every h
  Claim(down_, down_shares_, &CpuLane::RunDown);
  AwaitCount(down_.done, down_.total);
}

void CpuLane::Divide(std::vector<Share>& shares, uint32_t task, uint32_t units,
                     uint64_t bytes) const {
  const uint64_t shares_of_task = std::max<uint64_t>(bytes / kShareBytes, options_.workers);
  const auto count = static_cast<uint32_t>(std::max<uint64_t>(units / shares_of_task, 1));
  for (uint32_t first = 0; first < units; first += count) {
    shares.push_back({.task = task, .first = first, .end = std::min(first + count, units)});
  }
}

void CpuLane::Claim(Phase& phase, std::span<const Share> shares,
                    void (CpuLane::*run)(const LaneTask&, uint32_t, uint32_t)) {
  while (true) {
    const uint32_t index = phase.next.fetch_add(1, std::memory_order_relaxed);
    if (index >= shares.size()) return;
    const Share& share = shares[index];
    for (uint32_t unit = share.first; unit < share.end; ++unit) {
      (this->*run)(tasks_[share.task], first_h_row_[share.task], unit);
    }
    phase.done.fetch_add(1, std::memory_order_release);
  }
}

void CpuLane::RunGateUp(const LaneTask& task, uint32_t first_h_row, uint32_t unit) {
  // All rows pass over a unit's weights before the next unit: they are read from memory once.
  for (size_t first = 0; first < task.tokens.size(); first += kernels::kMaxTokens) {
    const size_t count = std::min<size_t>(kernels::kMaxTokens, task.tokens.size() - first);
    kernels::RunGateUpUnit(kernels_, task.expert, task.tokens.subspan(first, count), unit, h_,
                           first_h_row + static_cast<uint32_t>(first));
  }
}

void CpuLane::RunDown(const LaneTask& task, uint32_t first_h_row, uint32_t unit) {
  for (size_t first = 0; first < task.tokens.size(); first += kernels::kMaxTokens) {
    const size_t count = std::min<size_t>(kernels::kMaxTokens, task.tokens.size() - first);
    std::array<kernels::ActivationRow, kernels::kMaxTokens> h;
    for (size_t i = 0; i < count; ++i) {
      h[i] = h_.row(first_h_row + static_cast<uint32_t>(first + i));
    }
    kernels::RunDownUnit(kernels_, task.expert, std::span(h).first(count), unit,
                         task.y.subspan(first, count));
  }
}

void CpuLane::PinToCpu(uint32_t worker) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  uint32_t seen = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || seen++ != worker) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    pthread_setaffinity_np(pthread_self(), sizeof one, &one);
    return;
  }
}

}  // namespace moetier
