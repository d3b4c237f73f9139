#ifndef MOETIER_TESTS_SIM_LEDGER_PORT_H_
#define MOETIER_TESTS_SIM_LEDGER_PORT_H_

#include <array>
#include <memory>

#include "tiers/residency_ledger.h"

namespace moetier {

inline constexpr size_t kSimClasses = 2;
template <typename T>
using PerClass = std::array<T, kSimClasses>;

// The one door between the simulated daemon and its ledgers, one a size class. A canary is a door
// that misbehaves: what comes out of it is what a broken ledger would do, and the ledger itself
// needs no switches for that.
class LedgerPort {
 public:
  explicit LedgerPort(PerClass<std::unique_ptr<ResidencyLedger>> ledgers)
      : ledgers_(std::move(ledgers)) {}
  virtual ~LedgerPort() = default;

  virtual void Step(SizeClass size_class, const LedgerEvent& event, CommandList& out) {
    ledger(size_class).Step(event, out);
  }
  [[nodiscard]] ResidencyLedger& ledger(SizeClass size_class) { return *ledgers_[Raw(size_class)]; }

 private:
  PerClass<std::unique_ptr<ResidencyLedger>> ledgers_;
};

}  // namespace moetier

#endif  // MOETIER_TESTS_SIM_LEDGER_PORT_H_
