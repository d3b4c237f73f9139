#include "tiers/store/import_plan.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "base/permission_remedy.h"
#include "base/unique_fd.h"
#include "tiers/store/index_geometry.h"
#include "tiers/store/shell_gguf.h"

namespace moetier {
namespace {

// Tensors start at whole cache lines of the router file.
constexpr uint64_t kRouterAlignment = 64;

Result<SourceFile> DescribeSource(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  struct stat info {};
  if (error || ::stat(path.c_str(), &info) != 0) {
    const int number = error ? error.value() : errno;
    Error refused = ErrnoError(number, fmt::format("stat {}", path));
    if (number == EACCES) refused.message += ": " + PermissionRemedy(path);
    return refused;
  }
  return SourceFile{
      .path = absolute.lexically_normal(),
      .bytes = static_cast<uint64_t>(info.st_size),
      .mtime_ns = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + int64_t{info.st_mtim.tv_nsec}};
}

// A tensor of the router file behind `bytes`, which grows by it.
RouterTensor PlaceRouter(const GgufTensor& tensor, uint64_t& bytes) {
  RouterTensor out{.ggml_type = tensor.ggml_type,
                   .columns = tensor.shape[0],
                   .rows = tensor.shape[1],
                   .offset = AlignUp(bytes, kRouterAlignment),
                   .bytes = tensor.bytes,
                   .xxh3 = 0};
  bytes = out.offset + out.bytes;
  return out;
}

IndexLayer PlanLayer(const LayerGeometry& geometry, const MoeLayerSource& source,
                     ImportPlan& plan) {
  IndexLayer layer;
  layer.layer = geometry.layer;
  layer.experts = geometry.experts;
  layer.shape = geometry.shape;
  layer.record_bytes = geometry.record.bytes;
  layer.checksums.assign(geometry.experts, 0);
  for (uint32_t expert = 0; expert < geometry.experts; ++expert) {
    if (!plan.index.in_place) {
      layer.extents.push_back({0, plan.data_bytes, geometry.record.bytes});
      plan.data_bytes = AlignUp(plan.data_bytes + geometry.record.bytes, kRecordAlignment);
      continue;
    }
    for (const auto& part : source.parts) {
      if (!part) continue;
      layer.extents.push_back({part->shard, part->offset + expert * part->stride, part->bytes});
    }
  }
  layer.extents_per_record = static_cast<uint32_t>(layer.extents.size() / geometry.experts);
  const auto routers = RouterTensors(source.router);
  for (size_t role = 0; role < kRouterRoles; ++role) {
    if (routers[role] != nullptr) {
      layer.routers[role] = PlaceRouter(*routers[role], plan.index.router_bytes);
    }
  }
  return layer;
}

// Whether both name the same records; an index is an outside file and need not fit the model that
// has its fingerprint.
bool SameRecords(const StoreIndex& a, const StoreIndex& b) {
  return std::ranges::equal(a.layers, b.layers, [](const IndexLayer& x, const IndexLayer& y) {
    return x.layer == y.layer && x.experts == y.experts && x.shape == y.shape &&
           x.record_bytes == y.record_bytes;
  });
}

bool SameExtents(const StoreIndex& a, const StoreIndex& b) {
  return std::ranges::equal(a.layers, b.layers, {}, &IndexLayer::extents, &IndexLayer::extents);
}

Error Stale(const std::string& directory, std::string_view what) {
  return Error{
      ErrorCode::kFailedPrecondition, Reason::kStaleStore,
      fmt::format("{}: {}; bring the model that was imported back, or import this one into "
                  "a new directory",
                  directory, what)};
}

// The model is as it was: nothing to bring back.
Error Unreadable(const std::string& directory, const Error& error) {
  return Error{error.code, error.reason,
               fmt::format("{}: its model file cannot be read: {}", directory, error.message)};
}

// Its holes would be imported as experts, or be refused for a type that the model does not have.
Status RefuseShell(const GgufModel& gguf) {
  ASSIGN_OR_RETURN(const std::optional<uint64_t> shell_of, ShellFingerprint(gguf));
  if (!shell_of) return Ok{};
  return Error{ErrorCode::kInvalidArgument, Reason::kUnsupportedModel,
               fmt::format("{} is a shell, without expert weights; import the model that it was "
                           "made of (fingerprint {:016x})",
                           gguf.shard_paths().front(), *shell_of)};
}

}  // namespace

std::array<const GgufTensor*, kRouterRoles> RouterTensors(const RouterSource& router) {
  const auto pointer = [](const std::optional<GgufTensor>& tensor) {
    return tensor ? &*tensor : nullptr;
  };
  return {pointer(router.weight), pointer(router.bias), pointer(router.logit_bias)};
}

std::vector<std::string> ImportPlan::ShardPaths() const {
  std::vector<std::string> paths;
  for (const SourceFile& source : index.sources) paths.push_back(source.path);
  return paths;
}

Result<ImportPlan> MakeImportPlan(const ImportPlanOptions& options) {
  ASSIGN_OR_RETURN(const GgufModel gguf, GgufModel::Open(options.model_path));
  RETURN_IF_ERROR(RefuseShell(gguf));
  ASSIGN_OR_RETURN(MoeModel model, ReadMoeModel(gguf, {options.form, options.activation}));
  ASSIGN_OR_RETURN(const uint64_t fingerprint, ModelFingerprint(gguf, model));
  std::vector<SourceFile> sources;
  for (const std::string& path : gguf.shard_paths()) {
    ASSIGN_OR_RETURN(SourceFile source, DescribeSource(path));
    sources.push_back(std::move(source));
  }
  return PlanImport(std::move(model), fingerprint, std::move(sources), options);
}

Result<ImportPlan> PlanImport(MoeModel model, uint64_t fingerprint, std::vector<SourceFile> sources,
                              const ImportPlanOptions& options) {
  ImportPlan plan;
  plan.model = std::move(model);
  const ModelGeometry& geometry = plan.model.geometry;
  StoreIndex& index = plan.index;
  index.fingerprint = fingerprint;
  index.sources = std::move(sources);
  index.in_place = options.in_place;
  index.form = options.form;
  index.router_score = plan.model.router_score;
  index.name = geometry.name.substr(0, kMaxIndexNameLength);
  index.architecture = geometry.architecture.substr(0, kMaxIndexNameLength);
  index.hidden = geometry.hidden;
  index.top_k = geometry.top_k;
  for (size_t i = 0; i < geometry.layers.size(); ++i) {
    index.layers.push_back(PlanLayer(geometry.layers[i], plan.model.layers[i], plan));
  }
  if (!index.in_place) index.data_files.push_back({"experts-0.bin", plan.data_bytes});
  // Whatever could not be opened again is refused before anything is written.
  const std::string path = fmt::format("an index of {}", options.model_path);
  ASSIGN_OR_RETURN(const StoreIndex again, ParseStoreIndex(SerializeStoreIndex(index), path));
  RETURN_IF_ERROR(IndexGeometry(again, path));
  return plan;
}

Result<ImportPlan> PlanOfStore(const StoreIndex& index, const std::string& directory,
                               const std::string& model_path) {
  const std::string& path = model_path.empty() ? index.sources[0].path : model_path;
  ASSIGN_OR_RETURN(ImportPlan plan,
                   MakeImportPlan({.model_path = path,
                                   .form = index.form,
                                   .in_place = index.in_place,
                                   .activation = index.layers[0].shape.activation}));
  if (plan.index.fingerprint != index.fingerprint) {
    return Stale(
        directory,
        fmt::format("it was made from a model with fingerprint {:016x}, {} now has {:016x}",
                    index.fingerprint, path, plan.index.fingerprint));
  }
  if (SameRecords(plan.index, index)) return plan;
  return Stale(directory, fmt::format("its index does not fit the experts of {}", path));
}

Status CheckSourcesUnchanged(const StoreIndex& index, const std::string& directory) {
  for (const SourceFile& source : index.sources) {
    const Result<SourceFile> now = DescribeSource(source.path);
    if (!now && now.error().code == ErrorCode::kNotFound) {
      return Stale(directory, fmt::format("its model file {} is gone", source.path));
    }
    if (!now) return Unreadable(directory, now.error());
    if (now->bytes != source.bytes) {
      return Stale(directory, fmt::format("its model file {} has {} bytes, it had {} at import",
                                          source.path, now->bytes, source.bytes));
    }
  }
  const Result<ImportPlan> now = PlanOfStore(index, directory);
  if (!now && now.error().reason == Reason::kStaleStore) return now.error();
  if (!now && now.error().code == ErrorCode::kPermissionDenied) {
    return Unreadable(directory, now.error());
  }
  if (!now) {
    return Stale(directory, fmt::format("its model cannot be read: {}", now.error().message));
  }
  if (SameExtents(now->index, index)) return Ok{};
  return Stale(directory,
               fmt::format("the tensors of {} have moved inside the file", index.sources[0].path));
}

}  // namespace moetier
