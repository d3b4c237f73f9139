#ifndef MOETIER_TIERS_STORE_GGUF_HEADER_H_
#define MOETIER_TIERS_STORE_GGUF_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "tiers/store/gguf_model.h"

namespace moetier {

// Where one metadata pair stands in the file: key, type and value.
struct GgufPair {
  std::string key;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// The header of one GGUF file: everything before the tensor data.
struct GgufHeader {
  uint32_t version = 0;
  uint64_t alignment = 32;      // of the tensor data
  uint64_t data_offset = 0;     // where the tensor data starts in the file
  std::vector<GgufPair> pairs;  // in file order
  std::map<std::string, GgufValue, std::less<>> metadata;
  std::vector<GgufTensor> tensors;  // in file order; `shard` is 0; offsets from the file's start
};

// One file's header and where it was found.
struct GgufFile {
  std::string path;
  uint64_t bytes = 0;
  GgufHeader header;
};

// No header asks for more than this: the largest known vocabularies take about 30 MB. It bounds
// what a hostile file can make us hold (number arrays grow up to eightfold in memory).
inline constexpr uint64_t kMaxGgufHeaderBytes = uint64_t{256} << 20;

// Parses the header in `head`, the first bytes of a file of `file_bytes`. Empty when the header
// goes on beyond `head`. kBadGguf names file and byte; kUnsupportedModel for version 1, big-endian
// and unknown versions.
Result<std::optional<GgufHeader>> ParseGgufHeader(std::span<const std::byte> head,
                                                  uint64_t file_bytes, const std::string& path);

// Reads as much of the file as its header needs; one that needs more than `limit` is kBadGguf.
Result<GgufFile> ReadGgufFile(const std::string& path, uint64_t limit = kMaxGgufHeaderBytes);
// The same of an open descriptor; `path` is what messages call it.
Result<GgufFile> ReadOpenGgufFile(int fd, const std::string& path,
                                  uint64_t limit = kMaxGgufHeaderBytes);

}  // namespace moetier

#endif  // MOETIER_TIERS_STORE_GGUF_HEADER_H_
