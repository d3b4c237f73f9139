#ifndef MOETIER_TESTS_SUPPORT_ALLOCATION_COUNT_H_
#define MOETIER_TESTS_SUPPORT_ALLOCATION_COUNT_H_

#include <cstddef>

namespace moetier {

// Allocations of this program so far. A program that calls it gets its own operator new, which
// counts: such tests stand apart. Threads: one.
size_t AllocationCount();

}  // namespace moetier

#endif  // MOETIER_TESTS_SUPPORT_ALLOCATION_COUNT_H_
