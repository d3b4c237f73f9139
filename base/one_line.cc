#include "base/one_line.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "base/utf8.h"

namespace moetier {
namespace {

// Of well-formed sequences: C0, DEL and C1 controls; U+2028, U+2029; U+202A..E and U+2066..9.
bool IsUnfit(std::string_view sequence) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(sequence[i]); };
  if (sequence.size() == 1) return byte(0) < 0x20 || byte(0) == 0x7F;
  if (sequence.size() == 2) return byte(0) == 0xC2 && byte(1) < 0xA0;
  if (sequence.size() != 3 || byte(0) != 0xE2) return false;
  return (byte(1) == 0x80 && byte(2) >= 0xA8 && byte(2) <= 0xAE) ||
         (byte(1) == 0x81 && byte(2) >= 0xA6 && byte(2) <= 0xA9);
}

void Escape(std::string_view bytes, std::string& out) {
  for (const char c : bytes) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<uint8_t>(c));
    }
  }
}

}  // namespace

std::string OneLine(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t length = Utf8Length(text, at);
    const std::string_view piece = text.substr(at, length == 0 ? 1 : length);
    if (length == 0 || IsUnfit(piece)) {
      Escape(piece, out);
    } else {
      out += piece;
    }
    at += piece.size();
  }
  return out;
}

}  // namespace moetier
