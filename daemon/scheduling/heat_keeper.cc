#include "daemon/scheduling/heat_keeper.h"

#include <utility>

#include "base/text_size.h"

namespace moetier {

HeatKeeper::HeatKeeper(Options options, TimedTasks& tasks, spdlog::logger& log, Collect collect,
                       Kept kept)
    : options_(std::move(options)),
      tasks_(tasks),
      log_(log),
      collect_(std::move(collect)),
      kept_(std::move(kept)),
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
  Trim();
}

void HeatKeeper::Trim() {
  const auto trimmed = TrimHeatFiles(options_.directory, options_.bound, kept_());
  if (trimmed) {
    for (const std::string& name : trimmed->removed) {
      log_.info(
          "heat file {}/{} is removed: it is among the oldest, and at most {} files and {} stay",
          options_.directory, name, options_.bound.files, FormatSize(options_.bound.bytes));
    }
  }
  const bool failed = !trimmed || !trimmed->failed.empty();
  if (failed && !untrimmed_) {
    log_.warn("old heat files stay: {}; remove them by hand",
              trimmed ? trimmed->failed.front().message : trimmed.error().message);
  }
  untrimmed_ = failed;
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
