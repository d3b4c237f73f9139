#ifndef MOETIER_TIERS_STORE_GGUF_MODEL_H_
#define MOETIER_TIERS_STORE_GGUF_MODEL_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

// GGUF as hostile bytes: every count, length and offset is checked before it is used, and nothing
// is allocated from an unchecked count. Format: ggml's docs/gguf.md, versions 2 and 3,
// little-endian.

namespace moetier {

// A metadata array; strings and numbers are kept apart, nested arrays are refused.
struct GgufArray {
  uint32_t element_type = 0;  // GGUF's own number
  std::vector<std::string> strings;
  std::vector<double> numbers;    // float element types
  std::vector<int64_t> integers;  // all integer and bool element types
};
using GgufValue = std::variant<uint64_t, int64_t, double, bool, std::string, GgufArray>;

struct GgufTensor {
  std::string name;
  uint32_t ggml_type = 0;
  uint32_t dimensions = 0;
  std::array<uint64_t, 4> shape{1, 1, 1, 1};  // GGUF order: shape[0] is the row length
  uint32_t shard = 0;                         // index into GgufModel::shard_paths()
  uint64_t offset = 0;                        // from the start of the shard's file
  uint64_t bytes = 0;                         // lies inside the file (checked)
};

struct GgufFile;

// The header of one model: all shards' metadata and tensor tables. Holds no tensor data and no open
// file. Threads: immutable after Open.
class GgufModel {
 public:
  // `path` is the only file, or any shard of NAME-00001-of-0000N.gguf. All faults of a shard set
  // are named in one message (missing, renamed, mixed models, tensor totals). kDataLoss kBadGguf /
  // kMissingShard; kFailedPrecondition kUnsupportedModel for version 1 and big-endian files.
  static Result<GgufModel> Open(const std::string& path);

  // One file's header from memory, for tests and the fuzzer: `file_bytes` is the whole file's size,
  // `head` its first bytes.
  static Result<GgufModel> Parse(std::span<const std::byte> head, uint64_t file_bytes,
                                 const std::string& path);

  // Of headers that ReadShardSet or OrderShardSet gave.
  static GgufModel FromFiles(std::vector<GgufFile> files);

  [[nodiscard]] const GgufValue* Find(std::string_view key) const;
  [[nodiscard]] std::optional<uint64_t> FindUnsigned(std::string_view key) const;
  [[nodiscard]] std::optional<double> FindNumber(std::string_view key) const;
  [[nodiscard]] const std::string* FindString(std::string_view key) const;
  [[nodiscard]] const GgufTensor* FindTensor(std::string_view name) const;
  [[nodiscard]] std::span<const GgufTensor> tensors() const { return tensors_; }
  [[nodiscard]] std::span<const std::string> shard_paths() const { return shard_paths_; }
  // Bytes of each shard's file when it was read.
  [[nodiscard]] std::span<const uint64_t> shard_bytes() const { return shard_bytes_; }
  // All keys: the first shard's, without the split.* keys of the others.
  [[nodiscard]] const std::map<std::string, GgufValue, std::less<>>& metadata() const {
    return metadata_;
  }

 private:
  std::map<std::string, GgufValue, std::less<>> metadata_;
  std::vector<GgufTensor> tensors_;
  std::map<std::string, size_t, std::less<>> tensor_index_;
  std::vector<std::string> shard_paths_;
  std::vector<uint64_t> shard_bytes_;
};

}  // namespace moetier

#endif  // MOETIER_TIERS_STORE_GGUF_MODEL_H_
