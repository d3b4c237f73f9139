#ifndef MOETIER_TIERS_STORE_GGUF_WRITER_H_
#define MOETIER_TIERS_STORE_GGUF_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tiers/store/byte_codec.h"
#include "tiers/store/gguf_model.h"

namespace moetier {

// A header ready to be written, and where each tensor's data belongs in the file.
struct WrittenGgufHeader {
  std::vector<std::byte> bytes;     // padded to the alignment: the data follows
  std::vector<GgufTensor> tensors;  // as added; `offset` from the file's start, `shard` untouched
  uint64_t file_bytes = 0;          // with the padding behind the last tensor
};

// Puts a GGUF header together (version 3, little-endian), tensors one behind the other, as ggml
// insists. Nothing is checked: the caller gives unique keys and names and bounded sizes.
class GgufHeaderWriter {
 public:
  explicit GgufHeaderWriter(uint64_t alignment) : alignment_(alignment) {}  // a power of two

  // A key-value pair as another file holds it.
  void AddPair(std::span<const std::byte> raw);
  void AddNumber(std::string_view key, uint32_t value);
  void AddText(std::string_view key, std::string_view value);
  // `bytes` is what the data takes.
  void AddTensor(GgufTensor tensor) { tensors_.push_back(std::move(tensor)); }

  WrittenGgufHeader Finish() &&;

 private:
  uint64_t alignment_;
  uint64_t pair_count_ = 0;
  ByteWriter pairs_;
  std::vector<GgufTensor> tensors_;
};

}  // namespace moetier

#endif  // MOETIER_TIERS_STORE_GGUF_WRITER_H_
