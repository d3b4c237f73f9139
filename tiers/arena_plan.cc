#include "tiers/arena_plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "base/text_size.h"

namespace moetier {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 62;
constexpr Bytes kSmallestMeant = 1_MiB;  // a smaller budget lacks its unit, most likely
constexpr double kLossToWarn = 0.10;     // of the budget

// What `slots` slots side by side take.
uint64_t RegionBytes(Bytes slot_bytes, uint32_t slots, Bytes granule) {
  return AlignUp((slot_bytes * slots).count(), granule.count());
}

// The bytes of `slots` slots of each class, or empty when they exceed every machine.
std::optional<uint64_t> SumBytes(std::span<const SizeClassGeometry> classes,
                                 std::span<const uint32_t> slots, Bytes granule) {
  uint64_t sum = 0;
  for (size_t i = 0; i < classes.size(); ++i) {
    const uint64_t slot_bytes = classes[i].slot_bytes.count();
    if (slots[i] > 0 && slot_bytes > (kMostBytes - sum) / slots[i]) return std::nullopt;
    sum += RegionBytes(classes[i].slot_bytes, slots[i], granule);
  }
  return sum;
}

Status CheckClasses(std::span<const SizeClassGeometry> classes) {
  if (classes.size() > kMaxSizeClasses) {
    return Error{
        ErrorCode::kInvalidArgument, Reason::kUnspecified,
        fmt::format("{} size classes, at most {} are possible", classes.size(), kMaxSizeClasses)};
  }
  for (const SizeClassGeometry& geometry : classes) {
    const uint64_t bytes = geometry.slot_bytes.count();
    if (geometry.records == 0 || (bytes > 0 && bytes % kRecordAlignment == 0)) continue;
    return Error{ErrorCode::kInvalidArgument, Reason::kUnspecified,
                 fmt::format("a slot of {} bytes: slots are whole multiples of {}", bytes,
                             kRecordAlignment)};
  }
  return Ok{};
}

// The class that is served worst and still wants a slot; empty when there is none.
std::optional<size_t> NextToGrow(std::span<const SizeClassGeometry> classes,
                                 std::span<const uint32_t> slots) {
  std::optional<size_t> worst;
  for (size_t i = 0; i < classes.size(); ++i) {
    if (slots[i] >= classes[i].records) continue;
    // slots/records compared by cross products: 32-bit factors cannot overflow.
    if (!worst || uint64_t{slots[i]} * classes[*worst].records <
                      uint64_t{slots[*worst]} * classes[i].records) {
      worst = i;
    }
  }
  return worst;
}

Error TooSmall(std::span<const SizeClassGeometry> classes, std::span<const uint32_t> least,
               Bytes budget, std::optional<uint64_t> needed) {
  std::string text = fmt::format("a budget of {} is too small: ", FormatSize(budget));
  for (size_t i = 0; i < classes.size(); ++i) {
    if (least[i] == 0) continue;
    text += fmt::format("{} slots of {}, ", least[i], FormatSize(classes[i].slot_bytes));
  }
  // The sum is told in exact bytes too, so that it can be copied into the config.
  text += needed ? fmt::format("at least {} ({} bytes) are needed: raise the budget",
                               FormatSize(Bytes(*needed)), *needed)
                 : std::string("more than any host has");
  if (budget < kSmallestMeant) text += "; a number without a unit is bytes";
  return Error{ErrorCode::kExhausted, Reason::kBudgetTooSmall, std::move(text)};
}

void NoteLoss(std::span<const SizeClassGeometry> classes, std::span<const uint32_t> slots,
              ArenaPlan& plan) {
  bool all_fit = true;
  for (size_t i = 0; i < classes.size(); ++i) all_fit &= slots[i] >= classes[i].records;
  if (all_fit) return;  // what is left is not wanted
  plan.rounding_loss = plan.budget - plan.total;
  const double share =
      static_cast<double>(plan.rounding_loss.count()) / static_cast<double>(plan.budget.count());
  if (share <= kLossToWarn) return;
  plan.warning = fmt::format(
      "{} of the budget of {} ({:.0f} %) is less than one more slot and stays unused: lower the "
      "budget to {} or raise it by a slot",
      FormatSize(plan.rounding_loss), FormatSize(plan.budget), share * 100, FormatSize(plan.total));
}

}  // namespace

Result<ArenaPlan> PlanArena(std::span<const SizeClassGeometry> classes, Bytes budget,
                            uint32_t min_slots, Bytes granule) {
  RETURN_IF_ERROR(CheckClasses(classes));
  std::vector<uint32_t> slots;
  for (const SizeClassGeometry& geometry : classes) {
    slots.push_back(std::min(min_slots, geometry.records));
  }
  const std::optional<uint64_t> least = SumBytes(classes, slots, granule);
  if (!least || *least > budget.count()) return TooSmall(classes, slots, budget, least);

  uint64_t left = std::min(budget.count(), kMostBytes) - *least;
  while (const std::optional<size_t> grown = NextToGrow(classes, slots)) {
    const Bytes slot_bytes = classes[*grown].slot_bytes;
    const uint64_t more = RegionBytes(slot_bytes, slots[*grown] + 1, granule) -
                          RegionBytes(slot_bytes, slots[*grown], granule);
    if (more > left) break;
    ++slots[*grown];
    left -= more;
  }

  ArenaPlan plan;
  plan.budget = budget;
  plan.least = Bytes(*least);
  for (size_t i = 0; i < classes.size(); ++i) {
    plan.regions.push_back(
        {classes[i].slot_bytes, slots[i], plan.total.count(), classes[i].records});
    plan.total += Bytes(RegionBytes(classes[i].slot_bytes, slots[i], granule));
  }
  NoteLoss(classes, slots, plan);
  return plan;
}

}  // namespace moetier
