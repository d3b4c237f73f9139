#ifndef MOETIER_BASE_ONE_LINE_H_
#define MOETIER_BASE_ONE_LINE_H_

#include <string>
#include <string_view>

namespace moetier {

// `text` as one line of a log or a terminal may show it, whoever wrote it: controls (newlines and
// ESC among them), marks that turn the direction of writing and bytes that are not UTF-8 become
// \n, \t or \xNN.
std::string OneLine(std::string_view text);

}  // namespace moetier

#endif  // MOETIER_BASE_ONE_LINE_H_
