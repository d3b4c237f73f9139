#ifndef MOETIER_DAEMON_SCHEDULING_HEAT_KEEPER_H_
#define MOETIER_DAEMON_SCHEDULING_HEAT_KEEPER_H_

#include <spdlog/logger.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/scheduling/timed_tasks.h"
#include "daemon/scheduling/turns.h"
#include "tiers/store/heat_file.h"
#include "tiers/store/heat_files.h"

namespace moetier {

// Keeps the heat of models over restarts: reads it for a load, saves it every few minutes and when
// asked, and removes the oldest files beyond the bound. A file that cannot be written is a warning,
// once until it can be; it is tried again with the next that are saved. So is one that cannot be
// removed.
// Threads:  any; one file at a time.
// Lifetime: tasks, logger and whatever `collect` uses outlive it. The tasks are stopped before it
//           ends.
class HeatKeeper {
 public:
  struct Options {
    std::string directory;  // empty: nothing is read or kept
    std::chrono::milliseconds interval = std::chrono::minutes(5);
    HeatFilesBound bound{};
  };
  // The heats that have changed since they were last collected.
  using Collect = std::function<std::vector<ModelHeat>()>;
  // The models that are loaded, and those that operators have loaded in this life: their files
  // stay.
  using Kept = std::function<std::set<uint64_t>()>;

  HeatKeeper(Options options, TimedTasks& tasks, spdlog::logger& log, Collect collect, Kept kept);

  // Begins to save every interval.
  void Start();
  HeatFolder::Found Load(uint64_t fingerprint, const ModelGeometry& geometry);
  void Save(const ModelHeat& heat);
  // All that have changed, and those that could not be saved before.
  void SaveAll();

 private:
  void SaveLater();
  void SaveNow(const ModelHeat& heat);  // by turns
  void Trim();                          // likewise

  const Options options_;
  TimedTasks& tasks_;
  spdlog::logger& log_;
  const Collect collect_;
  const Kept kept_;
  Turns turns_;                               // two models may share a fingerprint, and so a file
  HeatFolder folder_;                         // by turns
  bool failed_ = false;                       // by turns: the last save did, and that was said
  bool untrimmed_ = false;                    // likewise, of the last Trim
  static constexpr size_t kMostUnsaved = 64;  // more models than are loaded between two periods
  std::map<uint64_t, ModelHeat> unsaved_;     // by turns; by fingerprint, the newest of each
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_HEAT_KEEPER_H_
