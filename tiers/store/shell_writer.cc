#include "tiers/store/shell_writer.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "base/file_io.h"
#include "base/regular_file.h"
#include "base/text_size.h"
#include "base/unique_fd.h"
#include "tiers/store/gguf_shards.h"
#include "tiers/store/gguf_writer.h"
#include "tiers/store/moe_model.h"
#include "tiers/store/shell_gguf.h"
#include "tiers/store/store_index.h"

namespace moetier {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{8} << 20;  // copied between two calls of the callback
constexpr std::string_view kNote =
    "No expert weights are in this file: an engine needs libggml-moetier.so and a moetierd that "
    "has the model's store, and computes nonsense without them.";

// A dense tensor's way from the model into the shell.
struct Copy {
  uint32_t shard = 0;
  uint64_t from = 0;
  uint64_t to = 0;
  uint64_t bytes = 0;
};

struct ShellPlan {
  WrittenGgufHeader header;
  std::vector<Copy> copies;
  ShellSummary summary;
};

// Neither name may be a file of the model: what is written there is emptied first.
Status RefuseModelFile(const std::string& path, std::span<const std::string> shards) {
  for (const std::string& shard : shards) {
    std::error_code ignored;  // a file that is not there is none of them
    if (!std::filesystem::equivalent(path, shard, ignored)) continue;
    return Error{ErrorCode::kAlreadyExists, Reason::kUnspecified,
                 fmt::format("{} is the model itself; write the shell to another name", path)};
  }
  return Ok{};
}

Status RefuseOutput(const ShellOptions& options, const std::string& partial,
                    std::span<const std::string> shards, FileSystem& files) {
  RETURN_IF_ERROR(RefuseModelFile(options.output_path, shards));
  RETURN_IF_ERROR(RefuseModelFile(partial, shards));
  ASSIGN_OR_RETURN(const bool exists, files.Exists(options.output_path));
  if (!exists || options.overwrite == Overwrite::kYes) return Ok{};
  return Error{ErrorCode::kAlreadyExists, Reason::kUnspecified,
               fmt::format("{} exists; choose another name, or replace it with --force",
                           options.output_path)};
}

// The header's own bytes of each pair, without what made the model a split one.
Status AddPairs(const GgufFile& first, const UniqueFd& file, GgufHeaderWriter& writer) {
  std::vector<std::byte> raw;
  for (const GgufPair& pair : first.header.pairs) {
    if (pair.key.starts_with("split.")) continue;
    raw.resize(static_cast<size_t>(pair.bytes));
    RETURN_IF_ERROR(ReadExactly(file.get(), pair.offset, raw, first.path));
    writer.AddPair(raw);
  }
  return Ok{};
}

// What of each tensor goes where, once the header says where tensors lie.
void PlanCopies(const GgufModel& gguf, ShellPlan& plan) {
  plan.summary.copied_bytes = plan.header.bytes.size();
  plan.summary.file_bytes = plan.header.file_bytes;
  for (size_t i = 0; i < gguf.tensors().size(); ++i) {
    const GgufTensor& from = gguf.tensors()[i];
    const GgufTensor& to = plan.header.tensors[i];
    if (IsShellHole(from.name)) {
      ++plan.summary.hole_tensors;
      continue;
    }
    plan.copies.push_back({from.shard, from.offset, to.offset, from.bytes});
    plan.summary.copied_bytes += from.bytes;
  }
}

Status RefuseSize(const GgufFile& file) {
  if (file.bytes <= kMaxStoreFileBytes) return Ok{};
  return Error{
      ErrorCode::kInvalidArgument, Reason::kTooLarge,
      fmt::format("{} has {} bytes, {} are the most", file.path, file.bytes, kMaxStoreFileBytes)};
}

Result<ShellPlan> MakeShellPlan(std::vector<GgufFile> model, std::span<const UniqueFd> shards) {
  ShellPlan plan;
  GgufHeaderWriter writer(model.front().header.alignment);
  RETURN_IF_ERROR(AddPairs(model.front(), shards.front(), writer));
  for (const GgufFile& file : model) {
    RETURN_IF_ERROR(RefuseSize(file));
    plan.summary.source_bytes += file.bytes;
  }
  const GgufModel gguf = GgufModel::FromFiles(std::move(model));
  ASSIGN_OR_RETURN(const std::optional<uint64_t> shell_of, ShellFingerprint(gguf));
  if (shell_of) {
    return Error{ErrorCode::kInvalidArgument, Reason::kUnsupportedModel,
                 fmt::format("{} is a shell itself (of the model with fingerprint {:016x}); give "
                             "the whole model",
                             gguf.shard_paths().front(), *shell_of)};
  }
  // Nothing in a shell depends on the activation, so one is named for architectures unknown here.
  ASSIGN_OR_RETURN(const MoeModel experts,
                   ReadMoeModel(gguf, {.activation = kernels::Activation::kSwiGlu}));
  ASSIGN_OR_RETURN(plan.summary.fingerprint, ModelFingerprint(gguf, experts, shards));
  plan.summary.name = experts.geometry.name;
  writer.AddNumber(kShellVersionKey, kShellVersion);
  writer.AddText(kShellFingerprintKey, fmt::format("{:016x}", plan.summary.fingerprint));
  writer.AddText(kShellNoteKey, kNote);
  for (const GgufTensor& tensor : gguf.tensors()) {
    writer.AddTensor(IsShellHole(tensor.name) ? AsShellHole(tensor) : tensor);
  }
  plan.header = std::move(writer).Finish();
  PlanCopies(gguf, plan);
  return plan;
}

// Writes one shell to its temporary name.
class ShellFile {
 public:
  ShellFile(const ShellPlan& plan, std::span<const UniqueFd> shards,
            std::span<const std::string> paths, const ShellCallback& callback)
      : plan_(plan), shards_(shards), paths_(paths), callback_(callback) {}

