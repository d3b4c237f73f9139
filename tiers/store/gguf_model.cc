#include "tiers/store/gguf_model.h"

#include <utility>

#include "tiers/store/gguf_header.h"
#include "tiers/store/gguf_shards.h"

namespace moetier {

GgufModel GgufModel::FromFiles(std::vector<GgufFile> files) {
  GgufModel model;
  model.metadata_ = std::move(files.front().header.metadata);
  for (size_t shard = 0; shard < files.size(); ++shard) {
    for (GgufTensor& tensor : files[shard].header.tensors) {
      tensor.shard = static_cast<uint32_t>(shard);
      const bool fresh = model.tensor_index_.emplace(tensor.name, model.tensors_.size()).second;
      MOE_CHECK(fresh, "tensor {} passed the shard check twice", tensor.name);
      model.tensors_.push_back(std::move(tensor));
    }
    model.shard_paths_.push_back(std::move(files[shard].path));
    model.shard_bytes_.push_back(files[shard].bytes);
  }
  return model;
}

Result<GgufModel> GgufModel::Open(const std::string& path) {
  ASSIGN_OR_RETURN(std::vector<GgufFile> files, ReadShardSet(path));
  return FromFiles(std::move(files));
}

Result<GgufModel> GgufModel::Parse(std::span<const std::byte> head, uint64_t file_bytes,
                                   const std::string& path) {
  ASSIGN_OR_RETURN(std::optional<GgufHeader> header, ParseGgufHeader(head, file_bytes, path));
  if (!header) {
    return Error{
        ErrorCode::kInvalidArgument, Reason::kBadGguf,
        fmt::format("{}: the header goes on beyond the {} bytes given", path, head.size())};
  }
  std::vector<GgufFile> files;
  files.push_back(GgufFile{path, file_bytes, std::move(*header)});
  return FromFiles(std::move(files));
}

const GgufValue* GgufModel::Find(std::string_view key) const {
  const auto found = metadata_.find(key);
  return found == metadata_.end() ? nullptr : &found->second;
}

std::optional<uint64_t> GgufModel::FindUnsigned(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<uint64_t>(value)) return *number;
  if (const auto* number = std::get_if<int64_t>(value); number != nullptr && *number >= 0) {
    return static_cast<uint64_t>(*number);
  }
  return std::nullopt;
}

std::optional<double> GgufModel::FindNumber(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<double>(value)) return *number;
  if (const auto* number = std::get_if<uint64_t>(value)) return static_cast<double>(*number);
  if (const auto* number = std::get_if<int64_t>(value)) return static_cast<double>(*number);
  return std::nullopt;
}

const std::string* GgufModel::FindString(std::string_view key) const {
  const GgufValue* value = Find(key);
  return value == nullptr ? nullptr : std::get_if<std::string>(value);
}

const GgufTensor* GgufModel::FindTensor(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

}  // namespace moetier
