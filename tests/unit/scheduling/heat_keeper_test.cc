#include "daemon/scheduling/heat_keeper.h"

#include <spdlog/sinks/ostream_sink.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>

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
  HeatKeeper keeper(
      {.directory = directory}, tasks, log, [&] { return std::exchange(changed, {}); },
      [] { return std::set<uint64_t>(); });
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

TEST_CASE("HeatKeeper: new models push the oldest files out, but those of models that are kept",
          "[scheduling]") {
  const testing::TempFolder folder;
  TimedTasks tasks;
  std::ostringstream said;
  spdlog::logger log("test", std::make_shared<spdlog::sinks::ostream_sink_st>(said));
  HeatKeeper keeper(
      {.directory = folder.path() + "/heat", .bound = {.files = 3}}, tasks, log,
      [] { return std::vector<ModelHeat>(); }, [] { return std::set<uint64_t>{1}; });
  for (uint64_t model = 1; model <= 6; ++model) {
    keeper.Save({.fingerprint = model, .layers = {{.layer = LayerIndex{1}, .heat = {1, 2}}}});
    // Times of files are of the host's clock, which may stand still between two.
    std::filesystem::last_write_time(
        fmt::format("{}/heat/{:016x}.heat", folder.path(), model),
        std::filesystem::file_time_type::clock::now() - std::chrono::hours(10 - model));
  }
  std::set<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path() + "/heat")) {
    left.insert(entry.path().filename());
  }
  CHECK(left == std::set<std::string>{"0000000000000001.heat", "0000000000000005.heat",
                                      "0000000000000006.heat"});
  CHECK_THAT(said.str(), Catch::Contains("0000000000000002.heat is removed"));
  tasks.Stop();
}

}  // namespace moetier
