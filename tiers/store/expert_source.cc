#include "tiers/store/expert_source.h"

#include "base/file_io.h"
#include "base/regular_file.h"

namespace moetier {

Result<ExpertSource> ExpertSource::Open(std::vector<std::string> shard_paths) {
  ExpertSource source;
  for (const std::string& path : shard_paths) {
    ASSIGN_OR_RETURN(UniqueFd fd, OpenRegularFile(path, O_RDONLY));
    source.shards_.push_back(std::move(fd));
  }
  source.paths_ = std::move(shard_paths);
  return source;
}

Status ExpertSource::ReadInto(std::vector<std::byte>& buffer, uint32_t shard, uint64_t offset,
                              uint64_t bytes) {
  buffer.resize(bytes);
  return ReadExactly(shards_[shard].get(), offset, buffer, paths_[shard]);
}

Result<kernels::SourceExpert> ExpertSource::Read(const MoeLayerSource& layer, uint32_t expert) {
  kernels::SourceExpert out;
  for (size_t role = 0; role < kernels::kPartRoles; ++role) {
    if (!layer.parts[role]) continue;
    const PartSource& part = *layer.parts[role];
    RETURN_IF_ERROR(
        ReadInto(buffers_[role], part.shard, part.offset + expert * part.stride, part.bytes));
    out.parts[role] = buffers_[role];
  }
  return out;
}

Result<std::span<const std::byte>> ExpertSource::Read(const GgufTensor& tensor) {
  RETURN_IF_ERROR(ReadInto(buffers_[0], tensor.shard, tensor.offset, tensor.bytes));
  return std::span<const std::byte>(buffers_[0]);
}

}  // namespace moetier
