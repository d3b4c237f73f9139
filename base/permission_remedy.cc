#include "base/permission_remedy.h"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <array>

namespace moetier {

std::string UserName() {
  const uid_t user = ::geteuid();
  std::array<char, 4096> text;  // an entry of passwd(5) is a short line
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwuid_r(user, &entry, text.data(), text.size(), &found) != 0 || found == nullptr) {
    return fmt::format("uid {}", user);
  }
  return entry.pw_name;
}

std::string PermissionRemedy(const std::string& path) {
  return fmt::format(
      "user {} may not open it: chmod or chgrp it or a folder above it (`namei -l {}` shows whose "
      "they are)",
      UserName(), path);
}

}  // namespace moetier
