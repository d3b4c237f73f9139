#include "kernels/cuda/decode_kernels.h"

#include "kernels/cuda/decode_table.h"
#include "kernels/cuda/prefill_table.h"

namespace moetier::kernels::cuda {
namespace {

constexpr int kInvalidValue = 1;  // cudaErrorInvalidValue

// Runs of as many picks fill the eight columns of a tensor core's step. Below, that step is partly
// idle, and the decode kernel reads the weights at most twice. The bits are the same: this is to be
// measured, not argued.
constexpr uint32_t kPrefillPicks = 8;

// nullptr where no decode kernel takes the type.
const DecodeLaunches* FindLaunches(WeightType type) {
  switch (type) {
    case WeightType::kQ4_0:
      return &kLaunchesQ4_0;
    case WeightType::kQ8_0:
      return &kLaunchesQ8_0;
    case WeightType::kMXFP4:
      return &kLaunchesMxfp4;
    case WeightType::kQ4_K:
      return &kLaunchesQ4K;
    case WeightType::kQ5_K:
      return &kLaunchesQ5K;
    case WeightType::kQ6_K:
      return &kLaunchesQ6K;
    case WeightType::kQ2_K:
      return &kLaunchesQ2K;
    case WeightType::kQ3_K:
      return &kLaunchesQ3K;
    case WeightType::kBF16:
      return &kLaunchesBf16;
    case WeightType::kF16:
      return &kLaunchesF16;
    case WeightType::kF32:
      return &kLaunchesF32;
    default:
      return nullptr;
  }
}

// nullptr where no prefill kernel takes the type.
const PrefillLaunches* FindPrefill(WeightType type) {
  switch (type) {
    case WeightType::kQ4_0:
      return &kPrefillQ4_0;
    case WeightType::kQ8_0:
      return &kPrefillQ8_0;
    case WeightType::kMXFP4:
      return &kPrefillMxfp4;
    case WeightType::kQ4_K:
      return &kPrefillQ4K;
    case WeightType::kQ5_K:
      return &kPrefillQ5K;
    case WeightType::kQ6_K:
      return &kPrefillQ6K;
    case WeightType::kQ2_K:
      return &kPrefillQ2K;
    case WeightType::kQ3_K:
      return &kPrefillQ3K;
    case WeightType::kBF16:
      return &kPrefillBf16;
    case WeightType::kF16:
      return &kPrefillF16;
    case WeightType::kF32:
      return &kPrefillF32;
    default:
      return nullptr;
  }
}

// Records that stay in the host's memory: only the staged kernels read them as one stream.
bool IsOverLink(uint32_t staged_blocks) {
  return staged_blocks != kDirectReads && staged_blocks != kBlockAUnit;
}

bool IsAligned(const PreparedRows& rows) {
  return reinterpret_cast<uintptr_t>(rows.codes) % kPlaneAlignment == 0 &&
         reinterpret_cast<uintptr_t>(rows.values) % kPlaneAlignment == 0;
}

}  // namespace

uint32_t StagedBlocksFor(uint32_t compute) { return compute == 90 ? kBlockAUnit : kDirectReads; }

bool HasDecodeKernel(WeightType type) { return FindLaunches(type) != nullptr; }

bool TakesPrefillKernel(WeightType type, uint32_t picks_max) {
  return picks_max >= kPrefillPicks && FindPrefill(type) != nullptr;
}

int LaunchGateUp(const GateUpCall& call, StreamHandle stream) {
  const WeightType type = call.plan.gate_up;
  const DecodeLaunches* launches = FindLaunches(type);
  if (launches == nullptr || !IsAligned(call.x)) return kInvalidValue;
  if (IsOverLink(call.staged_blocks)) return launches->staged_gate_up(call, stream);
  if (TakesPrefillKernel(type, call.picks_max)) return FindPrefill(type)->gate_up(call, stream);
  return (call.staged_blocks == kDirectReads ? launches->gate_up : launches->staged_gate_up)(
      call, stream);
}

int LaunchDown(const DownCall& call, StreamHandle stream) {
  const WeightType type = call.plan.down;
  const DecodeLaunches* launches = FindLaunches(type);
  if (launches == nullptr || !IsAligned(call.h)) return kInvalidValue;
  if (IsOverLink(call.staged_blocks)) return launches->staged_down(call, stream);
  if (TakesPrefillKernel(type, call.picks_max)) return FindPrefill(type)->down(call, stream);
  return (call.staged_blocks == kDirectReads ? launches->down : launches->staged_down)(call,
                                                                                       stream);
}

}  // namespace moetier::kernels::cuda
