#include "daemon/ctl/mistyped.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "config/nearest.h"
#include "daemon/ctl/text_table.h"

namespace moetier {
namespace {

std::vector<std::string> OptionNames(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* const option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* const command : app.get_subcommands({}))
    names.push_back(command->get_name());
  return names;
}

std::string Guess(std::string_view word, const std::vector<std::string>& names) {
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  const std::string_view nearest = Nearest(word, candidates);
  return nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest);
}

}  // namespace

std::optional<std::string> MistypedText(const CLI::App& app) {
  const CLI::App* innermost = &app;
  while (!innermost->get_subcommands().empty()) innermost = innermost->get_subcommands().front();
  const CLI::App& command = *innermost;
  std::vector<std::string> words = app.remaining(true);
  std::erase(words, "--");
  if (words.empty()) return std::nullopt;
  // What follows a mistyped option was its value, so an option is the better culprit.
  const auto option =
      std::ranges::find_if(words, [](const std::string& word) { return word.starts_with('-'); });
  if (option != words.end()) {
    const std::string word = option->substr(0, option->find('='));
    return fmt::format("{} is no option of {}{}", WithoutControls(word), command.get_name(),
                       Guess(word, OptionNames(command)));
  }
  const std::string& word = words.front();
  if (!CommandNames(command).empty()) {
    return fmt::format("{} is no subcommand{}", WithoutControls(word),
                       Guess(word, CommandNames(command)));
  }
  return fmt::format("{} is one argument too many for {}", WithoutControls(word),
                     command.get_name());
}

}  // namespace moetier
