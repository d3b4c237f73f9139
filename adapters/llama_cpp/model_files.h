#ifndef MOETIER_ADAPTERS_LLAMA_CPP_MODEL_FILES_H_
#define MOETIER_ADAPTERS_LLAMA_CPP_MODEL_FILES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace moetier::ggml {

// A stretch of one of the files below.
struct FileRange {
  size_t file;  // its index
  uint64_t offset;
  uint64_t size;
};

// Where a mapped address comes from, as /proc/PID/maps says.
struct Mapping {
  std::string path;
  uint64_t offset;  // in the file, of the address asked for
};
// Looks up [address, address + size) in the text of a maps file. kNotFound when it is not wholly
// inside one read-only mapping of a file.
Result<Mapping> FindMapping(std::string_view maps, uintptr_t address, uint64_t size);

// All shards of a split model, in order: "x-00002-of-00003.gguf" gives three paths; one otherwise.
std::vector<std::string> ShardPaths(const std::string& path);

// The model files that an engine has mapped, opened again by us for reading.
// Threads: Locate by one thread, while the engine loads; the rest by any afterwards.
class ModelFiles {
 public:
  // Finds the file that the engine has mapped at `data`; opens it and its shards the first time.
  // An error if the file has lost its name meanwhile.
  Result<FileRange> Locate(const void* data, uint64_t size);

  // Reads all of `out`, or says where the file ended or failed. A shell that `moetierctl shell`
  // made has no expert bytes to read: an error.
  Status Read(const FileRange& range, uint64_t offset, std::span<std::byte> out) const;

  // Whether the range lies in a file that `moetierctl shell` made.
  [[nodiscard]] bool IsShell(const FileRange& range) const { return files_[range.file].is_shell; }

  // Descriptors of all files, valid while this object lives.
  [[nodiscard]] std::vector<int> Descriptors() const;
  [[nodiscard]] size_t count() const { return files_.size(); }
  [[nodiscard]] const std::string& path(size_t file) const { return files_[file].path; }

 private:
  struct File {
    std::string path;
    UniqueFd fd;
    bool is_shell;
  };
  Result<size_t> IndexOf(const std::string& path);

  std::vector<File> files_;
};

}  // namespace moetier::ggml

#endif  // MOETIER_ADAPTERS_LLAMA_CPP_MODEL_FILES_H_
