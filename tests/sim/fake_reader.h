#ifndef MOETIER_TESTS_SIM_FAKE_READER_H_
#define MOETIER_TESTS_SIM_FAKE_READER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "tests/sim/ledger_port.h"
#include "tests/support/random.h"

namespace moetier {

// What a slot's memory says of itself: whose bytes they are and whether they are whole.
struct Stamp {
  ExpertKey key;
  bool whole = false;
};

// A drive with its loader: reads take their time, overtake each other and fail in every way. The
// bytes reach the slot when a read completes, or in part before, so that a slot that was given away
// too early shows in its stamp.
class FakeReader {
 public:
  struct Faults {
    uint32_t fail_percent = 0;             // EIO or a bad checksum, for good
    uint32_t retry_percent = 0;            // a short read: part is written, and it is read again
    uint32_t spurious_cancel_percent = 0;  // ended as cancelled by nobody
    uint32_t late_percent = 0;             // of cancelled reads: they complete as if they were not
  };
  struct Read {
    SizeClass size_class{};
    Ticket ticket;
    ExpertKey key;
    Urgency urgency = Urgency::kDemand;
    bool cancelled = false;
  };
  // How a read ended; the memory is as it left it.
  struct Completion {
    Read read;
    LedgerEvent event;
    bool failed = false;
  };

  explicit FakeReader(const PerClass<uint32_t>& slot_counts);

  void Start(const Read& read) { reads_.push_back(read); }
  // Each is false when no such read is in flight; Promote also when it is a demand already.
  bool Promote(SizeClass size_class, const Ticket& ticket);
  bool Cancel(SizeClass size_class, const Ticket& ticket);

  // The slot's memory goes back to the host: its bytes are gone.
  void Forget(SizeClass size_class, SlotIndex slot) {
    memory_[Raw(size_class)][Raw(slot)].whole = false;
  }

  // Lets some read make progress; empty when none is in flight or it needs longer.
  std::optional<Completion> Advance(const Faults& faults, Random& random);

  [[nodiscard]] const std::vector<Read>& in_flight() const { return reads_; }
  [[nodiscard]] const Stamp& Memory(SizeClass size_class, SlotIndex slot) const {
    return memory_[Raw(size_class)][Raw(slot)];
  }

 private:
  Read* Find(SizeClass size_class, const Ticket& ticket);
  LedgerEvent End(const Read& read, const Faults& faults, Random& random);

  PerClass<std::vector<Stamp>> memory_;
  std::vector<Read> reads_;
};

}  // namespace moetier

#endif  // MOETIER_TESTS_SIM_FAKE_READER_H_
