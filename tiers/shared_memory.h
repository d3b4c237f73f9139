#ifndef MOETIER_TIERS_SHARED_MEMORY_H_
#define MOETIER_TIERS_SHARED_MEMORY_H_

#include <cstddef>
#include <utility>

#include "base/result.h"
#include "base/unique_fd.h"

namespace moetier {

// Memory that this process writes and others may map to read: a memfd, sealed so that nobody,
// whatever descriptor of it he opens, changes its size or writes it but through the one mapping
// that was made before the seals. Another user cannot open it anew at all (mode 0400).
// Threads:  any. Lifetime: the caller unmaps the mapping; the memory lives on while others map it.
class SharedMemory {
 public:
  // Maps `size` bytes of zeros at `at`, whose addresses the caller has reserved, both multiples of
  // 4096. Takes no memory: pages come as they are touched. On an error the addresses may be mapped.
  static Result<SharedMemory> MapAt(std::byte* at, size_t size);

  // A descriptor that can be mapped, read-only. All share one open file, made before anybody else
  // had one, so that no client can stand in the way of the next one's.
  [[nodiscard]] Result<UniqueFd> OpenReadOnly() const;

 private:
  explicit SharedMemory(UniqueFd read_only) : read_only_(std::move(read_only)) {}

  UniqueFd read_only_;
};

// Has large pages stand behind [begin, begin + size) of a SharedMemory, which starts at a multiple
// of 2 MiB: touches one small page in each and collapses them; the errno, 0 if well. What could
// not be had stays as it was, to be populated with small ones.
int CollapseShared(std::byte* begin, size_t size);

}  // namespace moetier

#endif  // MOETIER_TIERS_SHARED_MEMORY_H_
