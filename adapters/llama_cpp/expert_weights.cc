#include "adapters/llama_cpp/expert_weights.h"

#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include "adapters/llama_cpp/message.h"

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
  Result<FileRange> range = files_.Locate(data, size);
  if (range) {
    ranges_[tensor.name] = *range;
    DropMappedPages(data, size);
    return Ok{};
  }
  if (problem_.empty()) {
    problem_ = fmt::format(
        "{}: {}. The engine must load the model by memory mapping, its default: leave out "
        "--no-mmap, "
        "--direct-io and other load modes (use_mmap = true in a program), so that moetierd can be "
        "told "
        "the model file",
        tensor.name, range.error().message);
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
