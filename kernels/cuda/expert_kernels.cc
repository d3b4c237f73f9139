#include "kernels/cuda/expert_kernels.h"

#include "kernels/cuda/launch_tables.h"

namespace moetier::kernels::cuda {
namespace {

constexpr int kInvalidValue = 1;  // cudaErrorInvalidValue

// Runs of as many picks fill the eight columns of a tensor core's step. Below, that step is partly
// idle, and the decode kernel reads the weights at most twice. The bits are the same: this is to be
// measured, not argued.
constexpr uint32_t kPrefillPicks = 8;

struct TypeLaunches {
  const DecodeLaunches* decode = nullptr;
  const PrefillLaunches* prefill = nullptr;
};

// Both, or neither where no kernel takes the type.
TypeLaunches FindLaunches(WeightType type) {
  switch (type) {
    case WeightType::kQ4_0:
      return {&kDecodeQ4_0, &kPrefillQ4_0};
    case WeightType::kQ8_0:
      return {&kDecodeQ8_0, &kPrefillQ8_0};
    case WeightType::kMXFP4:
      return {&kDecodeMxfp4, &kPrefillMxfp4};
    case WeightType::kQ4_K:
      return {&kDecodeQ4K, &kPrefillQ4K};
    case WeightType::kQ5_K:
      return {&kDecodeQ5K, &kPrefillQ5K};
    case WeightType::kQ6_K:
      return {&kDecodeQ6K, &kPrefillQ6K};
    case WeightType::kQ2_K:
      return {&kDecodeQ2K, &kPrefillQ2K};
    case WeightType::kQ3_K:
      return {&kDecodeQ3K, &kPrefillQ3K};
    case WeightType::kBF16:
      return {&kDecodeBf16, &kPrefillBf16};
    case WeightType::kF16:
      return {&kDecodeF16, &kPrefillF16};
    case WeightType::kF32:
      return {&kDecodeF32, &kPrefillF32};
    default:
      return {};
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

bool HasExpertKernels(WeightType type) { return FindLaunches(type).decode != nullptr; }

bool TakesPrefillKernel(WeightType type, uint32_t picks_max) {
  return picks_max >= kPrefillPicks && HasExpertKernels(type);
}

int LaunchGateUp(const GateUpCall& call, StreamHandle stream) {
  const auto [decode, prefill] = FindLaunches(call.plan.gate_up);
  if (decode == nullptr || !IsAligned(call.x)) return kInvalidValue;
  if (IsOverLink(call.staged_blocks)) return decode->staged_gate_up(call, stream);
  if (call.picks_max >= kPrefillPicks) return prefill->gate_up(call, stream);
  if (call.staged_blocks == kDirectReads) return decode->gate_up(call, stream);
  return decode->staged_gate_up(call, stream);
}

int LaunchDown(const DownCall& call, StreamHandle stream) {
  const auto [decode, prefill] = FindLaunches(call.plan.down);
  if (decode == nullptr || !IsAligned(call.h)) return kInvalidValue;
  if (IsOverLink(call.staged_blocks)) return decode->staged_down(call, stream);
  if (call.picks_max >= kPrefillPicks) return prefill->down(call, stream);
  if (call.staged_blocks == kDirectReads) return decode->down(call, stream);
  return decode->staged_down(call, stream);
}

}  // namespace moetier::kernels::cuda
