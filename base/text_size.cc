#include "base/text_size.h"

#include <array>
#include <charconv>
#include <cmath>

namespace moetier {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};
constexpr std::array kUnits = {
    Unit{"", 1},         Unit{"B", 1},        Unit{"KiB", 0x1p10}, Unit{"MiB", 0x1p20},
    Unit{"GiB", 0x1p30}, Unit{"TiB", 0x1p40}, Unit{"KB", 1e3},     Unit{"MB", 1e6},
    Unit{"GB", 1e9},     Unit{"TB", 1e12},
};

Error BadSize(std::string_view text) {
  return Error{ErrorCode::kInvalidArgument, Reason::kUnspecified,
               fmt::format("`{}` is not a size: write a number and a unit, such as 12GiB, 512MiB "
                           "or 1.5GB (units: B, KiB, MiB, GiB, TiB, KB, MB, GB, TB)",
                           text)};
}

}  // namespace

Result<Bytes> ParseSize(std::string_view text) {
  double number = 0;
  const auto [end, status] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (status != std::errc() || !std::isfinite(number) || number < 0) return BadSize(text);
  std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  for (const Unit& candidate : kUnits) {
    if (candidate.name != unit) continue;
    const double bytes = number * candidate.factor;
    if (bytes >= 0x1p62) return BadSize(text);
    return Bytes(static_cast<uint64_t>(std::llround(bytes)));
  }
  return BadSize(text);
}

std::string FormatSize(Bytes size) {
  constexpr std::array<std::string_view, 5> kNames = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(size.count());
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < kNames.size()) {
    value /= 1024;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", size.count());
  return fmt::format("{:.{}f} {}", value, value < 10 ? 2 : 1, kNames[unit]);
}

}  // namespace moetier
