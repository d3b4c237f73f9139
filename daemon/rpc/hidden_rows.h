#ifndef MOETIER_DAEMON_RPC_HIDDEN_ROWS_H_
#define MOETIER_DAEMON_RPC_HIDDEN_ROWS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "moetier/v1/common.pb.h"

namespace moetier {

// Bytes of one value; none for a type that we do not know.
std::optional<uint32_t> BytesPerValue(v1::DType type);

// Little-endian values of a known `type` as f32; every f16 and bf16 value has an exact one.
// `bytes` is a whole number of values.
std::vector<float> DecodeValues(v1::DType type, std::string_view bytes);

// Index of the first NaN or Inf.
std::optional<size_t> FindNonFinite(std::span<const float> values);

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_HIDDEN_ROWS_H_
