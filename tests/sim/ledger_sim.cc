// Plays ResidencyLedger through many seeds, or shows that broken ledgers are noticed; seed_player.h
// has the options.

#include "tests/sim/ledger_world.h"
#include "tests/sim/seed_player.h"

namespace moetier {
namespace {

class LedgerSeeds final : public SeededWorld {
 public:
  std::optional<std::string> Play(uint64_t seed, std::optional<size_t> canary,
                                  Detail /*detail*/) override {
    LedgerWorld world(seed, canary ? kAllCanaries[*canary] : Canary::kNone);
    std::optional<std::string> breach = world.Run();
    steps_ += world.steps();
    return breach;
  }
  [[nodiscard]] std::vector<std::string_view> CanaryNames() const override {
    std::vector<std::string_view> names;
    for (const Canary canary : kAllCanaries) names.push_back(CanaryName(canary));
    return names;
  }
  [[nodiscard]] uint64_t steps() const override { return steps_; }

 private:
  uint64_t steps_ = 0;
};

}  // namespace
}  // namespace moetier

int main(int argc, char** argv) {
  moetier::LedgerSeeds seeds;
  return moetier::RunSimulator(argc, argv, "Simulator of the residency ledger", seeds);
}
