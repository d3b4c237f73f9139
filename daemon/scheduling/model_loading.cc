#include "daemon/scheduling/model_loading.h"

#include <sys/stat.h>

#include <numeric>
#include <utility>

#include "base/text_size.h"
#include "tiers/arena_plan.h"

namespace moetier {
namespace {

// What a policy is told of the heat of before: at most so many tokens' worth, so that what the
// engines do now soon outweighs it.
constexpr double kPriorTokens = 128;

double PriorScale(const ModelHeat& heat, const ModelGeometry& geometry) {
  double sum = 0;
  for (const LayerHeat& layer : heat.layers)
    sum += std::reduce(layer.heat.begin(), layer.heat.end(), 0.0);
  const double most =
      kPriorTokens * static_cast<double>(geometry.top_k) * static_cast<double>(heat.layers.size());
  return sum > most ? most / sum : 1;
}

Status MakeLedgers(const ModelOptions& options, const ArenaPlan& plan, LoadedModel& model) {
  const ModelHeat heat = model.heat->Read(model.store->fingerprint());
  const double scale = PriorScale(heat, *model.geometry);
  const std::vector<ExpertKey> hottest = HottestFirst(heat, model.id);
  for (size_t i = 0; i < plan.regions.size(); ++i) {
    const SizeClass size_class{static_cast<uint8_t>(i)};
    std::vector<ExpertKey> keys;
    std::vector<double> prior;
    std::vector<ExpertKey> hot;
    for (const ExpertKey& key : hottest) {
      if (Raw(model.geometry->Find(key.layer)->size_class) == i) hot.push_back(key);
    }
    for (const LayerGeometry& layer : model.geometry->layers) {
      if (Raw(layer.size_class) != i) continue;
      for (uint32_t expert = 0; expert < layer.experts; ++expert) {
        const ExpertIndex index{static_cast<uint16_t>(expert)};
        keys.push_back({model.id, layer.layer, index});
        prior.push_back(scale * model.heat->Heat(layer.layer, index));
      }
    }
    ASSIGN_OR_RETURN(std::unique_ptr<ResidencyLedger> ledger,
                     ResidencyLedger::Create({.slot_count = plan.regions[i].slots,
                                              .place_count = model.arena->Places(size_class),
                                              .policy = options.policy,
                                              .keys = std::move(keys),
                                              .hot_keys = std::move(hot),
                                              .prior = std::move(prior)}));
    model.ledgers.push_back(std::move(ledger));
  }
  return Ok{};
}

// A GGUF file in the place of a store is the mistake to expect.
Status RefuseFile(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0 || S_ISDIR(status.st_mode)) return Ok{};
  return Error{
      ErrorCode::kInvalidArgument, Reason::kBadStore,
      fmt::format("{} is a file, not a store directory; make one first: `moetierctl import "
                  "{} --in-place` (no second copy), or without --in-place",
                  path, path)};
}

Status OpenFiles(std::span<const UniqueFd> open, LoadedModel& model, RecordReader& reader) {
  const std::span<const StoreFile> files = model.store->files();
  MOE_CHECK(open.empty() || open.size() == files.size(), "{} files are open of {}", open.size(),
            files.size());
  for (size_t i = 0; i < files.size(); ++i) {
    Result<FileId> id = open.empty() ? reader.AddFile(files[i].path)
                                     : reader.AddOpenFile(open[i].get(), files[i].path);
    if (!id.has_value()) {
      for (const FileId opened : std::exchange(model.files, {})) reader.RemoveFile(opened);
      return std::move(id).error();
    }
    model.files.push_back(*id);
  }
  return Ok{};
}

}  // namespace

Result<std::unique_ptr<LoadedModel>> BuildModel(const ModelOptions& options, ModelId id,
                                                const ArenaOptions& arena, const HeatLookup& heat,
                                                RecordReader& reader) {
  RETURN_IF_ERROR(RefuseFile(options.directory));
  OpenedStore open;
  ASSIGN_OR_RETURN(open.store, ExpertStore::Open(options.directory));
  return BuildModelOver(std::move(open), options, id, arena, heat, reader);
}

