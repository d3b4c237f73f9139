#include "tiers/store/index_geometry.h"

#include <string_view>
#include <utility>

namespace moetier {
namespace {

bool HasKernels(const kernels::ExpertShape& shape) {
  return kernels::Info(shape.gate).has_kernel && kernels::Info(shape.up).has_kernel &&
         kernels::Info(shape.down).has_kernel;
}

}  // namespace

Result<ModelGeometry> IndexGeometry(const StoreIndex& index, const std::string& path) {
  if (index.layout_version != kernels::kLayoutVersion) {
    return Error{ErrorCode::kFailedPrecondition, Reason::kBadStore,
                 fmt::format("{} has record layout {}, this build reads {}; import the model again "
                             "into a new directory",
                             path, index.layout_version, kernels::kLayoutVersion)};
  }
  ModelGeometry geometry{.name = index.name,
                         .architecture = index.architecture,
                         .hidden = index.hidden,
                         .top_k = index.top_k,
                         .layers = {},
                         .size_classes = {}};
  for (const IndexLayer& layer : index.layers) {
    LayerGeometry out{.layer = layer.layer,
                      .experts = layer.experts,
                      .compute = HasKernels(layer.shape),
                      .shape = layer.shape,
                      .record = {},
                      .size_class = {}};
    Result<kernels::RecordLayout> record = kernels::MakeRecordLayout(layer.shape, index.form);
    if (!record) {
      return Error{ErrorCode::kDataLoss, Reason::kBadStore,
                   fmt::format("{}: blk.{}: {}; remove the store and import again", path,
                               Raw(layer.layer), record.error().message)};
    }
    out.record = *record;
    const auto wrong = [&](uint64_t is, uint64_t should_be, std::string_view what) {
      return Error{ErrorCode::kDataLoss, Reason::kBadStore,
                   fmt::format("{}: blk.{} has {} of {} bytes, its shape makes {}; remove the "
                               "store and import again",
                               path, Raw(layer.layer), what, is, should_be)};
    };
    if (out.record.bytes != layer.record_bytes) {
      return wrong(layer.record_bytes, out.record.bytes, "records");
    }
    if (index.in_place) {
      uint32_t i = 0;
      for (const uint64_t bytes : kernels::SourceBytes(layer.shape)) {
        if (bytes == 0) continue;
        for (uint32_t expert = 0; expert < layer.experts; ++expert) {
          const uint64_t is = layer.ExtentsOf(expert)[i].bytes;
          if (is != bytes) return wrong(is, bytes, "parts");
        }
        ++i;
      }
    }
    geometry.layers.push_back(std::move(out));
  }
  AssignSizeClasses(geometry);
  return geometry;
}

}  // namespace moetier
