#ifndef MOETIER_DAEMON_CTL_GOLDEN_ROWS_H_
#define MOETIER_DAEMON_CTL_GOLDEN_ROWS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace moetier {

// Recorded inputs of a model's MoE layers: T tokens through L layers, and what a float64
// computation makes of them. Read from a directory of numpy files: hidden.npy [T, L, hidden] f32,
// experts.npy [T, L, k] i32, weights.npy [T, L, k] f32, output.npy [T, L, hidden] f32.
struct GoldenRows {
  uint32_t tokens = 0;
  uint32_t layers = 0;  // the model's MoE layers, in order
  uint32_t hidden_size = 0;
  uint32_t top_k = 0;
  std::vector<float> hidden;
  std::vector<uint32_t> experts;
  std::vector<float> weights;
  std::vector<float> output;  // float64 results, rounded once

  [[nodiscard]] std::span<const float> HiddenOf(uint32_t token, uint32_t layer) const;
  [[nodiscard]] std::span<const uint32_t> ExpertsOf(uint32_t token, uint32_t layer) const;
  [[nodiscard]] std::span<const float> WeightsOf(uint32_t token, uint32_t layer) const;
};

// The shapes must agree with one another, expert ids must not be negative and all numbers finite.
Result<GoldenRows> ReadGoldenRows(const std::string& directory);

}  // namespace moetier

#endif  // MOETIER_DAEMON_CTL_GOLDEN_ROWS_H_
