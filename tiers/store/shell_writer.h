#ifndef MOETIER_TIERS_STORE_SHELL_WRITER_H_
#define MOETIER_TIERS_STORE_SHELL_WRITER_H_

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "tiers/store/file_system.h"

namespace moetier {

enum class Overwrite : uint8_t { kNo, kYes };

struct ShellOptions {
  std::string model_path;   // the GGUF file, or any of its shards
  std::string output_path;  // one file, also of a split model
  Overwrite overwrite = Overwrite::kNo;
};

struct ShellProgress {
  uint64_t bytes_done = 0;  // of what is copied
  uint64_t bytes_total = 0;
};
// Called between pieces on the caller's thread. False stops: kCancelled, nothing is left behind.
using ShellCallback = std::function<bool(const ShellProgress&)>;

struct ShellSummary {
  std::string name;
  uint64_t fingerprint = 0;
  uint32_t hole_tensors = 0;
  uint64_t source_bytes = 0;  // of the model's files
  uint64_t file_bytes = 0;    // the shell's length
  uint64_t copied_bytes = 0;  // header and dense tensors: about what it takes on disk
};

// Writes the shell of a model (shell_gguf.h): metadata pairs and dense tensors byte for byte,
// expert weights as holes. Writes OUTPUT.partial, syncs it, then gives it its name, so that OUTPUT
// is at any time what it was or a whole shell; a partial one of an interrupted run is written anew.
// Refuses: kAlreadyExists when OUTPUT exists (unless overwriting) or is one of the model's files;
// kInvalidArgument for a model that is a shell; kUnsupportedModel and kUnsupportedType for experts
// that the daemon would not compute; kOutOfSpace, asked before anything is written. Blocks; any
// thread, one an output.
Result<ShellSummary> WriteShell(const ShellOptions& options, FileSystem& files,
                                const ShellCallback& callback = nullptr);

}  // namespace moetier

#endif  // MOETIER_TIERS_STORE_SHELL_WRITER_H_
