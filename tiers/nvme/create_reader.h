#ifndef MOETIER_TIERS_NVME_CREATE_READER_H_
#define MOETIER_TIERS_NVME_CREATE_READER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "tiers/nvme/record_reader.h"

namespace moetier {

// Who carries the reads: one ring, or a pool of threads that block in preadv(2).
enum class IoEngine : uint8_t { kAuto, kIoUring, kPreadv };

// Whether reads pass the page cache. Buffered reads are dropped from it again once they landed.
enum class IoMode : uint8_t { kAuto, kDirect, kBuffered };

// Lets a test refuse what the host would grant. Each returns the errno to pretend, 0 for none.
struct ReaderSeams {
  std::function<int()> ring_error{};
  std::function<int(const std::string& path)> direct_error{};
};

struct ReaderOptions {
  uint32_t queue_depth = 64;   // pieces in flight, 1..1024
  uint32_t max_queued = 4096;  // unfinished requests, 1..65536
  Bytes piece_size = 512_KiB;  // reads are split into pieces of it; a multiple of 4096
  // Of the depth, what prefetches may fill, so that a demand read finds room; at least one piece.
  uint32_t prefetch_percent = 25;
  uint32_t preadv_threads = 16;  // of the fallback engine, 1..64
  IoEngine engine = IoEngine::kAuto;
  IoMode mode = IoMode::kAuto;
  ReaderSeams seams{};
};

// Starts the thread `nvme-reader`. kAuto falls back, ring to preadv here and direct to buffered at
// AddFile, each after one real read that was refused; fallbacks() names it. A fixed engine or mode
// is an error instead. The listener outlives the reader.
Result<std::unique_ptr<RecordReader>> CreateRecordReader(const ReaderOptions& options,
                                                         ReadListener& listener);

}  // namespace moetier

#endif  // MOETIER_TIERS_NVME_CREATE_READER_H_
