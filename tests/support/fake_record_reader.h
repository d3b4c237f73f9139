#ifndef MOETIER_TESTS_SUPPORT_FAKE_RECORD_READER_H_
#define MOETIER_TESTS_SUPPORT_FAKE_RECORD_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/unique_fd.h"
#include "tiers/nvme/record_reader.h"

namespace moetier {

// A RecordReader whose completions a test orders. Reads from files or from memory, in the same
// terms as the real one: demand passes prefetch, a request completes exactly once, a cancelled one
// stays unfinished until the test (or the thread) completes it.
// Threads: all calls from any thread; the listener is called by whoever completes.
class FakeRecordReader final : public RecordReader {
 public:
  enum class Delivery : uint8_t {
    kManual,  // nothing completes before Complete, CompleteNext or CompleteAll
    kThread,  // an own thread completes what is not held, in order
  };
  struct Options {
    Delivery delivery = Delivery::kManual;
    uint32_t max_queued = 4096;
  };
  // What befalls reads that cover byte `offset` of `file`, `times` times.
  struct Fault {
    enum class Kind : uint8_t { kError, kShort, kCorrupt } kind = Kind::kError;
    FileId file{};
    uint64_t offset = 0;
    int error_number = 0;  // when kError
    uint32_t times = UINT32_MAX;
  };

  FakeRecordReader(const Options& options, ReadListener& listener);
  ~FakeRecordReader() override;  // completes the rest as kCancelled

  // A file in memory; its end is the end of the bytes.
  FileId AddMemoryFile(std::vector<std::byte> bytes);
  void Inject(const Fault& fault);
  void ClearFaults();

  // Delays: a held request does not complete until Release, whatever the delivery. Hold counts
  // requests submitted from now on.
  void HoldNew(bool hold);
  void Release();

  // Completes one unfinished request; false when there is none such. A cancelled one ends as
  // kCancelled, or well when the cancel is told to come too late.
  enum class CancelRace : uint8_t { kCancelWins, kReadWins };
  bool Complete(uint64_t id, CancelRace race = CancelRace::kCancelWins);
  bool CompleteNext();     // the oldest demand that is not held, else the oldest prefetch
  uint32_t CompleteAll();  // until none is left, those submitted meanwhile included
  // A thread that does so again and again, until it is told to stop.
  [[nodiscard]] std::jthread KeepCompleting();

  // Unfinished requests, oldest first.
  [[nodiscard]] std::vector<ReadRequest> pending() const;
  [[nodiscard]] bool cancel_asked(uint64_t id) const;

  Result<FileId> AddFile(const std::string& path) override;
  Result<FileId> AddOpenFile(int fd, const std::string& name) override;
  void RemoveFile(FileId file) override;
  Status Submit(const ReadRequest& request) override;
  void Promote(uint64_t id) override;
  void Cancel(uint64_t id) override;
  [[nodiscard]] ReaderStats stats() const override;
  [[nodiscard]] std::string description() const override { return "fake"; }
  [[nodiscard]] std::vector<Fallback> fallbacks() const override { return {}; }

 private:
  struct File {
    bool open = false;
    UniqueFd fd;  // none: bytes
    std::vector<std::byte> bytes;
  };
  struct Pending {
    ReadRequest request;
    bool held = false;
    bool cancelled = false;
  };

  void RunThread();
  std::optional<Pending> TakeNext() REQUIRES(mu_);
  void Deliver(const Pending& pending);
  ReadCompletion Perform(const Pending& pending) REQUIRES(mu_);
  // Bytes read, or -errno.
  int64_t ReadSegmentBytes(const ReadSegment& segment) REQUIRES(mu_);
  Fault* FindFault(const ReadSegment& segment, Fault::Kind kind) REQUIRES(mu_);
  FileId Keep(File file) REQUIRES(mu_);

  const Options options_;
  ReadListener& listener_;
  mutable Mutex mu_;
  ConditionVariable changed_;
  std::vector<File> files_ GUARDED_BY(mu_);
  std::vector<Pending> pending_ GUARDED_BY(mu_);
  std::vector<Fault> faults_ GUARDED_BY(mu_);
  ReaderStats stats_ GUARDED_BY(mu_);
  bool hold_new_ GUARDED_BY(mu_) = false;
  bool stopping_ GUARDED_BY(mu_) = false;
  std::jthread thread_;
};

}  // namespace moetier

#endif  // MOETIER_TESTS_SUPPORT_FAKE_RECORD_READER_H_
