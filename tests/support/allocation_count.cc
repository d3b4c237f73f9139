#include "tests/support/allocation_count.h"

#include <cstdlib>
#include <new>

namespace {
size_t allocations = 0;
}  // namespace

void* operator new(size_t size) {
  ++allocations;
  if (void* const block = std::malloc(size)) return block;
  throw std::bad_alloc();
}
// Catch asks for memory this way too; a sanitizer's own form would not match our delete.
void* operator new(size_t size, const std::nothrow_t& /*tag*/) noexcept {
  ++allocations;
  return std::malloc(size);
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, size_t /*size*/) noexcept { std::free(block); }

namespace moetier {

size_t AllocationCount() { return allocations; }

}  // namespace moetier
