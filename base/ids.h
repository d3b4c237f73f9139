#ifndef MOETIER_BASE_IDS_H_
#define MOETIER_BASE_IDS_H_

#include <fmt/core.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>

namespace moetier {

// Strong names for the numbers that cross folders. Layers are block numbers of the model file
// (blk.N) and may be sparse; a dense MoE ordinal exists only inside records and traces.
enum class LayerIndex : uint16_t {};
enum class ExpertIndex : uint16_t {};
enum class ModelId : uint32_t {};    // a handle per load, never reused within a daemon's life
enum class PoolId : uint8_t {};      // index into the daemon's list of pools (ram0, gpu:UUID, ...)
enum class SizeClass : uint8_t {};   // index into a model's record sizes, at most kMaxSizeClasses
enum class SlotIndex : uint32_t {};  // a place in the arena of one (model, pool, size class)

inline constexpr size_t kMaxSizeClasses = 4;

template <typename E>
requires std::is_enum_v<E>
constexpr std::underlying_type_t<E> Raw(E value) {
  return static_cast<std::underlying_type_t<E>>(value);
}

// What kind of memory a pool is.
enum class PoolKind : uint8_t { kVram, kRam, kNvme };

// Why a transfer was asked for; demand reads pass prefetches.
enum class Urgency : uint8_t { kDemand, kPrefetch };

// Names one expert of one loaded model.
struct ExpertKey {
  ModelId model{};
  LayerIndex layer{};
  ExpertIndex expert{};
  friend auto operator<=>(const ExpertKey&, const ExpertKey&) = default;
};

inline std::string ToString(const ExpertKey& key) {
  return fmt::format("blk.{} expert {}", Raw(key.layer), Raw(key.expert));
}

}  // namespace moetier

template <>
struct std::hash<moetier::ExpertKey> {
  size_t operator()(const moetier::ExpertKey& key) const noexcept {
    const uint64_t packed = uint64_t{moetier::Raw(key.model)} << 32 |
                            uint64_t{moetier::Raw(key.layer)} << 16 | moetier::Raw(key.expert);
    return std::hash<uint64_t>()(packed * 0x9E3779B97F4A7C15u);  // Fibonacci hashing
  }
};

#endif  // MOETIER_BASE_IDS_H_
