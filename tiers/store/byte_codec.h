#ifndef MOETIER_TIERS_STORE_BYTE_CODEC_H_
#define MOETIER_TIERS_STORE_BYTE_CODEC_H_

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moetier {

// Our files are little-endian, like GGUF; so is every host that we build for.
static_assert(std::endian::native == std::endian::little);

// Appends fixed-width integers and short texts to a byte string.
class ByteWriter {
 public:
  template <std::integral T>
  void Put(T value) {
    PutBytes(std::as_bytes(std::span(&value, 1)));
  }
  void PutBytes(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  // A u16 length, then the characters; the caller has bounded the length.
  void PutText(std::string_view text) {
    Put(static_cast<uint16_t>(text.size()));
    PutBytes(std::as_bytes(std::span(text)));
  }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  std::vector<std::byte> Take() && { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// Takes the same back from hostile bytes. A read past the end gives nothing and moves nothing.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <std::integral T>
  bool Get(T& value) {
    if (remaining() < sizeof(T)) return false;
    std::memcpy(&value, bytes_.data() + offset_, sizeof(T));
    offset_ += sizeof(T);
    return true;
  }
  bool GetText(std::string& text, size_t max_length) {
    uint16_t length = 0;
    if (remaining() < sizeof(length)) return false;
    std::memcpy(&length, bytes_.data() + offset_, sizeof(length));
    if (length > max_length || remaining() - sizeof(length) < length) return false;
    text.assign(reinterpret_cast<const char*>(bytes_.data()) + offset_ + sizeof(length), length);
    offset_ += sizeof(length) + length;
    return true;
  }
  [[nodiscard]] size_t offset() const { return offset_; }
  [[nodiscard]] size_t remaining() const { return bytes_.size() - offset_; }

 private:
  std::span<const std::byte> bytes_;
  size_t offset_ = 0;
};

}  // namespace moetier

#endif  // MOETIER_TIERS_STORE_BYTE_CODEC_H_
