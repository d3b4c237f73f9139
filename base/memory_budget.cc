#include "base/memory_budget.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/text_size.h"

namespace moetier {

std::optional<MemoryBudget> ParseMemoryBudget(std::string_view text) {
  if (text.empty()) return std::nullopt;
  if (text.back() != '%') {
    const Result<Bytes> size = ParseSize(text);
    if (!size.has_value() || size->count() == 0) return std::nullopt;
    return *size;
  }
  const char* const last = text.data() + text.size() - 1;
  double percent = 0;
  const auto [end, status] = std::from_chars(text.data(), last, percent, std::chars_format::fixed);
  const bool good = status == std::errc() && end == last && percent > 0 && percent <= 100;
  if (!good) return std::nullopt;
  return Percent{percent};
}

Bytes ResolveBudget(const MemoryBudget& budget, Bytes total) {
  if (const Bytes* bytes = std::get_if<Bytes>(&budget)) return std::min(*bytes, total);
  const double share = std::get<Percent>(budget).value / 100;
  if (share >= 1) return total;  // exact where a double is not
  return Bytes(static_cast<uint64_t>(std::ceil(static_cast<double>(total.count()) * share)));
}

}  // namespace moetier
