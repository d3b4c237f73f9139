#ifndef MOETIER_TESTS_SIM_STEPPED_EXECUTOR_H_
#define MOETIER_TESTS_SIM_STEPPED_EXECUTOR_H_

#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/scheduling/layer_executor.h"

namespace moetier {

// A LayerExecutor that is not started: its loop's turns are taken here, on the one thread that also
// calls its methods, which run at once. Pins and removals are asked for and looked at later.
class SteppedExecutor {
 public:
  using Pins = LayerExecutor::AskedPins;
  using Removal = std::future<std::unique_ptr<LoadedModel>>;

  explicit SteppedExecutor(LayerExecutor& executor) : executor_(executor) {
    executor.stepped_ = true;
  }

  // False when nothing is left to do until a message comes.
  bool Turn() { return executor_.Turn(); }
  [[nodiscard]] bool HasMail() const { return executor_.mailbox_.HasMail(); }

  Pins AskForPins(const std::vector<ExpertKey>& keys) { return executor_.AskForPins(keys); }
  static bool HaveEnded(const Pins& pins);
  Result<uint32_t> Conclude(Pins pins) { return executor_.AwaitPins(std::move(pins)); }
  Result<Removal> AskForRemoval(ModelId model) { return executor_.AskForRemoval(model); }
  // As LayerExecutor::AtDesk: in the next turn, in order with all else that is sent.
  void AtDesk(std::function<void(ResidencyDesk&)> call) {
    executor_.mailbox_.Send(
        LayerExecutor::Control{[this, call = std::move(call)] { call(executor_.desk_); }});
  }
  // Faults of canaries: a lease in RAM is not held any more, one in VRAM is held once more.
  void ForgetLease(SizeClass size_class, const ExpertKey& key) {
    executor_.Step(*executor_.models_.at(key.model), size_class,
                   UnholdKey{.key = key, .tenure = Tenure::kHeld});
  }
  void KeepLease(SizeClass size_class, const ExpertKey& key) {
    executor_.StepVram(*executor_.models_.at(key.model), size_class,
                       HoldKey{.key = key, .tenure = Tenure::kHeld});
  }
  // What a router's thread would send.
  void Guess(LayerGuesses guesses) {
    executor_.mailbox_.Send(LayerExecutor::Guessed{std::move(guesses)});
  }

  // Experts that some session expects.
  [[nodiscard]] uint32_t expected(ModelId model) const {
    return executor_.prefetcher_.expected(model);
  }

  // What the executor has under way though all should be quiet, pins aside; none when it is.
  [[nodiscard]] std::optional<std::string> UnderWay() const;

 private:
  LayerExecutor& executor_;
};

}  // namespace moetier

#endif  // MOETIER_TESTS_SIM_STEPPED_EXECUTOR_H_
