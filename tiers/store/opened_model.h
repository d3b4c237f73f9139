#ifndef MOETIER_TIERS_STORE_OPENED_MODEL_H_
#define MOETIER_TIERS_STORE_OPENED_MODEL_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "tiers/store/gguf_model.h"
#include "tiers/store/store_index.h"

namespace moetier {

// One file of this host, by whatever name or descriptor, as long as somebody holds it open.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

// A model that somebody else opened: its headers, and its files in the order of its shards.
struct OpenedModel {
  GgufModel gguf;
  std::vector<UniqueFd> files;
  std::vector<FileIdentity> identities;
  std::vector<SourceFile> sources;  // paths are the kernel's names of the descriptors: for messages
  uint64_t fingerprint = 0;         // for a shell, the one that it names
  bool is_shell = false;
};

inline constexpr size_t kMaxOpenedFiles = 64;

// Reads a model through descriptors alone: no path is opened, nothing is mapped. They may come from
// anyone: each must be a regular file that is open for reading (so that nobody has us read what he
// may not) on a local file system (so that reading ends), all headers together are bounded, every
// shard must be given, in any order. Errors name the file: kInvalidArgument for what is no such
// file, else as GgufModel::Open, ReadMoeModel and ModelFingerprint; kCancelled once `keep_going`,
// asked between files, says false.
Result<OpenedModel> OpenModelFiles(
    std::vector<UniqueFd> files, const std::function<bool()>& keep_going = [] { return true; });

}  // namespace moetier

#endif  // MOETIER_TIERS_STORE_OPENED_MODEL_H_
