#ifndef MOETIER_BASE_MEMORY_BUDGET_H_
#define MOETIER_BASE_MEMORY_BUDGET_H_

#include <optional>
#include <string_view>
#include <variant>

#include "base/bytes.h"

namespace moetier {

// A share of the model's expert bytes, above 0 and at most 100.
struct Percent {
  double value = 0;
  friend bool operator==(const Percent&, const Percent&) = default;
};
using MemoryBudget = std::variant<Bytes, Percent>;

// "12GiB", "25%": what the configuration and moetierctl take; none for anything else, 0 and 0%
// included.
std::optional<MemoryBudget> ParseMemoryBudget(std::string_view text);
inline constexpr std::string_view kMemoryBudgetForm =
    "a size such as 12GiB, or a share of the model's expert bytes such as 25% (above 0%, at most "
    "100%)";

// `budget` in bytes, where `total` is the model's expert bytes: a percentage is rounded up, and a
// size above `total` is all of it, since a model can use no more.
Bytes ResolveBudget(const MemoryBudget& budget, Bytes total);

}  // namespace moetier

#endif  // MOETIER_BASE_MEMORY_BUDGET_H_
