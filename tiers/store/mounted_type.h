#ifndef MOETIER_TIERS_STORE_MOUNTED_TYPE_H_
#define MOETIER_TIERS_STORE_MOUNTED_TYPE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

// Which file system an open file lies on, without asking it: one that has a server (FUSE, NFS) may
// never answer, not even fstat or fstatfs.

namespace moetier {

// One mount, by its number or by its device.
struct MountKey {
  uint64_t mount = 0;
  uint32_t major = 0;
  uint32_t minor = 0;
};

// The type ("ext4") that `mountinfo`, a text as /proc/self/mountinfo, gives the mount of that
// number, else the first of that device. A mount of another namespace is found by its device, a
// part of a btrfs file system by its number. None when there is neither. Pure.
std::optional<std::string> FindMountedType(std::string_view mountinfo, const MountKey& key);

// The type for an open descriptor; kUnavailable, kIo when the host does not tell, none when the
// file is on no mount that this process sees. Never blocks.
Result<std::optional<std::string>> MountedType(int fd);

// Whether a file system of that type has its data on this host, so that reading ends.
bool IsLocalType(std::string_view type);

}  // namespace moetier

#endif  // MOETIER_TIERS_STORE_MOUNTED_TYPE_H_
