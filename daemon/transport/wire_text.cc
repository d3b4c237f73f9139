#include "daemon/transport/wire_text.h"

#include <cstddef>
#include <cstdint>

#include "base/utf8.h"

namespace moetier {
std::string WireText(std::string_view text, size_t limit) {
  std::string out;
  size_t at = 0;
  while (at < text.size()) {
    const size_t length = Utf8Length(text, at);
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
