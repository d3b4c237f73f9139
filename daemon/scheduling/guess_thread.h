#ifndef MOETIER_DAEMON_SCHEDULING_GUESS_THREAD_H_
#define MOETIER_DAEMON_SCHEDULING_GUESS_THREAD_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "base/ids.h"
#include "base/mutex.h"
#include "daemon/scheduling/layer_call.h"
#include "daemon/scheduling/router_predictor.h"

namespace moetier {

// What a router makes of a call's rows, for one layer after it.
struct LayerGuesses {
  SessionId session{};
  uint64_t stamp = 0;  // of the call whose rows they were
  std::vector<ExpertKey> experts;
};

// Runs routers on a thread of its own (`prefetcher`), so that the executor never waits for one: a
// router of 256 experts x 4096 takes some 0.7 ms, since it comes from memory.
// Threads: Ask from one thread; `deliver` is called on the thread itself and must not block.
// Memory:  a few jobs whose rows are kept and reused; the oldest is dropped for a new one.
class GuessThread {
 public:
  static constexpr uint32_t kMostRows = 8;  // of a call: more are a prompt, which reads in bulk
  static constexpr uint32_t kMostTargets = 4;

  struct Question {
    // Shared: the model may be unloaded while its rows are looked at.
    std::shared_ptr<const RouterPredictor> router;
    ModelId model{};
    SessionId session{};
    uint64_t stamp = 0;
    std::span<const LayerIndex> targets;  // at most kMostTargets, the nearest first
    uint32_t guesses = 0;                 // a row and layer
    std::span<const float> rows;          // [1..kMostRows, hidden], copied
  };

  explicit GuessThread(std::function<void(LayerGuesses)> deliver);
  ~GuessThread();  // what was not answered is not

  void Ask(const Question& question) EXCLUDES(mu_);

 private:
  struct Job {
    std::shared_ptr<const RouterPredictor> router;  // null: free
    ModelId model{};
    SessionId session{};
    uint64_t stamp = 0;
    std::array<LayerIndex, kMostTargets> targets{};
    uint32_t target_count = 0;
    uint32_t guesses = 0;
    std::vector<float> rows;
  };

  void Run();
  void Answer(const Job& job);

  static constexpr size_t kJobs = 8;  // calls that may wait; what is older has been overtaken

  const std::function<void(LayerGuesses)> deliver_;
  Mutex mu_;
  ConditionVariable asked_;
  std::array<Job, kJobs> jobs_ GUARDED_BY(mu_);  // a ring
  size_t first_ GUARDED_BY(mu_) = 0;
  size_t count_ GUARDED_BY(mu_) = 0;
  bool stopping_ GUARDED_BY(mu_) = false;

  // The thread's own.
  RouterPredictor::Scratch scratch_;
  std::vector<ExpertIndex> experts_;
  std::jthread thread_;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_GUESS_THREAD_H_
