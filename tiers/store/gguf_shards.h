#ifndef MOETIER_TIERS_STORE_GGUF_SHARDS_H_
#define MOETIER_TIERS_STORE_GGUF_SHARDS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tiers/store/gguf_header.h"

namespace moetier {

// The parts of PREFIX-NNNNN-of-MMMMM.gguf. Names count from 1, the key split.no counts from 0.
struct ShardName {
  std::string prefix;
  uint32_t number = 0;
  uint32_t count = 0;
};

// Empty unless both numbers have five digits and 1 <= number <= count.
std::optional<ShardName> ParseShardName(std::string_view path);
std::string FormatShardName(const ShardName& name);

// Reads the headers of the only file, or of all shards of the set that `path` belongs to, in
// order. All faults of the set come in one message, a line each; kMissingShard if a shard is not
// there, else kBadGguf.
Result<std::vector<GgufFile>> ReadShardSet(const std::string& path);

// Which of `files`, given in any order, is shard i, by what each says of itself: names count for
// messages only. Every file of the set must be there. Errors as ReadShardSet's.
Result<std::vector<size_t>> FindShardOrder(std::span<const GgufFile> files);

}  // namespace moetier

#endif  // MOETIER_TIERS_STORE_GGUF_SHARDS_H_
