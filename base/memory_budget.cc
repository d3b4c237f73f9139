#include "base/memory_budget.h"

#include <cmath>

namespace moetier {

Bytes ResolveBudget(const MemoryBudget& budget, Bytes total) {
  if (const Bytes* bytes = std::get_if<Bytes>(&budget)) return *bytes;
  const double share = std::get<Percent>(budget).value / 100;
  if (share >= 1) return total;  // exact where a double is not
  return Bytes(static_cast<uint64_t>(std::ceil(static_cast<double>(total.count()) * share)));
}

}  // namespace moetier
