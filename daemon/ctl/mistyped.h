#ifndef MOETIER_DAEMON_CTL_MISTYPED_H_
#define MOETIER_DAEMON_CTL_MISTYPED_H_

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

namespace moetier {

// After a parse that failed: names the word that is no subcommand or no option, and the one most
// likely meant. None when every word was understood, so that the parser's own text tells more.
std::optional<std::string> MistypedText(const CLI::App& app);

}  // namespace moetier

#endif  // MOETIER_DAEMON_CTL_MISTYPED_H_
