#include "kernels/cuda/decode_kernels.h"

#include "kernels/cuda/decode_table.h"

namespace moetier::kernels::cuda {
namespace {

constexpr int kInvalidValue = 1;  // cudaErrorInvalidValue

// nullptr where no kernel takes the type.
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

}  // namespace

uint32_t StagedBlocksFor(uint32_t compute) { return compute == 90 ? kBlockAUnit : kDirectReads; }

bool HasDecodeKernel(WeightType type) { return FindLaunches(type) != nullptr; }

int LaunchGateUp(const GateUpCall& call, StreamHandle stream) {
  const DecodeLaunches* launches = FindLaunches(call.plan.gate_up);
  if (launches == nullptr) return kInvalidValue;
  return (call.staged_blocks == kDirectReads ? launches->gate_up : launches->staged_gate_up)(
      call, stream);
}

int LaunchDown(const DownCall& call, StreamHandle stream) {
  const DecodeLaunches* launches = FindLaunches(call.plan.down);
  if (launches == nullptr) return kInvalidValue;
  return (call.staged_blocks == kDirectReads ? launches->down : launches->staged_down)(call,
                                                                                       stream);
}

}  // namespace moetier::kernels::cuda
