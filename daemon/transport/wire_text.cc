#include "daemon/transport/wire_text.h"

#include <cstddef>
#include <cstdint>

namespace moetier {
namespace {

bool IsContinuation(std::string_view text, size_t at) {
  return at < text.size() && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80;
}

// Bytes of the well-formed UTF-8 sequence at `at`, 0 if there is none (Unicode, table 3-7).
size_t SequenceLength(std::string_view text, size_t at) {
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

}  // namespace

std::string WireText(std::string_view text, size_t limit) {
  std::string out;
  size_t at = 0;
  while (at < text.size()) {
    const size_t length = SequenceLength(text, at);
    if (out.size() + (length == 0 ? 1 : length) > limit) break;
    if (length == 0) {
      out.push_back('?');
      ++at;
    } else {
      out.append(text.substr(at, length));
      at += length;
    }
  }
  return out;
}

bool EqualInConstantTime(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<uint8_t>(a[i]) ^ static_cast<unsigned>(static_cast<uint8_t>(b[i]));
  }
  // Keeps the compiler from turning the loop into one that leaves early.
  asm volatile("" : "+r"(difference));
  return difference == 0;
}

}  // namespace moetier
