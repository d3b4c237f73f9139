#ifndef MOETIER_DAEMON_SCHEDULING_ON_DEMAND_MODELS_H_
#define MOETIER_DAEMON_SCHEDULING_ON_DEMAND_MODELS_H_

#include <spdlog/logger.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "daemon/scheduling/expert_core.h"
#include "daemon/scheduling/resolved_files.h"
#include "tiers/store/opened_model.h"
#include "tiers/store/store_catalog.h"

namespace moetier {

// Finds or loads the model that a client's engine runs from, given the engine's own model files as
// open descriptors: a loaded model with that fingerprint, else a store of it below the store root,
// else the files themselves, in place. A model loaded here stays loaded; when room is needed for
// another, the one that was asked for longest ago and that nobody holds (ModelInfo::hold) goes.
// A fingerprint samples a file, so it does not prove what the whole file holds: a model served from
// one client's files is given only to clients that bring those same files.
// Threads:  Resolve from any. The loads that it gives are for one thread at a time: each looks
//           first whether the one before has made its model serve.
// Lifetime: core and logger outlive it; it outlives the loads.
class OnDemandModels {
 public:
  struct Options {
    std::string store_root;
    bool stores = true;  // load stores of the root
    bool files = true;   // serve a client's files in place
    uint32_t most = 2;   // models loaded here at one time
    // How long a model in use is waited for when room is needed: its session may be ending.
    std::chrono::milliseconds patience{1000};
    ModelOptions defaults;  // ram, policy and check of what is loaded here
  };

  OnDemandModels(Options options, ExpertCore& core, spdlog::logger& log);

  // Errors of OpenModelFiles, and kNotFound, kUnknownModel with the fingerprint and what to do. The
  // load's errors are those of a load, and kExhausted, kQuota when `most` are loaded and held.
  Result<ResolvedFiles> Resolve(std::vector<UniqueFd> files,
                                const std::function<bool()>& keep_going) EXCLUDES(mu_);

 private:
  struct Loaded {
    ModelId id{};
    std::string name;
    std::vector<FileIdentity> files;  // served from them; empty: from a store
    uint64_t asked = 0;               // the larger the later
  };

  Result<ModelInfo> Load(const OpenedModel& model, const std::optional<StoreInfo>& store,
                         const ProgressListener& listener) EXCLUDES(mu_);
  std::optional<ModelInfo> FindServing(const OpenedModel& model) EXCLUDES(mu_);
  [[nodiscard]] std::optional<StoreInfo> FindStore(uint64_t fingerprint) const;
  Result<ModelInfo> LoadStore(const StoreInfo& store, const ProgressListener& listener);
  Result<ModelInfo> LoadFiles(const OpenedModel& model, const ProgressListener& listener);
  // Runs `load` under a name that is free, once there is room for it.
  Result<ModelInfo> LoadAs(const std::string& base_name, std::vector<FileIdentity> files,
                           const ProgressListener& listener,
                           const std::function<Status(const std::string& name)>& load)
      EXCLUDES(mu_);
  Status MakeRoom(const ProgressListener& listener) EXCLUDES(mu_);
  // False when all are in use and stay so for a while, or the listener says kNo.
  bool UnloadOne(const ProgressListener& listener) EXCLUDES(mu_);
  bool UnloadIdle() EXCLUDES(mu_);
  [[nodiscard]] Error NotServed(const OpenedModel& model) const;

  const Options options_;
  ExpertCore& core_;
  spdlog::logger& log_;
  Mutex mu_;
  std::vector<Loaded> loaded_ GUARDED_BY(mu_);
  uint64_t asked_ GUARDED_BY(mu_) = 0;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_ON_DEMAND_MODELS_H_
