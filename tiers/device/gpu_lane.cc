#include "tiers/device/gpu_lane.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/cuda/expert_plan.h"

namespace moetier {

using kernels::cuda::ExpertPlan;
using kernels::cuda::ExpertRun;
using kernels::cuda::HostWait;

GpuLane::GpuLane(kernels::cuda::Gpu& gpu, RecordPlace place)
    : gpu_(gpu),
      staged_blocks_(place == RecordPlace::kRam
                         ? kernels::cuda::kZeroCopyBlocks
                         : kernels::cuda::StagedBlocksFor(gpu.info().compute)) {}

Result<std::unique_ptr<GpuLane>> GpuLane::Create(kernels::cuda::Gpu& gpu, RecordPlace place) {
  std::unique_ptr<GpuLane> lane(new GpuLane(gpu, place));
  ASSIGN_OR_RETURN(lane->stream_, gpu.NewStream());
  // A decoded layer takes tens of microseconds: less than it takes to wake a thread.
  ASSIGN_OR_RETURN(lane->done_, gpu.NewEvent());
  return lane;
}

GpuLane::Input GpuLane::PlanInput(BlockPlan& plan, uint32_t hidden) {
  Input in;
  in.runs = plan.Next<ExpertRun>(kPicksAtOnce);
  in.row_of_pick = plan.Next<uint32_t>(kPicksAtOnce);
  in.values = plan.Next<float>(size_t{kPicksAtOnce} * hidden);
  return in;
}

GpuLane::PieceMemory GpuLane::PlanPiece(BlockPlan& plan, uint32_t hidden, uint32_t ffn) {
  PieceMemory memory;
  memory.in = PlanInput(plan, hidden);
  memory.x = PlanRows(plan, kPicksAtOnce, hidden);
  memory.h = PlanRows(plan, kPicksAtOnce, ffn);
  memory.y = plan.Next<float>(size_t{kPicksAtOnce} * hidden);
  return memory;
}

Status GpuLane::Admit(const kernels::ExpertShape& shape, const kernels::RecordLayout& layout) {
  ASSIGN_OR_RETURN(const ExpertPlan expert, kernels::cuda::MakeExpertPlan(shape, layout));
  MutexLock lock(mu_);
  if (shape.hidden > hidden_ || shape.ffn > ffn_) {
    RETURN_IF_ERROR(Grow(std::max(hidden_, shape.hidden), std::max(ffn_, shape.ffn)));
  }
  const std::pair types(expert.gate_up, expert.down);
  if (tried_.contains(types)) return Ok{};
  RETURN_IF_ERROR(TryKernels(expert));
  tried_.insert(types);
  return Ok{};
}

Status GpuLane::Grow(uint32_t hidden, uint32_t ffn) {
  BlockPlan on_host;
  PlanInput(on_host, hidden);
  on_host.Next<float>(size_t{kPicksAtOnce} * hidden);
  BlockPlan on_gpu;
  PlanPiece(on_gpu, hidden, ffn);
  ASSIGN_OR_RETURN(GpuBlock host, GpuBlock::Allocate(gpu_, GpuMemory::kOfHost, on_host.bytes()));
  ASSIGN_OR_RETURN(GpuBlock device, GpuBlock::Allocate(gpu_, GpuMemory::kOfGpu, on_gpu.bytes()));
  host_ = std::move(host);
  device_ = std::move(device);
  hidden_ = hidden;
  ffn_ = ffn;
  return Ok{};
}

Status GpuLane::TryKernels(const ExpertPlan& expert) {
  BlockPlan on_host(host_.data());
  PlanInput(on_host, expert.hidden).runs[0] = {};
  BlockPlan on_gpu(device_.data());
  const PieceMemory memory = PlanPiece(on_gpu, expert.hidden, expert.ffn);
  RETURN_IF_ERROR(gpu_.Copy(device_.data(), host_.data(), sizeof(ExpertRun), stream_));
  for (const uint32_t picks_max : {1u, 2u, kPicksAtOnce}) {  // each has kernels of its own
    RETURN_IF_ERROR(LaunchRuns(expert, memory, 1, picks_max));
  }
  RETURN_IF_ERROR(gpu_.Record(done_, stream_));
  return gpu_.Wait(done_, HostWait::kSpin);
}

Status GpuLane::Compute(const std::vector<DeviceTask>& tasks) {
  ASSIGN_OR_RETURN(const ExpertPlan expert,
                   kernels::cuda::MakeExpertPlan(*tasks.front().shape, *tasks.front().layout));
  MutexLock lock(mu_);
  MOE_CHECK(expert.hidden <= hidden_ && expert.ffn <= ffn_, "experts of {} x {} were not admitted",
            expert.hidden, expert.ffn);
  std::vector<Part> parts;
  uint32_t picks = 0;
  for (const DeviceTask& task : tasks) {
    const auto tokens = static_cast<uint32_t>(task.tokens.size());
    for (uint32_t first = 0; first < tokens;) {
      const uint32_t count = std::min(tokens - first, kPicksAtOnce - picks);
      parts.push_back({.task = &task, .first = first, .count = count});
      first += count;
      picks += count;
      if (picks < kPicksAtOnce) continue;
      RETURN_IF_ERROR(ComputePiece(expert, parts));
      parts.clear();
      picks = 0;
    }
  }
  return parts.empty() ? Status(Ok{}) : ComputePiece(expert, parts);
}

// What a piece that failed may still read ends before its slots are anybody else's.
Status GpuLane::ComputePiece(const ExpertPlan& expert, std::span<const Part> parts) {
  Status computed = TryPiece(expert, parts);
  if (!computed) gpu_.WaitIdle(stream_);
  return computed;
}

Status GpuLane::TryPiece(const ExpertPlan& expert, std::span<const Part> parts) {
  BlockPlan on_gpu(device_.data());
  const PieceMemory memory = PlanPiece(on_gpu, expert.hidden, expert.ffn);
  BlockPlan on_host(host_.data());
  PlanInput(on_host, expert.hidden);
  const auto* const results = on_host.Next<float>(size_t{kPicksAtOnce} * expert.hidden);

  ASSIGN_OR_RETURN(const size_t input_bytes, FillInput(parts, expert.hidden));
  const auto rows = static_cast<uint32_t>(rows_.size());
  uint32_t picks = 0;
  uint32_t picks_max = 0;
  for (const Part& part : parts) {
    picks += part.count;
    picks_max = std::max(picks_max, part.count);
  }
  RETURN_IF_ERROR(gpu_.Copy(device_.data(), host_.data(), input_bytes, stream_));
  RETURN_IF_ERROR(gpu_.CheckLaunch(kernels::cuda::LaunchPrepare(
      {.values = memory.in.values, .rows = rows, .out = memory.x}, stream_)));
  RETURN_IF_ERROR(LaunchRuns(expert, memory, static_cast<uint32_t>(parts.size()), picks_max));
  const size_t result_bytes = size_t{expert.hidden} * sizeof(float);
  RETURN_IF_ERROR(gpu_.Copy(const_cast<float*>(results), memory.y, picks * result_bytes, stream_));
  RETURN_IF_ERROR(gpu_.Record(done_, stream_));
  RETURN_IF_ERROR(gpu_.Wait(done_, HostWait::kSpin));
  const float* next = results;
  for (const Part& part : parts) {
    for (uint32_t i = 0; i < part.count; ++i, next += expert.hidden) {
      std::memcpy(part.task->y[part.first + i], next, result_bytes);
    }
  }
  return Ok{};
}

Status GpuLane::LaunchRuns(const ExpertPlan& expert, const PieceMemory& memory, uint32_t run_count,
                           uint32_t picks_max) {
  RETURN_IF_ERROR(
      gpu_.CheckLaunch(kernels::cuda::LaunchGateUp({.plan = expert,
                                                    .runs = memory.in.runs,
                                                    .run_count = run_count,
                                                    .picks_max = picks_max,
                                                    .row_of_pick = memory.in.row_of_pick,
                                                    .x = memory.x,
                                                    .h = memory.h,
                                                    .staged_blocks = staged_blocks_},
                                                   stream_)));
  return gpu_.CheckLaunch(kernels::cuda::LaunchDown({.plan = expert,
                                                     .runs = memory.in.runs,
                                                     .run_count = run_count,
                                                     .picks_max = picks_max,
                                                     .h = memory.h,
                                                     .y = memory.y,
                                                     .staged_blocks = staged_blocks_},
                                                    stream_));
}

// Gives how many bytes of it are to be copied.
Result<size_t> GpuLane::FillInput(std::span<const Part> parts, uint32_t hidden) {
  BlockPlan on_host(host_.data());
  const Input in = PlanInput(on_host, hidden);
  rows_.clear();
  uint32_t picks = 0;
  for (size_t run = 0; run < parts.size(); ++run) {
    const Part& part = parts[run];
    ASSIGN_OR_RETURN(const std::byte* const record, RecordOf(*part.task));
    in.runs[run] = {.record = record, .first_pick = picks, .picks = part.count};
    for (uint32_t i = 0; i < part.count; ++i) {
      const float* const values = part.task->tokens[part.first + i].values;
      const auto [row, fresh] = rows_.emplace(values, static_cast<uint32_t>(rows_.size()));
      if (fresh)
        std::memcpy(in.values + size_t{row->second} * hidden, values, hidden * sizeof(float));
      in.row_of_pick[picks++] = row->second;
    }
  }
  const float* const end = in.values + rows_.size() * hidden;
  return static_cast<size_t>(reinterpret_cast<const std::byte*>(end) - host_.data());
}

Result<const std::byte*> GpuLane::RecordOf(const DeviceTask& task) const {
  if (const auto* in_ram = std::get_if<const std::byte*>(&task.record)) {
    return gpu_.AddressOf(*in_ram);
  }
  return reinterpret_cast<const std::byte*>(  // NOLINT: the GPU's addresses are integers to the
                                              // host
      Raw(std::get<DeviceAddress>(task.record)));
}

}  // namespace moetier
