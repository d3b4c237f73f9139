#include "base/standard_descriptors.h"

#include <fcntl.h>
#include <unistd.h>

namespace moetier {

void FillStandardDescriptors() {
  // open(2) gives the lowest number that is free. Read-only, so that a write is an error.
  int opened = 0;
  do {
    opened = ::open("/dev/null", O_RDONLY);
  } while (opened >= 0 && opened <= STDERR_FILENO);
  if (opened >= 0) ::close(opened);
}

}  // namespace moetier
