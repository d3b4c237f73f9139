#ifndef MOETIER_TIERS_NVME_RECORD_READER_H_
#define MOETIER_TIERS_NVME_RECORD_READER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/fallback.h"
#include "base/ids.h"
#include "base/result.h"

namespace moetier {

enum class FileId : uint32_t {};

// One aligned piece of a read. offset, length and address are multiples of kRecordAlignment, but
// the last piece of a file may reach past its end: `needed` is how many bytes must arrive, and
// bytes after the block that holds the last of them are not read.
struct ReadSegment {
  FileId file{};
  uint64_t offset = 0;
  std::span<std::byte> destination{};
  uint64_t needed = 0;
};

inline constexpr size_t kMaxReadSegments = 6;  // an expert in place: three matrices, three biases

// All segments of one record. The destination belongs to the reader from Submit to completion,
// cancelled or not.
struct ReadRequest {
  uint64_t id = 0;  // the caller's; unique among its unfinished ones
  Urgency urgency = Urgency::kDemand;
  std::array<ReadSegment, kMaxReadSegments> segments{};
  uint32_t segment_count = 0;
};

enum class IoOutcome : uint8_t { kOk, kError, kShort, kCancelled };

struct ReadCompletion {
  uint64_t id = 0;
  IoOutcome outcome = IoOutcome::kOk;
  int error_number = 0;     // errno when kError
  uint32_t segment = 0;     // the first segment that failed
  uint64_t bytes_read = 0;  // of that segment when kShort; of all when kOk
};

// Called on the reader's own thread, one at a time; must not block for long.
class ReadListener {
 public:
  virtual ~ReadListener() = default;
  virtual void OnRead(const ReadCompletion& completion) = 0;
};

struct ReaderStats {
  uint64_t reads = 0;  // requests completed with kOk
  uint64_t bytes = 0;
  uint64_t errors = 0;  // kError and kShort
  uint64_t cancelled = 0;
  uint32_t in_flight = 0;
  uint32_t queued = 0;
  double read_latency_us_p50 = 0;  // submit to completion, over the last reads
  double read_latency_us_p99 = 0;
};

// Reads records from files. Demand passes prefetch; a request completes exactly once.
// Threads:  Submit, Promote, Cancel, stats and fallbacks from any thread, the listener's included;
// AddFile
//           and RemoveFile from any thread but the listener's.
// Lifetime: the destructor cancels what is unfinished and returns after the last completion.
class RecordReader {
 public:
  virtual ~RecordReader() = default;

  // Opens `path` read-only in the reader's mode. The error names the path.
  virtual Result<FileId> AddFile(const std::string& path) = 0;
  // The same of a file that somebody opened for us; `fd` is not kept, and its offset and flags stay
  // as they are. Messages call the file `name`.
  virtual Result<FileId> AddOpenFile(int fd, const std::string& name) = 0;
  virtual void RemoveFile(FileId file) = 0;  // no request on it may be unfinished

  // kExhausted when the queue is full (size in the options); the caller's slots bound it.
  virtual Status Submit(const ReadRequest& request) = 0;
  // What is not started yet of a prefetch goes on as a demand read, behind those that wait already.
  virtual void Promote(uint64_t id) = 0;
  // Asks for an early end; the completion still comes, kOk or kCancelled.
  virtual void Cancel(uint64_t id) = 0;

  [[nodiscard]] virtual ReaderStats stats() const = 0;
  // "io_uring, direct" / "preadv, buffered (direct refused by ...: Invalid argument)".
  [[nodiscard]] virtual std::string description() const = 0;
  // What could not be had as wanted, files added so far included; each name once.
  [[nodiscard]] virtual std::vector<Fallback> fallbacks() const = 0;
};

}  // namespace moetier

#endif  // MOETIER_TIERS_NVME_RECORD_READER_H_