  Status Write(const std::string& path, FileSystem& files) {
    ASSIGN_OR_RETURN(file_, files.Open(path, FileSystem::Mode::kCreate));
    // Sets the length; what is never written after it stays a hole.
    RETURN_IF_ERROR(file_->Truncate(plan_.header.file_bytes));
    RETURN_IF_ERROR(file_->WriteAt(0, plan_.header.bytes));
    done_ = plan_.header.bytes.size();
    for (const Copy& copy : plan_.copies) RETURN_IF_ERROR(CopyTensor(copy));
    return file_->Sync();
  }

 private:
  Status CopyTensor(const Copy& copy) {
    for (uint64_t at = 0; at < copy.bytes;) {
      piece_.resize(static_cast<size_t>(std::min(copy.bytes - at, kPieceBytes)));
      RETURN_IF_ERROR(
          ReadExactly(shards_[copy.shard].get(), copy.from + at, piece_, paths_[copy.shard]));
      RETURN_IF_ERROR(file_->WriteAt(copy.to + at, piece_));
      at += piece_.size();
      done_ += piece_.size();
      if (callback_ && !callback_({done_, plan_.summary.copied_bytes})) {
        return Error{ErrorCode::kCancelled, Reason::kCancelled, "stopped; nothing is left behind"};
      }
    }
    return Ok{};
  }

  const ShellPlan& plan_;
  const std::span<const UniqueFd> shards_;
  const std::span<const std::string> paths_;
  const ShellCallback& callback_;
  std::unique_ptr<StoreFileHandle> file_;
  std::vector<std::byte> piece_;
  uint64_t done_ = 0;
};

std::string FolderOf(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path();
  return folder.empty() ? "." : folder;
}

Status RefuseWithoutRoom(const ShellPlan& plan, const std::string& folder, FileSystem& files) {
  ASSIGN_OR_RETURN(const uint64_t free, files.FreeBytes(folder));
  if (free >= plan.summary.copied_bytes) return Ok{};
  return Error{
      ErrorCode::kExhausted, Reason::kOutOfSpace,
      fmt::format("the shell takes {} in {}, {} are free; make room or choose another "
                  "place",
                  FormatSize(Bytes(plan.summary.copied_bytes)), folder, FormatSize(Bytes(free)))};
}

}  // namespace

Result<ShellSummary> WriteShell(const ShellOptions& options, FileSystem& files,
                                const ShellCallback& callback) {
  ASSIGN_OR_RETURN(std::vector<GgufFile> model, ReadShardSet(options.model_path));
  std::vector<std::string> paths;
  std::vector<UniqueFd> shards;
  for (const GgufFile& file : model) {
    ASSIGN_OR_RETURN(UniqueFd shard, OpenRegularFile(file.path, O_RDONLY));
    paths.push_back(file.path);
    shards.push_back(std::move(shard));
  }
  const std::string partial = options.output_path + ".partial";
  RETURN_IF_ERROR(RefuseOutput(options, partial, paths, files));
  ASSIGN_OR_RETURN(const ShellPlan plan, MakeShellPlan(std::move(model), shards));
  const std::string folder = FolderOf(options.output_path);
  RETURN_IF_ERROR(RefuseWithoutRoom(plan, folder, files));
  Status written = ShellFile(plan, shards, paths, callback).Write(partial, files);
  if (written) written = files.Rename(partial, options.output_path);
  if (!written) {
    (void)files.Remove(partial);  // the first error is the one to tell
    return std::move(written).error();
  }
  RETURN_IF_ERROR(files.SyncDirectory(folder));
  return plan.summary;
}

}  // namespace moetier
