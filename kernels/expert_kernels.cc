#include "kernels/expert_kernels.h"

#include <fmt/format.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <array>
#include <vector>

#include "base/check.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/tune.h"

namespace moetier::kernels {
namespace {

constexpr std::array kAllSets = {InstructionSet::kAvx512, InstructionSet::kAvx2,
                                 InstructionSet::kScalar};

MatVecFn VectorKernel(InstructionSet set, WeightType type, KernelVariant variant) {
  switch (set) {
    case InstructionSet::kScalar:
      return nullptr;
    case InstructionSet::kAvx2:
      return Avx2Kernel(type, variant);
    case InstructionSet::kAvx512:
      return Avx512Kernel(type, variant);
  }
  return nullptr;
}

#if defined(__x86_64__)
// Clang 14's __builtin_cpu_supports does not know F16C.
bool HasHalfConversion() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

}  // namespace

std::string_view InstructionSetName(InstructionSet set) {
  switch (set) {
    case InstructionSet::kScalar:
      return "scalar";
    case InstructionSet::kAvx2:
      return "avx2";
    case InstructionSet::kAvx512:
      return "avx512";
  }
  return "unknown";
}

Result<InstructionSet> ParseInstructionSet(std::string_view name) {
  for (const InstructionSet set : kAllSets) {
    if (name == InstructionSetName(set)) return set;
  }
  return Error{ErrorCode::kInvalidArgument, Reason::kBadConfig,
               fmt::format("instruction set \"{}\": must be scalar, avx2 or avx512", name)};
}

// The compiler's runtime asks cpuid and, by xgetbv, whether the system saves the wide registers.
bool CpuSupports([[maybe_unused]] InstructionSet set) {
#if defined(__x86_64__)
  switch (set) {
    case InstructionSet::kScalar:
      return true;
    case InstructionSet::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && HasHalfConversion();
    case InstructionSet::kAvx512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512vnni");
  }
#endif
  return set == InstructionSet::kScalar;
}

InstructionSet BestInstructionSet() {
  for (const InstructionSet set : kAllSets) {
    if (CpuSupports(set)) return set;
  }
  return InstructionSet::kScalar;
}

ExpertKernels::ExpertKernels(InstructionSet set) : set_(set) {
  for (uint32_t number = 0; number < kWeightTypeNumbers; ++number) {
    const WeightTypeInfo* info = FindWeightType(number);
    if (info == nullptr || !info->has_kernel) continue;
    const auto type = static_cast<WeightType>(number);
    source_[number] = ScalarKernel(type);
    if (!info->has_rows16) continue;
    rows16_[number] = VectorKernel(set, type, kKernelVariants[0]);
    if (rows16_[number] == nullptr) rows16_[number] = ScalarKernel(type);
  }
}

Result<ExpertKernels> ExpertKernels::Create(InstructionSet set) {
  if (!CpuSupports(set)) {
    return Error{ErrorCode::kFailedPrecondition, Reason::kBadConfig,
                 fmt::format("this processor or its system lacks {}; the best here is {}",
                             InstructionSetName(set), InstructionSetName(BestInstructionSet()))};
  }
  return ExpertKernels(set);
}

void ExpertKernels::Run(const MatVec& call) const {
  MOE_CHECK(!call.tokens.empty() && call.tokens.size() <= kMaxTokens, "{} tokens, must be 1 to {}",
            call.tokens.size(), kMaxTokens);
  const auto& table = call.part->layout == PartLayout::kRows16 ? rows16_ : source_;
  const Kernel kernel = table[static_cast<size_t>(call.part->type)];
  MOE_CHECK(kernel != nullptr, "no kernel for {}", Info(call.part->type).name);
  kernel(call);
}

std::optional<std::string> ExpertKernels::Tune(std::span<const WeightType> types,
                                               const TuneLimits& limits) {
  // A later variant must win by more than two runs of the same kernel differ.
  constexpr double kClearlyFaster = 1.02;
  const KernelTuner tuner;
  std::string report;
  for (const WeightType type : types) {
    report += fmt::format("{} {}: ", InstructionSetName(set_), Info(type).name);
    if (!Info(type).has_rows16 || VectorKernel(set_, type, kKernelVariants[0]) == nullptr) {
      report += "scalar\n";
      continue;
    }
    std::array<MatVecFn, kKernelVariants.size()> kernels;
    for (size_t i = 0; i < kernels.size(); ++i) {
      kernels[i] = VectorKernel(set_, type, kKernelVariants[i]);
    }
    const TuneOutcome outcome = tuner.BytesPerSecond(kernels, type, limits);
    if (outcome.stopped) return std::nullopt;
    if (outcome.rates.empty()) {
      report += "prefetch 4 KiB: the host is too busy to measure\n";
      continue;
    }
    const std::vector<double>& rates = outcome.rates;
    size_t best = 0;
    for (size_t i = 1; i < rates.size(); ++i) {
      if (rates[i] > kClearlyFaster * rates[best]) best = i;
    }
    rows16_[static_cast<size_t>(type)] = kernels[best];
    report += fmt::format("{}, {:.1f} GB/s\n",
                          kKernelVariants[best].prefetch ? "prefetch 4 KiB" : "no prefetch",
                          rates[best] * 1e-9);
  }
  return report;
}

}  // namespace moetier::kernels
