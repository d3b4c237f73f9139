#include "tests/support/recorded_routes.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace moetier {
namespace {

std::map<std::string, Route> ReadGranite() {
  std::map<std::string, Route> prompts;
  std::ifstream file(MOETIER_TEST_DATA "/granite-trace/decode.txt");
  std::string line;
  std::string prompt;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word == "prompt") {
      words >> prompt;
      continue;
    }
    for (uint32_t layer = 0; !word.empty(); ++layer) {
      Group group;
      for (const char letter : word) {
        const int expert = letter <= '9' ? letter - '0' : letter - 'a' + 10;
        group.push_back(layer * 32 + static_cast<uint32_t>(expert));
      }
      prompts[prompt].push_back(group);
      if (!(words >> word)) word.clear();
    }
  }
  return prompts;
}

Route ReadDemo() {
  std::ifstream file(MOETIER_TEST_DATA "/demo-moe/routing-trace.json");
  const nlohmann::json trace = nlohmann::json::parse(file);
  Route route;
  for (const nlohmann::json& token : trace.at("experts")) {
    for (uint32_t layer = 0; layer < kDemoLayers; ++layer) {
      Group group;
      for (const nlohmann::json& expert : token.at(layer)) {
        group.push_back(layer * 32 + expert.get<uint32_t>());
      }
      route.push_back(group);
    }
  }
  return route;
}

}  // namespace

const std::map<std::string, Route>& GraniteRoutes() {
  static const std::map<std::string, Route> routes = ReadGranite();
  return routes;
}

const Route& DemoRoute() {
  static const Route route = ReadDemo();
  return route;
}

}  // namespace moetier
