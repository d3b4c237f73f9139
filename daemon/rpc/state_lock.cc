#include "daemon/rpc/state_lock.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/unique_fd.h"

namespace moetier {

Result<StateLock> StateLock::Take(const std::string& directory) {
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::path(directory).parent_path();
  if (!parent.empty()) std::filesystem::create_directories(parent, error);
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return ErrnoError(errno, "make the state directory " + directory);
  }
  ASSIGN_OR_RETURN(PidLock lock,
                   PidLock::Take(directory + "/lock",
                                 "stop it, or give this one another state_directory and socket"));
  return StateLock(std::move(lock));
}

}  // namespace moetier
