#ifndef MOETIER_CONFIG_NEAREST_H_
#define MOETIER_CONFIG_NEAREST_H_

#include <span>
#include <string_view>

namespace moetier {

// The candidate that a mistyped `word` most likely meant: the fewest inserted, dropped, changed or
// swapped letters, at most a third of its length; empty when none is near.
std::string_view Nearest(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace moetier

#endif  // MOETIER_CONFIG_NEAREST_H_
