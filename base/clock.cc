#include "base/clock.h"

namespace moetier {

TimePoint SteadyClock::Now() const { return std::chrono::steady_clock::now(); }

}  // namespace moetier
