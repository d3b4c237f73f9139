#ifndef MOETIER_DAEMON_TRANSPORT_HIDDEN_ROWS_H_
#define MOETIER_DAEMON_TRANSPORT_HIDDEN_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace moetier {

// How a request's hidden values are written; the numbers of moetier.v1.DType and of the fast lane.
enum class HiddenType : uint32_t { kF32 = 1, kF16 = 2, kBF16 = 3 };

// Bytes of one value; none for a type that we do not know.
std::optional<uint32_t> BytesPerValue(HiddenType type);

// Little-endian values of a known `type` as f32; every f16 and bf16 value has an exact one.
// `bytes` is a whole number of values; each is read once, so that a writer who still changes them
// (the fast lane's client) cannot make a value other than the one that is checked afterwards.
std::vector<float> DecodeValues(HiddenType type, std::span<const std::byte> bytes);

// Index of the first NaN or Inf.
std::optional<size_t> FindNonFinite(std::span<const float> values);

}  // namespace moetier

#endif  // MOETIER_DAEMON_TRANSPORT_HIDDEN_ROWS_H_
