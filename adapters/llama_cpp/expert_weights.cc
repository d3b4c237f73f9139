#include "adapters/llama_cpp/expert_weights.h"

#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <utility>

#include "adapters/llama_cpp/message.h"
#include "kernels/weight_type.h"

namespace moetier::ggml {
namespace {

// Failing is harmless (locked pages stay): the pages are only a copy of the file.
void DropMappedPages(const void* data, uint64_t size) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<uintptr_t>(data);
  const uintptr_t start = (first + page - 1) / page * page;
  const uintptr_t end = (first + size) / page * page;
  if (start < end) madvise(reinterpret_cast<void*>(start), end - start, MADV_DONTNEED);
}

}  // namespace

Status ExpertWeights::Add(const Tensor& tensor, const void* data, uint64_t size) {
  const Result<FileRange> range = files_.Locate(data, size);
  if (!range) {
    return Refuse(fmt::format(
        "{}: {}. The engine must load the model by memory mapping, its default: leave out "
        "--no-mmap, --direct-io and other load modes (use_mmap = true in a program), so that "
        "moetierd can be told the model file",
        tensor.name, range.error().message));
  }
  const kernels::WeightTypeInfo* const type =
      kernels::FindWeightType(static_cast<uint32_t>(tensor.type));
  if ((type == nullptr || !type->has_kernel) && !files_.IsShell(*range)) {
    return Refuse(
        fmt::format("{} is of type {}, for which moetierd has no kernel: start the engine "
                    "without the plug-in (unset GGML_BACKEND_PATH)",
                    tensor.name, type != nullptr ? type->name : "unknown"));
  }
  ranges_[tensor.name] = *range;
  DropMappedPages(data, size);
  return Ok{};
}

// The first problem is said and kept.
Status ExpertWeights::Refuse(std::string problem) {
  if (problem_.empty()) {
    problem_ = std::move(problem);
    Say(problem_);
  }
  return Usable();
}

Status ExpertWeights::Read(const Tensor& tensor, uint64_t offset, std::span<std::byte> out) const {
  const auto found = ranges_.find(std::string_view(tensor.name));
  if (found == ranges_.end() || offset > found->second.size ||
      out.size() > found->second.size - offset) {
    RETURN_IF_ERROR(Usable());
    return Error{ErrorCode::kInternal, Reason::kBadShape,
                 fmt::format("{} has no bytes {} to {}", tensor.name, offset, offset + out.size())};
  }
  return files_.Read(found->second, offset, out);
}

Status ExpertWeights::Usable() const {
  if (problem_.empty()) return Ok{};
  return Error{ErrorCode::kFailedPrecondition, Reason::kUnsupportedModel, problem_};
}

}  // namespace moetier::ggml
