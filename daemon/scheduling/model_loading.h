#ifndef MOETIER_DAEMON_SCHEDULING_MODEL_LOADING_H_
#define MOETIER_DAEMON_SCHEDULING_MODEL_LOADING_H_

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fallback.h"
#include "base/memory_budget.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "daemon/scheduling/loaded_model.h"
#include "tiers/arena.h"
#include "tiers/device/device.h"
#include "tiers/nvme/record_reader.h"
#include "tiers/store/heat_file.h"

namespace moetier {

// What to load and how; all of it from the configuration or an operator.
struct ModelOptions {
  std::string name;       // the handle that sessions attach to
  std::string directory;  // a store made by `moetierctl import`
  MemoryBudget ram = Percent{100};
  std::string ram_key = {};    // what the configuration calls it; empty: models[NAME].ram
  std::string policy = "lru";  // tiers/eviction_policy.h names them
  LandingCheck landing_check = LandingCheck::kFirst;
  MissRule misses = MissRule::kStall;
  bool preheat = true;  // load the hottest experts into free slots while the model serves
  // On the device, where there is one; none: no experts there.
  std::optional<MemoryBudget> vram = Percent{100};
  std::string vram_policy = "lru";
  VramAdmission vram_admission = VramAdmission::kAlways;
};

// The heat that was kept of a model, if any; it fits the geometry. An empty function knows none.
using HeatLookup =
    std::function<HeatFolder::Found(uint64_t fingerprint, const ModelGeometry& geometry)>;

// A store that is open, for a model that is not loaded from a directory.
struct OpenedStore {
  std::unique_ptr<ExpertStore> store;
  std::span<const UniqueFd> files;  // the store's own, in their order; none: opened by their paths
  std::vector<Fallback> fallbacks;  // what the store could not be had with
};

// Opens the store, takes the arena (populated: this is where the time goes), opens the files and
// makes the ledgers, whose policies start from the heat that is found. Nothing is left behind on an
// error. Blocks; any thread.
Result<std::unique_ptr<LoadedModel>> BuildModel(const ModelOptions& options, ModelId id,
                                                const ArenaOptions& arena, const HeatLookup& heat,
                                                RecordReader& reader);

// The same over an open store; the options' directory is not looked at.
Result<std::unique_ptr<LoadedModel>> BuildModelOver(OpenedStore open, const ModelOptions& options,
                                                    ModelId id, const ArenaOptions& arena,
                                                    const HeatLookup& heat, RecordReader& reader);

// Gives the model slots on the device, if it is to have any, and plans over the device's lanes.
// What the device refuses is named among the model's fallbacks, and the model goes on without.
// kCancelled when `progress` says so.
Status UseDevice(const ModelOptions& options, Device& device, const ShownSlots::Progress& progress,
                 LoadedModel& model);

// Closes the model's files; its memory goes with it.
void CloseModel(std::unique_ptr<LoadedModel> model, RecordReader& reader);

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_MODEL_LOADING_H_
