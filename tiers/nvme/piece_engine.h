#ifndef MOETIER_TIERS_NVME_PIECE_ENGINE_H_
#define MOETIER_TIERS_NVME_PIECE_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tiers/nvme/record_reader.h"

namespace moetier {

// One contiguous read, given to the kernel as a whole. Everything is a multiple of
// kRecordAlignment.
struct Piece {
  FileId file{};
  uint64_t offset = 0;
  std::byte* address = nullptr;
  uint32_t length = 0;
};

struct PieceResult {
  uint32_t index = 0;
  int result = 0;  // bytes read, 0 at the end of the file, or -errno
};

inline constexpr uint32_t kMaxReadFiles = 512;  // open at one time

enum class CacheUse : uint8_t { kBypassed, kDropAfterRead };

// Carries pieces out. Knows nothing of requests: ThreadedReader splits, orders and joins them.
// Threads: all calls from one thread, the owner, but Wake, which is for any.
class PieceEngine {
 public:
  virtual ~PieceEngine() = default;

  // The descriptor stays open until RemoveFile.
  virtual Status AddFile(FileId file, int fd, CacheUse cache) = 0;
  virtual void RemoveFile(FileId file) = 0;

  // At most depth() pieces are unfinished; `index` is below it and free.
  virtual void Start(uint32_t index, const Piece& piece) = 0;
  // Asks for an early end; the result still comes, -ECANCELED or not.
  virtual void Cancel(uint32_t index) = 0;
  // Hands to the kernel what was started, where Start did not.
  virtual void Flush() = 0;
  // Flushes, blocks until there is a result or a Wake, and appends the results.
  virtual void Wait(std::vector<PieceResult>& results) = 0;
  virtual void Wake() = 0;

  [[nodiscard]] virtual uint32_t depth() const = 0;
  [[nodiscard]] virtual std::string_view name() const = 0;
};

}  // namespace moetier

#endif  // MOETIER_TIERS_NVME_PIECE_ENGINE_H_
