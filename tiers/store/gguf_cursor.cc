#include "tiers/store/gguf_cursor.h"

namespace moetier {

std::string Printable(std::string_view text) {
  constexpr size_t kShown = 96;
  std::string out;
  for (const char c : text.substr(0, kShown)) {
    if (c >= 0x20 && c < 0x7f) {
      out += c;
    } else {
      out += fmt::format("\\x{:02X}", static_cast<unsigned char>(c));
    }
  }
  if (text.size() > kShown) out += fmt::format("... ({} bytes)", text.size());
  return out;
}

Error GgufCursor::Bad(uint64_t offset, std::string_view what) const {
  return Error{ErrorCode::kDataLoss, Reason::kBadGguf,
               fmt::format("{}: byte {}: {}", path_, offset, what)};
}

Status GgufCursor::Need(uint64_t bytes, std::string_view what) {
  if (bytes > left_in_file()) {
    return Bad(offset_, fmt::format("the file ends at byte {} inside {}: it is truncated",
                                    file_bytes_, what));
  }
  if (bytes > head_.size() - offset_) {
    starved_ = true;
    return Bad(offset_, fmt::format("the header goes on beyond the {} bytes given, inside {}",
                                    head_.size(), what));
  }
  return Ok{};
}

Result<std::string_view> GgufCursor::Text(std::string_view what, uint64_t limit) {
  const uint64_t start = offset_;
  ASSIGN_OR_RETURN(const uint64_t length, Number<uint64_t>(what));
  if (length > left_in_file()) {
    return Bad(start, fmt::format("{} claims {} bytes, {} are left in the file", what, length,
                                  left_in_file()));
  }
  if (length > limit) {
    return Bad(start, fmt::format("{} claims {} bytes, {} are allowed", what, length, limit));
  }
  RETURN_IF_ERROR(Need(length, what));
  const std::string_view text(reinterpret_cast<const char*>(head_.data() + offset_),
                              static_cast<size_t>(length));
  offset_ += length;
  return text;
}

Result<std::span<const std::byte>> GgufCursor::Elements(uint64_t count, uint32_t element_bytes,
                                                        std::string_view what) {
  if (count > left_in_file() / element_bytes) {
    return Bad(offset_, fmt::format("{} claims {} elements of {} bytes, {} bytes are left in the "
                                    "file",
                                    what, count, element_bytes, left_in_file()));
  }
  RETURN_IF_ERROR(Need(count * element_bytes, what));
  const auto elements =
      head_.subspan(static_cast<size_t>(offset_), static_cast<size_t>(count * element_bytes));
  offset_ += elements.size();
  return elements;
}

}  // namespace moetier
