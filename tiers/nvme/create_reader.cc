#include "tiers/nvme/create_reader.h"

#include <fmt/core.h>

#include <utility>

#include "tiers/nvme/preadv_engine.h"
#include "tiers/nvme/threaded_reader.h"
#include "tiers/nvme/uring_engine.h"
#include "tiers/store/model_geometry.h"

namespace moetier {
namespace {

constexpr uint32_t kMaxQueueDepth = 1024;
constexpr uint32_t kMaxQueuedRequests = 65536;
constexpr uint32_t kMaxPreadvThreads = 64;
constexpr Bytes kMaxPieceSize = 16_MiB;

Status CheckRange(std::string_view name, uint64_t value, uint64_t least, uint64_t most) {
  if (value >= least && value <= most) return Ok{};
  return Error{ErrorCode::kInvalidArgument, Reason::kBadConfig,
               fmt::format("reader: {} is {}, allowed are {} to {}", name, value, least, most)};
}

Status CheckOptions(const ReaderOptions& options) {
  RETURN_IF_ERROR(CheckRange("queue depth", options.queue_depth, 1, kMaxQueueDepth));
  RETURN_IF_ERROR(CheckRange("queue size", options.max_queued, 1, kMaxQueuedRequests));
  RETURN_IF_ERROR(CheckRange("preadv threads", options.preadv_threads, 1, kMaxPreadvThreads));
  RETURN_IF_ERROR(CheckRange("prefetch percent", options.prefetch_percent, 0, 100));
  RETURN_IF_ERROR(CheckRange("piece size", options.piece_size.count(), kRecordAlignment,
                             kMaxPieceSize.count()));
  if (options.piece_size.count() % kRecordAlignment == 0) return Ok{};
  return Error{ErrorCode::kInvalidArgument, Reason::kBadConfig,
               fmt::format("reader: piece size {} is not a multiple of {}",
                           options.piece_size.count(), kRecordAlignment)};
}

Result<ThreadedReader::ChosenEngine> ChooseEngine(const ReaderOptions& options) {
  ThreadedReader::ChosenEngine chosen;
  if (options.engine != IoEngine::kPreadv) {
    auto ring = CreateUringEngine(options.queue_depth, options.seams.ring_error);
    if (ring.has_value()) {
      chosen.engine = std::move(ring).value();
      return chosen;
    }
    if (options.engine == IoEngine::kIoUring) return std::move(ring).error();
    chosen.fallbacks.push_back(
        {"io_engine:preadv",
         fmt::format("{}; until then reads use a pool of {} threads, which is slower",
                     ring.error().message, options.preadv_threads)});
  }
  chosen.engine = std::make_unique<PreadvEngine>(options.preadv_threads);
  return chosen;
}

}  // namespace

Result<std::unique_ptr<RecordReader>> CreateRecordReader(const ReaderOptions& options,
                                                         ReadListener& listener) {
  RETURN_IF_ERROR(CheckOptions(options));
  return ThreadedReader::Create(
      {.max_queued = options.max_queued,
       .piece_size = options.piece_size,
       .prefetch_percent = options.prefetch_percent,
       .mode = options.mode,
       .direct_error = options.seams.direct_error},
      [&] { return ChooseEngine(options); }, listener);
}

}  // namespace moetier
