#include "daemon/scheduling/heat_keeper.h"

#include <utility>

namespace moetier {

HeatKeeper::HeatKeeper(Options options, TimedTasks& tasks, spdlog::logger& log, Collect collect)
    : options_(std::move(options)),
      tasks_(tasks),
      log_(log),
      collect_(std::move(collect)),
      folder_(HostFileSystem(), options_.directory) {}

void HeatKeeper::Start() {
  if (!options_.directory.empty()) SaveLater();
}

void HeatKeeper::SaveLater() {
  tasks_.At(std::chrono::steady_clock::now() + options_.interval, [this] {
    SaveAll();
    SaveLater();
  });
}

HeatFolder::Found HeatKeeper::Load(uint64_t fingerprint, const ModelGeometry& geometry) {
  if (options_.directory.empty()) return {};
  const auto turn = turns_.Take([] { return true; });
  return folder_.Load(fingerprint, geometry);
}

void HeatKeeper::Save(const ModelHeat& heat) {
  if (options_.directory.empty()) return;
  const auto turn = turns_.Take([] { return true; });
  SaveNow(heat);
}

void HeatKeeper::SaveNow(const ModelHeat& heat) {
  const Status saved = folder_.Save(heat);
  if (!saved && !failed_) {
    log_.warn("heat is not kept: {}; a restart will begin with what was kept before",
              saved.error().message);
  }
  failed_ = !saved.has_value();
  if (saved) {
    unsaved_.erase(heat.fingerprint);
  } else if (unsaved_.size() < kMostUnsaved || unsaved_.contains(heat.fingerprint)) {
    unsaved_.insert_or_assign(heat.fingerprint, heat);
  }
}

void HeatKeeper::SaveAll() {
  {
    const auto turn = turns_.Take([] { return true; });
    const std::map<uint64_t, ModelHeat> again = unsaved_;
    for (const auto& [fingerprint, heat] : again) SaveNow(heat);
  }
  for (const ModelHeat& heat : collect_()) Save(heat);
}

}  // namespace moetier
