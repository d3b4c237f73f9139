#ifndef MOETIER_BASE_MEMORY_BUDGET_H_
#define MOETIER_BASE_MEMORY_BUDGET_H_

#include <variant>

#include "base/bytes.h"

namespace moetier {

// A share of the model's expert bytes, above 0 and at most 100.
struct Percent {
  double value = 0;
  friend bool operator==(const Percent&, const Percent&) = default;
};
using MemoryBudget = std::variant<Bytes, Percent>;

// `budget` in bytes, where `total` is the model's expert bytes; a percentage is rounded up.
Bytes ResolveBudget(const MemoryBudget& budget, Bytes total);

}  // namespace moetier

#endif  // MOETIER_BASE_MEMORY_BUDGET_H_
