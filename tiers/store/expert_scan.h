#ifndef MOETIER_TIERS_STORE_EXPERT_SCAN_H_
#define MOETIER_TIERS_STORE_EXPERT_SCAN_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/ids.h"
#include "base/result.h"
#include "kernels/weight_type.h"

namespace moetier {

// What an expert's bytes hold that is odd but has a value.
struct ExpertScan {
  // MXFP4 blocks of exponent 255: ggml reads it as 2^127, the OCP specification as NaN. Worth a
  // warning.
  uint64_t largest_exponents = 0;
  uint64_t first_largest_exponent = 0;  // block number; of no meaning if there are none
};

// Refuses weights that would make NaN out of every row: f16 scales and minima that are infinite or
// NaN, and F32, F16 and BF16 weights that are not finite. kDataLoss, kBadGguf names tensor, expert
// and block. `bytes` is one part of one expert, whole blocks of `type`. Types without an f16 scale
// that we know of are not looked at.
Result<ExpertScan> ScanExpertWeights(kernels::WeightType type, std::span<const std::byte> bytes,
                                     std::string_view tensor, ExpertIndex expert);

}  // namespace moetier

#endif  // MOETIER_TIERS_STORE_EXPERT_SCAN_H_