Result<std::unique_ptr<LoadedModel>> BuildModelOver(OpenedStore open, const ModelOptions& options,
                                                    ModelId id, const ArenaOptions& arena,
                                                    const HeatLookup& heat, RecordReader& reader) {
  auto model = std::make_unique<LoadedModel>();
  model->id = id;
  model->name = options.name;
  model->landing_check = options.landing_check;
  model->misses = options.misses;
  model->preheats = options.preheat;
  model->store = std::move(open.store);
  model->fallbacks = std::move(open.fallbacks);
  model->geometry = std::make_shared<const ModelGeometry>(model->store->geometry());
  const ModelGeometry& geometry = *model->geometry;
  for (const LayerGeometry& layer : geometry.layers) {
    model->verified[layer.layer].resize(layer.experts);
  }
  model->budget = ResolveBudget(options.ram, geometry.TotalBytes());
  // top_k slots a size class suffice for any call: waves reserve all or nothing.
  Result<ArenaPlan> planned = PlanArena(geometry.size_classes, model->budget, geometry.top_k);
  if (!planned.has_value()) {
    planned.error().message = fmt::format("{}: {}", arena.what, planned.error().message);
    return std::move(planned).error();
  }
  const ArenaPlan& plan = *planned;
  if (plan.warning) model->warnings.push_back(fmt::format("{}: {}", arena.what, *plan.warning));
  model->heat = std::make_unique<HeatBook>(geometry);
  HeatFolder::Found kept;
  if (heat) kept = heat(model->store->fingerprint(), geometry);
  if (kept.warning) {
    model->warnings.push_back(fmt::format("model {}: {}", model->name, *kept.warning));
  }
  if (kept.heat) model->heat->Set(*kept.heat);
  model->heat->NoteSaved();
  model->pinned.assign(plan.regions.size(), 0);
  ASSIGN_OR_RETURN(model->arena, Arena::Create(plan, arena));
  RETURN_IF_ERROR(MakeLedgers(options, plan, *model));
  RETURN_IF_ERROR(OpenFiles(open.files, *model, reader));
  return model;
}

Status UseDevice(const ModelOptions& options, Device& device, const ShownSlots::Progress& progress,
                 LoadedModel& model) {
  for (const LayerGeometry& layer : model.geometry->layers) {
    Status admitted = device.Admit(layer.shape, layer.record);
    if (admitted) continue;
    model.fallbacks.push_back({"device:none", std::move(admitted).error().message});
    return Ok{};
  }
  std::vector<uint32_t> slots;
  for (const ArenaRegion& region : model.arena->plan().regions) slots.push_back(region.slots);
  Result<std::unique_ptr<ShownSlots>> shown =
      ShownSlots::Create(device, *model.arena, slots, progress);
  if (shown) {
    model.shown = std::move(shown).value();
  } else if (shown.error().code == ErrorCode::kCancelled) {
    return std::move(shown).error();
  } else {
    model.fallbacks.push_back({"zero_copy:none", std::move(shown).error().message});
  }
  if (options.vram) {
    Result<std::unique_ptr<VramPool>> pool =
        VramPool::Create({.budget = *options.vram,
                          .budget_key = fmt::format("models[{}].vram", options.name),
                          .policy = options.vram_policy,
                          .admission = options.vram_admission},
                         model.id, *model.geometry, device);
    if (pool.has_value()) {
      model.vram = std::move(pool).value();
      if (const auto& less = model.vram->less()) model.fallbacks.push_back({"vram:less", *less});
    } else {
      model.fallbacks.push_back({"vram:none", std::move(pool).error().message});
    }
  }
  model.planning = std::make_unique<ModelPlanning>(
      *model.geometry, device.description(),
      ModelPlanning::Lanes{.gpu = model.vram != nullptr, .zero_copy = model.shown != nullptr});
  return Ok{};
}

void CloseModel(std::unique_ptr<LoadedModel> model, RecordReader& reader) {
  for (const FileId file : model->files) reader.RemoveFile(file);
}

}  // namespace moetier
