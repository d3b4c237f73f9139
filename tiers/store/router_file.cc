#include "tiers/store/router_file.h"

#include <xxhash.h>

#include "tiers/store/import_plan.h"
#include "tiers/store/indexed_store.h"

namespace moetier {
namespace {

Status CopyTensor(const GgufTensor& from, ExpertSource& source, RouterTensor& to,
                  StoreFileHandle& file) {
  ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, source.Read(from));
  to.xxh3 = XXH3_64bits(bytes.data(), bytes.size());
  return file.WriteAt(to.offset, bytes);
}

}  // namespace

Status CopyRouters(const MoeModel& model, ExpertSource& source, StoreIndex& index,
                   StoreFileHandle& file) {
  for (size_t i = 0; i < index.layers.size(); ++i) {
    const auto tensors = RouterTensors(model.layers[i].router);
    for (size_t role = 0; role < kRouterRoles; ++role) {
      if (tensors[role] == nullptr) continue;
      RETURN_IF_ERROR(CopyTensor(*tensors[role], source, *index.layers[i].routers[role], file));
    }
  }
  return file.Sync();
}

Result<std::vector<std::byte>> ReadRouterTensor(StoreFileHandle& file, const RouterTensor& tensor,
                                                LayerIndex layer, const std::string& path) {
  ASSIGN_OR_RETURN(const uint64_t file_bytes, file.Size());
  // Before the buffer is allocated: a file that was cut short is read no further.
  if (tensor.bytes > file_bytes || tensor.offset > file_bytes - tensor.bytes) {
    return Error{ErrorCode::kDataLoss, Reason::kShortRead,
                 fmt::format("{} has {} bytes, the router of blk.{} needs {} at {}", path,
                             file_bytes, Raw(layer), tensor.bytes, tensor.offset)};
  }
  std::vector<std::byte> bytes(tensor.bytes);
  RETURN_IF_ERROR(file.ReadAt(tensor.offset, bytes));
  const uint64_t actual = XXH3_64bits(bytes.data(), bytes.size());
  if (actual == tensor.xxh3) return bytes;
  return Error{ErrorCode::kDataLoss, Reason::kChecksum,
               fmt::format("the router of blk.{} at byte {} of {} has xxh3 {:016x}, {:016x} was "
                           "expected",
                           Raw(layer), tensor.offset, path, actual, tensor.xxh3)};
}

Result<std::vector<LayerRouter>> ReadRouters(const std::string& directory) {
  ASSIGN_OR_RETURN(const StoreIndex index, ReadStoreIndex(directory, HostFileSystem()));
  std::vector<LayerRouter> routers;
  if (index.router_bytes == 0) return routers;
  const std::string path = fmt::format("{}/{}", directory, kRouterFileName);
  ASSIGN_OR_RETURN(const auto file, HostFileSystem().Open(path, FileSystem::Mode::kRead));
  for (const IndexLayer& layer : index.layers) {
    if (!layer.routers[static_cast<size_t>(RouterRole::kWeight)]) continue;
    LayerRouter router{.layer = layer.layer, .score = index.router_score, .tensors = {}};
    for (size_t role = 0; role < kRouterRoles; ++role) {
      if (!layer.routers[role]) continue;
      const RouterTensor& tensor = *layer.routers[role];
      RouterMatrix& out = router.tensors[role].emplace();
      out.ggml_type = tensor.ggml_type;
      out.rows = static_cast<uint32_t>(tensor.rows);
      out.columns = static_cast<uint32_t>(tensor.columns);
      ASSIGN_OR_RETURN(out.bytes, ReadRouterTensor(*file, tensor, layer.layer, path));
    }
    routers.push_back(std::move(router));
  }
  return routers;
}

}  // namespace moetier
