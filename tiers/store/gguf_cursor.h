#ifndef MOETIER_TIERS_STORE_GGUF_CURSOR_H_
#define MOETIER_TIERS_STORE_GGUF_CURSOR_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace moetier {

// `text` fit for a message: control and non-ASCII bytes as \xNN, cut after 96 characters.
std::string Printable(std::string_view text);

// Reads the little-endian fields of a GGUF header, each checked against the file's end before it
// is touched. `head` is the part of the file that is in memory. A field that lies in the file but
// beyond `head` also comes as an error, and starved() tells that more bytes would have helped.
// Lifetime: `head` and `path` outlive it. Threads: one.
class GgufCursor {
 public:
  GgufCursor(std::span<const std::byte> head, uint64_t file_bytes, std::string_view path)
      : head_(head), file_bytes_(file_bytes), path_(path) {}

  // The next field; `what` names it in the message.
  template <typename T>
  Result<T> Number(std::string_view what) {
    static_assert(std::endian::native == std::endian::little, "GGUF fields are copied as they are");
    RETURN_IF_ERROR(Need(sizeof(T), what));
    T value;
    std::memcpy(&value, head_.data() + offset_, sizeof(T));
    offset_ += sizeof(T);
    return value;
  }

  // A length and that many bytes; the view lies in `head`. Refuses lengths above `limit`.
  Result<std::string_view> Text(std::string_view what, uint64_t limit);

  // `count` elements of `element_bytes` each, as they lie in `head`.
  Result<std::span<const std::byte>> Elements(uint64_t count, uint32_t element_bytes,
                                              std::string_view what);

  [[nodiscard]] uint64_t offset() const { return offset_; }
  [[nodiscard]] uint64_t left_in_file() const { return file_bytes_ - offset_; }
  [[nodiscard]] uint64_t file_bytes() const { return file_bytes_; }
  [[nodiscard]] bool starved() const { return starved_; }

  // kDataLoss, kBadGguf: "PATH: byte OFFSET: WHAT".
  [[nodiscard]] Error Bad(uint64_t offset, std::string_view what) const;

 private:
  Status Need(uint64_t bytes, std::string_view what);

  std::span<const std::byte> head_;
  uint64_t file_bytes_;
  std::string_view path_;
  uint64_t offset_ = 0;  // <= head_.size() and <= file_bytes_
  bool starved_ = false;
};

}  // namespace moetier

#endif  // MOETIER_TIERS_STORE_GGUF_CURSOR_H_
