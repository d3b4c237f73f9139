#ifndef MOETIER_BASE_PERMISSION_REMEDY_H_
#define MOETIER_BASE_PERMISSION_REMEDY_H_

#include <string>

namespace moetier {

// "user moetier may not open it: ...": who this process is and what to change, for a message about
// a path that was refused with EACCES.
std::string PermissionRemedy(const std::string& path);

// Whom this process runs as: the name, or "uid 1000" where there is none.
std::string UserName();

}  // namespace moetier

#endif  // MOETIER_BASE_PERMISSION_REMEDY_H_
