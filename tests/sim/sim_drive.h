#ifndef MOETIER_TESTS_SIM_SIM_DRIVE_H_
#define MOETIER_TESTS_SIM_SIM_DRIVE_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/executor_canaries.h"
#include "tests/sim/sim_model.h"
#include "tests/sim/sim_trace.h"
#include "tests/support/random.h"
#include "tiers/nvme/record_reader.h"

namespace moetier {

// A RecordReader over the model's records in memory whose reads end in any order, well or not, when
// the simulation says so. Destinations hold garbage from Submit on.
// Threads: one.
class SimDrive final : public RecordReader {
 public:
  // Percent of reads.
  struct Faults {
    uint32_t error = 0;
    uint32_t short_read = 0;
    uint32_t corrupt = 0;   // only where landings are checked
    uint32_t spurious = 0;  // ended as cancelled by nobody
    uint32_t late = 0;      // of cancelled ones: they end as if they were not
    uint32_t refused = 0;   // the queue is full
  };

  SimDrive(const SimModel& model, ReadListener& listener, ExecutorCanary canary, SimTrace& trace)
      : model_(model), listener_(listener), canary_(canary), trace_(trace) {}
  ~SimDrive() override;  // ends what is left as cancelled

  // From now on; refusals are drawn from `random`, which lives as long as they may come.
  void Use(const Faults& faults, Random& random) {
    faults_ = faults;
    random_ = &random;
  }
  // Ends one read; false when there is none.
  bool Advance(Random& random);
  // An expert whose read was spoilt once at least.
  [[nodiscard]] bool Spoilt(const ExpertKey& key) const { return spoilt_.contains(key); }

  Result<FileId> AddFile(const std::string& /*path*/) override { return FileId{0}; }
  Result<FileId> AddOpenFile(int /*fd*/, const std::string& /*name*/) override { return FileId{0}; }
  void RemoveFile(FileId /*file*/) override {}
  Status Submit(const ReadRequest& request) override;
  void Promote(uint64_t id) override;
  void Cancel(uint64_t id) override;
  [[nodiscard]] ReaderStats stats() const override { return {}; }
  [[nodiscard]] std::string description() const override { return "sim"; }
  [[nodiscard]] std::vector<Fallback> fallbacks() const override { return {}; }

 private:
  struct Read {
    ReadRequest request;
    ExpertKey key;
    bool cancelled = false;
  };
  // Bytes that a canary writes when they are nobody's business any more.
  struct LateBytes {
    Read read;
    uint32_t after = 0;
  };

  [[nodiscard]] std::span<const std::byte> BytesOf(const Read& read) const;
  void Write(const Read& read, size_t bytes) const;
  ReadCompletion End(const Read& read, Random& random);
  ReadCompletion EndWell(const Read& read, Random& random);
  void WriteLateBytes();

  const SimModel& model_;
  ReadListener& listener_;
  const ExecutorCanary canary_;
  SimTrace& trace_;
  Faults faults_;
  Random* random_ = nullptr;
  std::vector<Read> reads_;
  std::vector<LateBytes> late_;
  std::set<ExpertKey> spoilt_;
};

}  // namespace moetier

#endif  // MOETIER_TESTS_SIM_SIM_DRIVE_H_
