#ifndef MOETIER_TESTS_SUPPORT_AS_NOBODY_H_
#define MOETIER_TESTS_SUPPORT_AS_NOBODY_H_

#include <sys/fsuid.h>
#include <unistd.h>

namespace moetier::testing {

// In its scope the calling thread opens files as nobody, also where tests run as root, whom no mode
// of a file stops. Other users are not changed: for them, take the mode away from its owner too.
class AsNobody {
 public:
  AsNobody() {
    if (::geteuid() != 0) return;
    ::setfsgid(kNobody);
    ::setfsuid(kNobody);
  }
  ~AsNobody() {
    ::setfsuid(::geteuid());
    ::setfsgid(::getegid());
  }
  AsNobody(const AsNobody&) = delete;
  AsNobody& operator=(const AsNobody&) = delete;

 private:
  static constexpr unsigned kNobody = 65534;
};

}  // namespace moetier::testing

#endif  // MOETIER_TESTS_SUPPORT_AS_NOBODY_H_
