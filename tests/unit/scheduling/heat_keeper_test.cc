#include "daemon/scheduling/heat_keeper.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "tests/support/temp_folder.h"

namespace moetier {

TEST_CASE("HeatKeeper: what could not be saved is saved with the next, though it did not change",
          "[scheduling]") {
  const testing::TempFolder folder;
  const std::string directory = folder.path() + "/heat";
  std::ofstream(directory) << "no directory";
  TimedTasks tasks;
  spdlog::logger log("test");  // no sinks
  std::vector<ModelHeat> changed = {
      {.fingerprint = 7, .layers = {{.layer = LayerIndex{1}, .heat = {1, 2}}}}};
  HeatKeeper keeper({.directory = directory}, tasks, log,
                    [&] { return std::exchange(changed, {}); });
  keeper.SaveAll();
  REQUIRE(changed.empty());
  std::filesystem::remove(directory);
  keeper.SaveAll();
  const std::string path = directory + "/0000000000000007.heat";
  REQUIRE(std::filesystem::exists(path));
  std::filesystem::remove(path);
  keeper.SaveAll();  // it was saved: once is enough
  CHECK_FALSE(std::filesystem::exists(path));
  tasks.Stop();
}

}  // namespace moetier
