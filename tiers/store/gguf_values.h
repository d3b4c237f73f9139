#ifndef MOETIER_TIERS_STORE_GGUF_VALUES_H_
#define MOETIER_TIERS_STORE_GGUF_VALUES_H_

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "tiers/store/gguf_cursor.h"
#include "tiers/store/gguf_model.h"

namespace moetier {

// GGUF's numbers for the types of metadata values.
enum class GgufType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

inline constexpr uint64_t kMaxGgufKeyBytes = 65535;  // the format's own limit
// Largest known array: about 1 M merges of a tokenizer.
inline constexpr uint64_t kMaxGgufArrayElements = uint64_t{1} << 24;

// Reads one key-value pair into `metadata`; a key that is there already is an error. Gives the key,
// which lies in the cursor's bytes.
Result<std::string_view> ReadGgufPair(GgufCursor& cursor,
                                      std::map<std::string, GgufValue, std::less<>>& metadata);

}  // namespace moetier

#endif  // MOETIER_TIERS_STORE_GGUF_VALUES_H_
