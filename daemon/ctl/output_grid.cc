#include "daemon/ctl/output_grid.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace moetier {

OutputGrid::OutputGrid(uint32_t tokens, uint32_t layers, uint32_t columns)
    : tokens_(tokens),
      layers_(layers),
      columns_(columns),
      values_(size_t{tokens} * layers * columns) {}

void OutputGrid::Put(uint32_t token, uint32_t layer, std::span<const float> row) {
  MOE_CHECK(token < tokens_ && layer < layers_ && row.size() == columns_,
            "cell ({}, {}) of {} columns in a grid of ({}, {}) x {}", token, layer, row.size(),
            tokens_, layers_, columns_);
  const size_t begin = (size_t{token} * layers_ + layer) * columns_;
  std::copy(row.begin(), row.end(), values_.begin() + static_cast<std::ptrdiff_t>(begin));
}

std::span<const float> OutputGrid::Row(uint32_t token, uint32_t layer) const {
  return std::span(values_).subspan((size_t{token} * layers_ + layer) * columns_, columns_);
}

uint64_t OutputGrid::Hash() const {
  return XXH3_64bits(values_.data(), values_.size() * sizeof(float));
}

double RelativeL2(std::span<const float> values, std::span<const float> expected) {
  MOE_CHECK(values.size() == expected.size(), "{} and {} values", values.size(), expected.size());
  double error = 0;
  double norm = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double difference = double{values[i]} - double{expected[i]};
    error += difference * difference;
    norm += double{expected[i]} * double{expected[i]};
  }
  if (norm == 0) return error == 0 ? 0 : std::numeric_limits<double>::infinity();
  return std::sqrt(error / norm);
}

}  // namespace moetier
