#include "tiers/store/mounted_type.h"

#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "base/unique_fd.h"

namespace moetier {
namespace {

constexpr std::string_view kMounts =
    "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
    "27 1 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/vda rw\n"
    "31 27 0:40 / /home/a\\040-\\040b rw - fuse.sshfs host:/ rw\n"
    "short\n"
    "no options\n"
    "33 27 0:50 /sub /data rw - btrfs /dev/vdb rw\n"
    "34 27 0:21 / /other/proc rw - second proc rw";

}  // namespace

TEST_CASE("FindMountedType: by the mount's number, else the device's first, else none", "[store]") {
  using Type = std::optional<std::string>;
  CHECK(FindMountedType(kMounts, {.mount = 27, .major = 9, .minor = 9}) == Type("ext4"));
  CHECK(FindMountedType(kMounts, {.mount = 31, .major = 254, .minor = 0}) == Type("fuse.sshfs"));
  CHECK(FindMountedType(kMounts, {.mount = 33, .major = 0, .minor = 99}) == Type("btrfs"));
  CHECK(FindMountedType(kMounts, {.mount = 34, .major = 0, .minor = 0}) == Type("second"));
  CHECK(FindMountedType(kMounts, {.mount = 7, .major = 254, .minor = 0}) == Type("ext4"));
  CHECK(FindMountedType(kMounts, {.mount = 7, .major = 0, .minor = 21}) == Type("proc"));
  CHECK(FindMountedType(kMounts, {.mount = 2, .major = 25, .minor = 4}) == std::nullopt);
  CHECK(FindMountedType("", {}) == std::nullopt);
  CHECK(FindMountedType("\n\n - \n1\n1 1 0:0 - ", {.mount = 9}) == std::nullopt);
}

TEST_CASE("MountedType: an open file's, and none for what is on no mount", "[store]") {
  const auto type = MountedType(UniqueFd::Open("/proc/self/maps", O_RDONLY)->get());
  REQUIRE(type.has_value());
  CHECK(*type == std::optional<std::string>("proc"));
  int ends[2] = {-1, -1};
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const UniqueFd read_end(ends[0]);
  const UniqueFd write_end(ends[1]);
  const auto none = MountedType(read_end.get());
  REQUIRE(none.has_value());
  CHECK(*none == std::nullopt);
  CHECK_FALSE(MountedType(-1).has_value());
}

TEST_CASE("IsLocalType: those of drives and memory, none that has a server", "[store]") {
  for (const std::string_view local : {"ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs", "f2fs"}) {
    CHECK(IsLocalType(local));
  }
  for (const std::string_view other :
       {"nfs", "nfs4", "cifs", "fuse", "fuse.sshfs", "fuseblk", "9p", "ceph", "proc", ""}) {
    CHECK_FALSE(IsLocalType(other));
  }
}

}  // namespace moetier
