#ifndef MOETIER_TIERS_EXPERT_LOADER_H_
#define MOETIER_TIERS_EXPERT_LOADER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "base/mutex.h"
#include "base/result.h"
#include "tiers/nvme/record_reader.h"
#include "tiers/residency_ledger.h"
#include "tiers/store/expert_store.h"

namespace moetier {

// One expert on its way from a store into a slot. Everything pointed to outlives the LoadDone.
struct LoadRequest {
  ExpertKey key;
  Ticket ticket;
  Urgency urgency = Urgency::kDemand;
  Verify verify = Verify::kYes;
  const ExpertStore* store = nullptr;
  std::span<const FileId> files;  // the reader's ids of store->files()
  std::span<std::byte> slot;      // the whole slot; the loader's until LoadDone
};

struct LoadDone {
  enum class Outcome : uint8_t { kLanded, kFailed, kCancelled };
  ExpertKey key;
  Ticket ticket;
  Outcome outcome = Outcome::kLanded;
  Error error;  // kFailed: kDataLoss with file and offset
};

// Called on the reader's thread, exactly once a load; must not block.
class LoadListener {
 public:
  virtual ~LoadListener() = default;
  virtual void OnLoad(LoadDone done) = 0;
};

// Turns loads into reads: aligned segments, staging where a record is laid out on landing,
// checksum, one retry. Demand passes prefetch here too.
// Threads: Start, Promote and Cancel from one thread; OnRead from the reader's.
class ExpertLoader final : public ReadListener {
 public:
  // Records that land by way of staging (in-place stores) at one time; each holds a buffer of the
  // largest raw record. Eight keep a homelab NVMe drive busy at record sizes above 1 MiB.
  static constexpr uint32_t kStagingBuffers = 8;
  // Of these, what prefetches may hold, so that a demand read finds one.
  static constexpr uint32_t kPrefetchStagingBuffers = 2;

  explicit ExpertLoader(LoadListener& listener) : listener_(listener) {}
  ~ExpertLoader() override;

  // Before the first Start. The reader is destroyed before the loader.
  void set_reader(RecordReader* reader) { reader_ = reader; }

  void Start(const LoadRequest& request) EXCLUDES(mu_);
  // The load, if it is a prefetch that has not ended, goes on as a demand.
  void Promote(const ExpertKey& key, const Ticket& ticket) EXCLUDES(mu_);
  // The load still ends with its LoadDone, landed or cancelled.
  void Cancel(const ExpertKey& key, const Ticket& ticket) EXCLUDES(mu_);

  void OnRead(const ReadCompletion& completion) override EXCLUDES(mu_);

 private:
  struct AlignedDelete {
    void operator()(std::byte* block) const;
  };
  struct StagingBuffer {
    std::unique_ptr<std::byte, AlignedDelete> block;
    uint64_t bytes = 0;
  };
  struct Load {
    LoadRequest request;
    ExtentList extents;
    StagingBuffer staging;          // empty when the record lands directly
    bool prefetch_staging = false;  // it was taken by a prefetch
    uint32_t attempts = 0;
    bool cancelled = false;
  };

  // Builds and submits the read of `id`; an error ends the load.
  void Submit(uint64_t id) EXCLUDES(mu_);
  [[nodiscard]] bool WasPromoted(uint64_t id) EXCLUDES(mu_);
  void Retry(uint64_t id, Error error) EXCLUDES(mu_);
  void Finish(uint64_t id, LoadDone::Outcome outcome, Error error) EXCLUDES(mu_);
  Status Land(Load& load);
  bool TakeStaging(Load& load) REQUIRES(mu_);
  void ReturnStaging(Load& load) REQUIRES(mu_);
  // The load of the ticket; 0 when it has ended.
  [[nodiscard]] uint64_t IdOf(const ExpertKey& key, const Ticket& ticket) const REQUIRES(mu_);
  // Takes `id` from those that wait for a staging buffer; false when it does not wait.
  bool RemoveWaiting(uint64_t id) REQUIRES(mu_);
  // The next load that waited for a staging buffer and has one now; 0 when there is none.
  uint64_t NextStaged() REQUIRES(mu_);
  [[nodiscard]] std::deque<uint64_t>& WaitingOf(Urgency urgency) REQUIRES(mu_) {
    return urgency == Urgency::kDemand ? waiting_demand_ : waiting_prefetch_;
  }
  Error ReadFailure(const Load& load, const ReadCompletion& completion) const;

  LoadListener& listener_;
  RecordReader* reader_ = nullptr;  // set once, before use
  Mutex mu_;
  uint64_t next_id_ GUARDED_BY(mu_) = 1;
  std::unordered_map<uint64_t, Load> loads_ GUARDED_BY(mu_);
  std::deque<uint64_t> waiting_demand_ GUARDED_BY(mu_);  // for a staging buffer
  std::deque<uint64_t> waiting_prefetch_ GUARDED_BY(mu_);
  std::vector<StagingBuffer> free_staging_ GUARDED_BY(mu_);
  uint32_t staging_taken_ GUARDED_BY(mu_) = 0;
  uint32_t prefetch_staging_taken_ GUARDED_BY(mu_) = 0;
};

}  // namespace moetier

#endif  // MOETIER_TIERS_EXPERT_LOADER_H_
