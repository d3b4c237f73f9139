#include "adapters/llama_cpp/reservation.h"

#include <fmt/core.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "base/unique_fd.h"

namespace moetier::ggml {

Result<Reservation> Reservation::Make(size_t size) {
  const size_t bytes = std::max<size_t>(size, 1);
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    return ErrnoError(errno, fmt::format("reserve {} bytes of address space", bytes));
  }
  // A huge page would make the first small write cost 2 MiB.
  madvise(data, bytes, MADV_NOHUGEPAGE);
  return Reservation(static_cast<std::byte*>(data), bytes);
}

Reservation::~Reservation() {
  if (data_ != nullptr) munmap(data_, size_);
}

void Reservation::Clear() { madvise(data_, size_, MADV_DONTNEED); }

}  // namespace moetier::ggml
