#include "tiers/device/slot_homes.h"

#include <algorithm>
#include <optional>

#include "base/text_size.h"
#include "tiers/device/slot_granules.h"

namespace moetier {
namespace {

// Slots that one device has so far.
struct Part {
  DeviceRoom room;
  uint64_t bytes = 0;            // of slots, without what granules take beside them
  std::vector<uint32_t> counts;  // by size class
};

// How full the device would be with one slot more, of what it has.
double Load(const Part& part, Bytes slot_bytes) {
  return static_cast<double>(part.bytes + slot_bytes.count()) /
         static_cast<double>(part.room.free.count());
}

bool Fits(const Part& part, const ArenaPlan& plan, size_t size_class) {
  Bytes taken;
  for (size_t i = 0; i < part.counts.size(); ++i) {
    const uint32_t count = part.counts[i] + (i == size_class ? 1 : 0);
    taken +=
        Bytes(AlignUp((plan.regions[i].slot_bytes * count).count(), part.room.granule.count()));
  }
  return taken <= part.room.free;
}

// The device that is the least full with the slot, of those that `may` take it.
template <typename May>
std::optional<size_t> LeastFull(std::span<const Part> parts, Bytes slot_bytes, const May& may) {
  std::optional<size_t> least;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].room.free == Bytes() || !may(parts[i])) continue;
    if (!least || Load(parts[i], slot_bytes) < Load(parts[*least], slot_bytes)) least = i;
  }
  return least;
}

void Settle(size_t device, Bytes slot_bytes, size_t size_class, std::span<Part> parts,
            SlotHomes& homes) {
  Part& part = parts[device];
  homes.homes[size_class].push_back(
      {.device = static_cast<uint8_t>(device), .slot = SlotIndex{part.counts[size_class]++}});
  part.bytes += slot_bytes.count();
}

}  // namespace

Result<SlotHomes> ShareSlots(const ArenaPlan& plan, std::span<const DeviceRoom> rooms,
                             std::string_view what) {
  const size_t classes = plan.regions.size();
  std::vector<Part> parts;
  for (const DeviceRoom& room : rooms) {
    parts.push_back({.room = room, .bytes = 0, .counts = std::vector<uint32_t>(classes)});
  }
  SlotHomes shared;
  shared.homes.resize(classes);
  for (size_t i = 0; i < classes; ++i) {
    const Bytes slot_bytes = plan.regions[i].slot_bytes;
    for (uint32_t slot = 0; slot < plan.regions[i].slots; ++slot) {
      const auto device =
          LeastFull(parts, slot_bytes, [&](const Part& part) { return Fits(part, plan, i); });
      if (!device) {
        return Error{
            ErrorCode::kExhausted, Reason::kNoRoom,
            fmt::format("{}: {} in {} parts, of which none has room for one more slot of "
                        "{}; lower it",
                        what, FormatSize(plan.total), rooms.size(), FormatSize(slot_bytes))};
      }
      Settle(*device, slot_bytes, i, parts, shared);
    }
  }
  for (const Part& part : parts) {
    ArenaPlan& own = shared.plans.emplace_back();
    for (size_t i = 0; i < classes; ++i) {
      const Bytes slot_bytes = plan.regions[i].slot_bytes;
      own.regions.push_back({slot_bytes, part.counts[i], own.total.count(), 0});
      own.total += Bytes(AlignUp((slot_bytes * part.counts[i]).count(), part.room.granule.count()));
    }
    own.budget = own.total;
    own.least = own.total;
  }
  // Places without memory, each class from where its slots have left off.
  const std::vector<Part> with_memory = parts;
  for (size_t i = 0; i < classes; ++i) {
    std::vector<Part> growing = with_memory;
    const Bytes slot_bytes = plan.regions[i].slot_bytes;
    for (uint32_t slot = plan.regions[i].slots; slot < plan.regions[i].records; ++slot) {
      const auto device = LeastFull(growing, slot_bytes, [](const Part&) { return true; });
      Settle(device.value_or(0), slot_bytes, i, growing, shared);
    }
    for (size_t k = 0; k < parts.size(); ++k) {
      shared.plans[k].regions[i].records = growing[k].counts[i];
    }
  }
  return shared;
}

}  // namespace moetier
