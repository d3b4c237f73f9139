#ifndef MOETIER_DAEMON_SCHEDULING_RESOLVED_FILES_H_
#define MOETIER_DAEMON_SCHEDULING_RESOLVED_FILES_H_

#include <functional>
#include <optional>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "daemon/scheduling/daemon_core.h"

namespace moetier {

// What a client's files name: a model that serves, or the work that makes one serve.
struct ResolvedFiles {
  std::optional<ModelInfo> model;  // with its hold
  // Set where `model` is none; owns the files. Takes as long as the disk does, so one such work
  // runs at a time; kCancelled when the listener says kNo.
  std::function<Result<ModelInfo>(const ProgressListener& listener)> load;
};

// From the descriptors of a model's files to the model. Reads their headers only; kCancelled once
// `keep_going` says false.
using ModelResolver = std::function<Result<ResolvedFiles>(std::vector<UniqueFd> files,
                                                          const std::function<bool()>& keep_going)>;

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_RESOLVED_FILES_H_
