#include "daemon/scheduling/on_demand_models.h"

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>

#include "tiers/store/import_plan.h"
#include "tiers/store/in_place_store.h"

namespace moetier {
namespace {

// Between two looks for a model that is not in use any more.
constexpr std::chrono::milliseconds kLookAgain{10};

bool IsServing(const ModelInfo& info, uint64_t fingerprint) {
  return info.state == ModelState::kReady && info.fingerprint == fingerprint;
}

// The lower the better: records laid out for the kernels, then the model's own file, then a copy of
// it in its own types. A layer without a kernel is no matter here: OpenModelFiles refuses a model
// that has one, and no shell is made of it.
int Preference(StoreKind kind) {
  switch (kind) {
    case StoreKind::kPackedRows16:
      return 0;
    case StoreKind::kInPlace:
      return 1;
    case StoreKind::kPackedSource:
      return 2;
  }
  return 3;
}

Fallback NoChecksums(const OpenedModel& model) {
  const std::string& path = model.sources.front().path;
  return {"landing_check:none",
          fmt::format("{} is served as a client opened it, with no checksums on record, so damage "
                      "on its disk goes unseen; `moetierctl import --in-place {}` makes them",
                      path, path)};
}

}  // namespace

OnDemandModels::OnDemandModels(Options options, ExpertCore& core, spdlog::logger& log)
    : options_(std::move(options)), core_(core), log_(log) {}

Result<ResolvedFiles> OnDemandModels::Resolve(std::vector<UniqueFd> files,
                                              const std::function<bool()>& keep_going) {
  ASSIGN_OR_RETURN(OpenedModel opened, OpenModelFiles(std::move(files), keep_going));
  ResolvedFiles resolved;
  resolved.model = FindServing(opened);
  if (resolved.model) return resolved;
  std::optional<StoreInfo> store = FindStore(opened.fingerprint);
  if (!store && (!options_.files || opened.is_shell)) return NotServed(opened);
  // Shared because a std::function is copyable and descriptors are not.
  auto model = std::make_shared<const OpenedModel>(std::move(opened));
  resolved.load = [this, model, store = std::move(store)](const ProgressListener& listener) {
    return Load(*model, store, listener);
  };
  return resolved;
}

Result<ModelInfo> OnDemandModels::Load(const OpenedModel& model,
                                       const std::optional<StoreInfo>& store,
                                       const ProgressListener& listener) {
  if (std::optional<ModelInfo> info = FindServing(model)) return *std::move(info);
  return store ? LoadStore(*store, listener) : LoadFiles(model, listener);
}

std::optional<ModelInfo> OnDemandModels::FindServing(const OpenedModel& model) {
  const std::vector<ModelInfo> list = core_.ListModels();
  MutexLock lock(mu_);
  for (const ModelInfo& info : list) {
    if (!IsServing(info, model.fingerprint)) continue;
    const auto ours = std::ranges::find(loaded_, info.id, &Loaded::id);
    const bool known = ours != loaded_.end();
    if (BroughtByClient(info) && (!known || ours->files != model.identities)) continue;
    std::optional<ModelInfo> held = core_.HoldModel(info.id);
    if (!held) continue;
    if (known) ours->asked = ++asked_;
    return held;
  }
  return std::nullopt;
}

std::optional<StoreInfo> OnDemandModels::FindStore(uint64_t fingerprint) const {
  if (!options_.stores) return std::nullopt;
  const Result<std::vector<StoreInfo>> stores = ListStores(options_.store_root);
  if (!stores.has_value()) {
    if (stores.error().code != ErrorCode::kNotFound) log_.warn("{}", stores.error().message);
    return std::nullopt;
  }
  std::optional<StoreInfo> best;
  for (const StoreInfo& store : *stores) {
    if (store.fingerprint != fingerprint) continue;
    if (store.state != StoreState::kComplete) {
      log_.warn("{}: not served: {}", store.directory, store.problem);
    } else if (!best || Preference(store.kind) < Preference(best->kind)) {
      best = store;
    }
  }
  return best;
}

Result<ModelInfo> OnDemandModels::LoadStore(const StoreInfo& store,
                                            const ProgressListener& listener) {
  return LoadAs(StoreDirectoryName(store.name, store.fingerprint), {}, listener,
                [&](const std::string& name) {
                  ModelOptions options = options_.defaults;
                  options.name = name;
                  options.directory = store.directory;
                  return core_.Load(options, listener);
                });
}

Result<ModelInfo> OnDemandModels::LoadFiles(const OpenedModel& model,
                                            const ProgressListener& listener) {
  ASSIGN_OR_RETURN(MoeModel experts, ReadMoeModel(model.gguf, {}));
  ASSIGN_OR_RETURN(const ImportPlan plan,
                   PlanImport(std::move(experts), model.fingerprint, model.sources,
                              {.model_path = model.sources.front().path, .in_place = true}));
  return LoadAs(StoreDirectoryName(plan.index.name, model.fingerprint), model.identities, listener,
                [&](const std::string& name) -> Status {
                  ModelOptions options = options_.defaults;
                  options.name = name;
                  options.landing_check = LandingCheck::kNever;
                  OpenedStore open;
                  ASSIGN_OR_RETURN(open.store, InPlaceStore::WithoutChecksums(plan.index));
                  open.files = model.files;
                  open.fallbacks = {NoChecksums(model)};
                  return core_.LoadOver(std::move(open), options, listener);
                });
}

Result<ModelInfo> OnDemandModels::LoadAs(
    const std::string& base_name, std::vector<FileIdentity> files, const ProgressListener& listener,
    const std::function<Status(const std::string& name)>& load) {
  RETURN_IF_ERROR(MakeRoom(listener));
  std::string name = base_name;
  for (uint32_t next = 2; core_.FindModel(name); ++next)
    name = fmt::format("{}-{}", base_name, next);
  Status done = load(name);
  while (!done.has_value() && done.error().reason == Reason::kMemoryLimit && UnloadOne(listener)) {
    done = load(name);
  }
  RETURN_IF_ERROR(std::move(done));
  std::optional<ModelInfo> info = core_.FindModel(name);
  if (info) info = core_.HoldModel(info->id);
  if (!info) {
    return Error{ErrorCode::kUnavailable, Reason::kDraining,
                 fmt::format("model `{}` was unloaded as soon as it was loaded", name)};
  }
  log_.info("model {}: loaded for a client that brought its files, fingerprint {:016x}, from {}",
            name, info->fingerprint,
            info->directory.empty() ? info->source_paths.front() : info->directory);
  if (!files.empty()) {
    log_.warn("model {}: no checksums: `moetierctl import --in-place {}` makes them", name,
              info->source_paths.front());
  }
  MutexLock lock(mu_);
  loaded_.push_back({info->id, name, std::move(files), ++asked_});
  return *std::move(info);
}

Status OnDemandModels::MakeRoom(const ProgressListener& listener) {
  for (;;) {
    {
      MutexLock lock(mu_);
      // An operator may have unloaded some.
      std::erase_if(loaded_, [&](const Loaded& each) { return !core_.ModelById(each.id); });
      if (loaded_.size() < options_.most) return Ok{};
    }
    if (UnloadOne(listener)) continue;
    return Error{ErrorCode::kExhausted, Reason::kQuota,
                 fmt::format("{} models are loaded for clients and in use, which is the most: end "
                             "a client's session, or raise models.on_demand.most",
                             options_.most)};
  }
}

bool OnDemandModels::UnloadOne(const ProgressListener& listener) {
  const auto deadline = std::chrono::steady_clock::now() + options_.patience;
  ModelProgress waiting;
  waiting.stage = "make room";
  while (!UnloadIdle()) {
    {
      MutexLock lock(mu_);
      if (loaded_.empty()) return false;
    }
    if (std::chrono::steady_clock::now() >= deadline) return false;
    if (listener(waiting) == GoOn::kNo) return false;
    std::this_thread::sleep_for(kLookAgain);
  }
  return true;
}

bool OnDemandModels::UnloadIdle() {
  std::vector<Loaded> candidates;
  {
    MutexLock lock(mu_);
    candidates = loaded_;
  }
  std::ranges::sort(candidates, {}, &Loaded::asked);
  for (const Loaded& each : candidates) {
    if (!core_.UnloadIfIdle(each.name).has_value()) continue;
    log_.info("model {}: unloaded to make room for another", each.name);
    MutexLock lock(mu_);
    std::erase_if(loaded_, [&](const Loaded& one) { return one.id == each.id; });
    return true;
  }
  return false;
}

Error OnDemandModels::NotServed(const OpenedModel& model) const {
  const std::string& path = model.sources.front().path;
  const std::string where = options_.stores
                                ? fmt::format("no store of it is below {}", options_.store_root)
                                : "models.on_demand.stores is off";
  const std::string what =
      model.is_shell
          ? fmt::format("{} is a shell of the model with fingerprint {:016x}, which", path,
                        model.fingerprint)
          : fmt::format("the model of {} (fingerprint {:016x})", path, model.fingerprint);
  const std::string source =
      model.is_shell ? "MODEL.gguf, the model that the shell was made of" : path;
  return Error{ErrorCode::kNotFound, Reason::kUnknownModel,
               fmt::format("{} is not loaded, and {}; make one with moetierctl import {}", what,
                           where, source)};
}

}  // namespace moetier
