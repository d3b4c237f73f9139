#ifndef MOETIER_DAEMON_SCHEDULING_PREFETCHER_H_
#define MOETIER_DAEMON_SCHEDULING_PREFETCHER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "daemon/scheduling/guess_book.h"
#include "daemon/scheduling/guess_thread.h"
#include "daemon/scheduling/layer_call.h"
#include "daemon/scheduling/loaded_model.h"
#include "daemon/scheduling/pick_history.h"

namespace moetier {

struct PrefetchOptions {
  bool enabled = false;
  bool router = true;
  bool hints = true;
  bool history = false;    // of models without routers
  uint32_t depth = 1;      // layers ahead, 1..GuessThread::kMostTargets
  uint32_t guesses = 0;    // experts a layer and row; 0: as many as the model's file picks
  uint32_t in_flight = 8;  // reads at one time, over all models
};

// Decides which experts to read ahead: asks the sources when a call begins, and keeps the book of
// what they said. Starts no read itself: the executor takes what is wanted when the drive is idle.
// Threads: the executor's only; `deliver` is called on the guesses' thread, and what it is given
//          comes back by Take.
class Prefetcher {
 public:
  Prefetcher(const PrefetchOptions& options, std::function<bool(const ExpertKey&)> is_resident,
             std::function<void(LayerGuesses)> deliver);

  // Before the call's waves are asked for. Appends to `dropped` what nobody expects any more, and
  // to `came` what was expected of this call alone, which CallEnds is to be told. A call of many
  // rows is no guide to the next, and makes no guesses.
  void CallBegins(const LoadedModel& model, const LayerCall& call, std::vector<ExpertKey>& dropped,
                  std::vector<ExpertKey>& came);
  // However the call ended: not every expert that came is named by a wave (VRAM has it, a row is
  // answered without it, the call fails before it).
  void CallEnds(std::span<const ExpertKey> came, std::vector<ExpertKey>& dropped) const {
    book_.End(came, dropped);
  }
  // The router's answer; `model` is theirs.
  void Take(const LoadedModel& model, const LayerGuesses& guesses);
  // Experts that a session expects, those of one layer together, the most likely first. Gives how
  // many were taken: they are resident, on their way or wanted.
  uint32_t Hint(const LoadedModel& model, SessionId session, std::span<const ExpertKey> experts);

  [[nodiscard]] bool HasWanted() const { return book_.HasWanted(); }
  std::optional<ExpertKey> TakeWanted() { return book_.TakeWanted(); }
  std::optional<ExpertKey> TakeFound() { return book_.TakeFound(); }
  // Experts of the model that some session expects.
  [[nodiscard]] uint32_t expected(ModelId model) const { return book_.expected(model); }

  void EndSession(SessionId session, std::vector<ExpertKey>& dropped);
  void ForgetModel(ModelId model);

  [[nodiscard]] const PrefetchOptions& options() const { return options_; }
  [[nodiscard]] const SourceCounts& counts(GuessSource source) const {
    return book_.counts(source);
  }

 private:
  // The last call of one row of a session: what its next layer's picks followed.
  struct LastCall {
    ModelId model{};
    LayerIndex layer{};
    std::vector<uint16_t> experts;
  };

  void AskRouter(const LoadedModel& model, const LayerCall& call, uint64_t stamp);
  void AskHistory(const LoadedModel& model, const LayerCall& call, uint64_t stamp);
  uint32_t TakeHints(const LoadedModel& model, SessionId session, uint64_t stamp,
                     std::span<const ExpertKey> hints);
  PickHistory* HistoryOf(const LoadedModel& model);
  [[nodiscard]] uint32_t Room(const LoadedModel& model) const;
  [[nodiscard]] uint32_t GuessesFor(const LoadedModel& model) const;

  const PrefetchOptions options_;
  GuessBook book_;
  std::unique_ptr<GuessThread> thread_;  // none: the router is no source
  std::map<ModelId, std::unique_ptr<PickHistory>> histories_;
  std::map<SessionId, LastCall> last_calls_;
  std::vector<ExpertIndex> followers_;
  std::vector<ExpertKey> keys_;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_PREFETCHER_H_
