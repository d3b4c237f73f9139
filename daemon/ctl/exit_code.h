#ifndef MOETIER_DAEMON_CTL_EXIT_CODE_H_
#define MOETIER_DAEMON_CTL_EXIT_CODE_H_

#include <string_view>

#include "base/result.h"

namespace moetier {

// What moetierctl's exit status says; each subcommand's --help lists them.
enum class ExitCode : int {
  kOk = 0,
  kWrong = 1,        // the thing asked about is wrong: damaged store, differing bits, failed check
  kUsage = 2,        // bad arguments
  kUnreachable = 3,  // no daemon answers on the socket
  kFailed = 4,       // it could not be done: refused, no such file, no space
  kUnread = 141,     // nobody reads the output any more: `| head` (128 + SIGPIPE)
  kInterrupted = 130,  // SIGINT or SIGTERM; what was done is kept (128 + SIGINT, as shells have it)
};

inline constexpr std::string_view kExitCodeHelp =
    "Exit status: 0 done and good; 1 the thing asked about is wrong; 2 bad arguments;\n"
    "3 no daemon answers; 4 it could not be done, or its result not be written;\n"
    "130 interrupted, what was done is kept; 141 the reader of the output ended first.";

}  // namespace moetier

#endif  // MOETIER_DAEMON_CTL_EXIT_CODE_H_
