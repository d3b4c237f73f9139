#ifndef MOETIER_DAEMON_CTL_OUTPUT_GRID_H_
#define MOETIER_DAEMON_CTL_OUTPUT_GRID_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace moetier {

// Output rows of T tokens through L layers, put in any order.
// Threads: distinct (token, layer) cells may be put at once; reads only after all puts.
class OutputGrid {
 public:
  OutputGrid(uint32_t tokens, uint32_t layers, uint32_t columns);

  void Put(uint32_t token, uint32_t layer, std::span<const float> row);
  [[nodiscard]] std::span<const float> Row(uint32_t token, uint32_t layer) const;
  [[nodiscard]] std::span<const float> values() const { return values_; }

  // xxh3 of all bits in (token, layer) order: the same however the rows came in.
  [[nodiscard]] uint64_t Hash() const;

 private:
  const uint32_t tokens_;
  const uint32_t layers_;
  const uint32_t columns_;
  std::vector<float> values_;
};

// sqrt(sum (value - expected)^2 / sum expected^2), in double; 0 when both are all zero.
double RelativeL2(std::span<const float> values, std::span<const float> expected);

}  // namespace moetier

#endif  // MOETIER_DAEMON_CTL_OUTPUT_GRID_H_
