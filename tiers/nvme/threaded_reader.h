#ifndef MOETIER_TIERS_NVME_THREADED_READER_H_
#define MOETIER_TIERS_NVME_THREADED_READER_H_

#include <array>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/fallback.h"
#include "base/mutex.h"
#include "base/result.h"
#include "tiers/nvme/piece_engine.h"
#include "tiers/nvme/read_queue.h"
#include "tiers/nvme/reader_file.h"
#include "tiers/nvme/record_reader.h"

namespace moetier {

// A RecordReader over any PieceEngine. Callers leave requests in an inbox; the thread
// `nvme-reader` owns the engine and the queue, and calls the listener.
class ThreadedReader final : public RecordReader {
 public:
  struct Options {
    uint32_t max_queued = 0;
    Bytes piece_size;
    uint32_t prefetch_percent = 0;
    IoMode mode = IoMode::kAuto;
    std::function<int(const std::string&)> direct_error;
  };
  // The engine, and why it is not the one that was wanted first.
  struct ChosenEngine {
    std::unique_ptr<PieceEngine> engine;
    std::vector<Fallback> fallbacks;
  };
  // Called once, on the reader's thread: a ring belongs to the thread that made it.
  using EngineFactory = std::function<Result<ChosenEngine>()>;

  static Result<std::unique_ptr<RecordReader>> Create(const Options& options,
                                                      const EngineFactory& make_engine,
                                                      ReadListener& listener);
  ~ThreadedReader() override;

  Result<FileId> AddFile(const std::string& path) override;
  Result<FileId> AddOpenFile(int fd, const std::string& name) override;
  void RemoveFile(FileId file) override;
  Status Submit(const ReadRequest& request) override;
  void Promote(uint64_t id) override;
  void Cancel(uint64_t id) override;
  [[nodiscard]] ReaderStats stats() const override;
  [[nodiscard]] std::string description() const override;
  [[nodiscard]] std::vector<Fallback> fallbacks() const override;

 private:
  // Latencies of the last reads; their percentiles are worked out when asked for.
  static constexpr size_t kLatencySamples = 1024;

  enum class SlotState : uint8_t { kFree, kUnfinished, kCancelAsked };
  struct Slot {
    ReadRequest request;
    TimePoint submitted;
  };
  // What callers left since the thread last looked. The lists are reserved for max_queued.
  struct Inbox {
    explicit Inbox(size_t capacity);
    std::vector<uint32_t> added;      // slots
    std::vector<uint32_t> promoted;   // slots, each at most once a request
    std::vector<uint32_t> cancelled;  // likewise
    std::function<void()> errand;
    bool stop = false;
    [[nodiscard]] bool empty() const;
    void clear();
  };

  ThreadedReader(const Options& options, ReadListener& listener);

  // On the reader's thread.
  void Run(const EngineFactory& make_engine, std::promise<Status>& started);
  Status Start(const EngineFactory& make_engine);
  void Loop();
  void TakeInbox(Inbox& taken);
  void Apply(const Inbox& taken);
  void CancelSlot(uint32_t slot);
  void StartPieces();
  bool DeliverFinished();
  void ReleaseSlot(const ReadQueue::Finished& finished);
  bool MaySleep();
  [[nodiscard]] std::optional<uint32_t> SlotOf(uint64_t id) const REQUIRES(mu_);

  // Has `errand` run on the reader's thread and returns when it is done.
  void RunErrand(std::function<void()> errand) EXCLUDES(mu_);
  // Whether the thread has to be woken after the inbox has changed.
  bool TakeSleeping() REQUIRES(mu_);
  Result<FileId> Register(ReaderFile file, const std::string& name) EXCLUDES(mu_);
  Status CheckRequest(const ReadRequest& request) const REQUIRES(mu_);
  void AddFallback(const Fallback& fallback) REQUIRES(mu_);

  const Options options_;
  ReadListener& listener_;

  // The reader's thread's own; the engine's pointer is const once Create has returned.
  std::unique_ptr<PieceEngine> engine_;
  std::unique_ptr<ReadQueue> queue_;
  std::vector<PieceResult> results_;
  std::vector<uint32_t> pieces_to_cancel_;

  mutable Mutex mu_;
  // Written under mu_ while free, read by the thread after it took the slot from the inbox.
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_slots_ GUARDED_BY(mu_);
  std::vector<SlotState> slot_states_ GUARDED_BY(mu_);
  std::vector<uint64_t> ids_ GUARDED_BY(mu_);  // by slot, apart from it so that Cancel finds fast
  std::vector<bool> promotable_ GUARDED_BY(mu_);  // by slot: a prefetch that was not promoted yet
  Inbox inbox_ GUARDED_BY(mu_);
  bool sleeping_ GUARDED_BY(mu_) = false;  // the thread waits in the engine, or is about to
  ReaderStats stats_ GUARDED_BY(mu_);
  std::vector<float> latencies_us_ GUARDED_BY(mu_);  // a ring of the last kLatencySamples
  size_t next_latency_ GUARDED_BY(mu_) = 0;
  std::vector<Fallback> fallbacks_ GUARDED_BY(mu_);
  std::array<ReaderFile, kMaxReadFiles> files_ GUARDED_BY(mu_);

  Mutex errand_mu_;      // one errand at a time
  std::jthread thread_;  // last: joined before what it uses goes
};

}  // namespace moetier

#endif  // MOETIER_TIERS_NVME_THREADED_READER_H_
