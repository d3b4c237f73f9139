#include "base/utf8.h"

#include <cstdint>

namespace moetier {
namespace {

bool IsContinuation(std::string_view text, size_t at) {
  return at < text.size() && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80;
}

}  // namespace

size_t Utf8Length(std::string_view text, size_t at) {
  const auto first = static_cast<uint8_t>(text[at]);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4 || !IsContinuation(text, at + 1)) return 0;
  const auto second = static_cast<uint8_t>(text[at + 1]);
  if (first < 0xE0) return 2;
  if (!IsContinuation(text, at + 2)) return 0;
  if (first == 0xE0 && second < 0xA0) return 0;  // overlong
  if (first == 0xED && second > 0x9F) return 0;  // surrogate
  if (first < 0xF0) return 3;
  if (!IsContinuation(text, at + 3)) return 0;
  if (first == 0xF0 && second < 0x90) return 0;  // overlong
  if (first == 0xF4 && second > 0x8F) return 0;  // beyond U+10FFFF
  return 4;
}

}  // namespace moetier
