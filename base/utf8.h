#ifndef MOETIER_BASE_UTF8_H_
#define MOETIER_BASE_UTF8_H_

#include <cstddef>
#include <string_view>

namespace moetier {

// Bytes of the well-formed UTF-8 sequence at `at`, 0 if there is none (Unicode, table 3-7).
size_t Utf8Length(std::string_view text, size_t at);

}  // namespace moetier

#endif  // MOETIER_BASE_UTF8_H_
