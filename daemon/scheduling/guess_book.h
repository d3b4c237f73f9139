#ifndef MOETIER_DAEMON_SCHEDULING_GUESS_BOOK_H_
#define MOETIER_DAEMON_SCHEDULING_GUESS_BOOK_H_

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "daemon/scheduling/layer_call.h"
#include "daemon/scheduling/prefetch_counts.h"

namespace moetier {

// Which experts are expected by whom: guesses of a session for its next call of a layer, until that
// call begins and shows which were right. Says what to read ahead, what nobody expects any more,
// and how good each source is.
// Threads: the executor's only. Pure but for `is_resident`.
class GuessBook {
 public:
  // Guesses of one session for one layer at one time; more are not taken.
  static constexpr uint32_t kMostGuesses = 64;
  // So many calls later, over all sessions, a guess whose layer was not called is given up.
  static constexpr uint64_t kLongestWait = 4096;

  explicit GuessBook(std::function<bool(const ExpertKey&)> is_resident)
      : is_resident_(std::move(is_resident)) {}

  // The session's call of the layer begins and picks `experts` (repeats allowed). Appends to
  // `dropped` what it guessed wrong and nobody else expects, and to `came` what it guessed right
  // and nobody else expects: the call takes these, and End says what becomes of them. Returns the
  // stamp of this call.
  uint64_t Begin(SessionId session, ModelId model, LayerIndex layer,
                 std::span<const uint16_t> experts, std::vector<ExpertKey>& dropped,
                 std::vector<ExpertKey>& came);
  // The call that took `came` is over, or never got to them. Appends to `dropped` those that nobody
  // has come to expect meanwhile.
  void End(std::span<const ExpertKey> came, std::vector<ExpertKey>& dropped) const;

  // Guesses for one layer, made of what was known at `stamp`: those not there yet are wanted from
  // now on. Gives how many of them the session expects now: none when its call of the layer has
  // begun since, and no more than `room` that nobody has expected before.
  uint32_t Add(GuessSource source, SessionId session, uint64_t stamp,
               std::span<const ExpertKey> keys, uint32_t room);
  [[nodiscard]] uint64_t last_stamp() const { return last_stamp_; }
  // Whether the session has called or been hinted for, and has not ended.
  [[nodiscard]] bool Knows(SessionId session) const;

  // The expert to read next: expected, wanted and not given out before.
  std::optional<ExpertKey> TakeWanted();
  // Keys that are expected and there already: to be told to their ledger once.
  std::optional<ExpertKey> TakeFound();
  [[nodiscard]] bool HasWanted() const { return !wanted_.empty(); }
  [[nodiscard]] uint32_t expected(ModelId model) const;

  void EndSession(SessionId session, std::vector<ExpertKey>& dropped);
  void ForgetModel(ModelId model);

  [[nodiscard]] const SourceCounts& counts(GuessSource source) const {
    return counts_[static_cast<size_t>(source)];
  }

 private:
  struct Guess {
    ExpertKey key;
    uint8_t sources = 0;  // a bit each
    bool was_there = false;
  };
  struct Expectation {
    uint64_t begun = 0;    // stamp of the layer's last call
    uint64_t guessed = 0;  // last stamp when guesses came
    std::vector<Guess> guesses;
  };
  struct Place {
    SessionId session{};
    ModelId model{};
    LayerIndex layer{};
    friend auto operator<=>(const Place&, const Place&) = default;
  };

  void Judge(const Expectation& expectation, std::span<const uint16_t> experts);
  void GiveUpOld(std::vector<ExpertKey>& dropped);
  void Forget(Expectation& expectation, std::vector<ExpertKey>& dropped);
  static Guess* Find(Expectation& expectation, const ExpertKey& key);

  std::function<bool(const ExpertKey&)> is_resident_;
  uint64_t last_stamp_ = 0;
  std::map<Place, Expectation> expectations_;
  std::map<ExpertKey, uint32_t> expected_by_;  // how many expectations name it
  std::deque<ExpertKey> wanted_;
  std::vector<ExpertKey> found_;
  std::vector<uint16_t> picks_;  // of the call that begins, distinct and sorted
  std::array<SourceCounts, kGuessSources> counts_{};
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_GUESS_BOOK_H_
