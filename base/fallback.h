#ifndef MOETIER_BASE_FALLBACK_H_
#define MOETIER_BASE_FALLBACK_H_

#include <string>

namespace moetier {

// A part of the host that could not be had as wanted, and what is used instead. Nothing falls back
// silently: whoever builds the object logs each of these at warning, and status and metrics show
// them by name.
struct Fallback {
  std::string name;    // "area:used", stable, a metric label: "io_mode:buffered"
  std::string reason;  // why, with numbers, and what to change
  friend bool operator==(const Fallback&, const Fallback&) = default;
};

}  // namespace moetier

#endif  // MOETIER_BASE_FALLBACK_H_
