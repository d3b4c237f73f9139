#include "daemon/scheduling/model_loading.h"

#include <catch2/catch.hpp>

#include "tests/support/fake_record_reader.h"
#include "tests/support/temp_folder.h"
#include "tiers/store/importer.h"

namespace moetier {
namespace {

const std::string kDemo = MOETIER_TEST_DATA "/demo-moe/moetier-demo-Q4_K_M.gguf";

class NoListener final : public ReadListener {
 public:
  void OnRead(const ReadCompletion&) override {}
};

HeatLookup NoHeat() {
  return [](uint64_t, const ModelGeometry&) { return HeatFolder::Found{}; };
}

class DemoStore {
 public:
  DemoStore() {
    ImportOptions options;
    options.model_path = kDemo;
    options.store_directory = folder.File("store");
    options.in_place = true;
    const Result<ImportSummary> imported = ImportModel(options, HostFileSystem(), nullptr);
    INFO((imported.has_value() ? "" : imported.error().message));
    REQUIRE(imported.has_value());
  }
  Result<std::unique_ptr<LoadedModel>> Load(MemoryBudget ram) {
    ArenaOptions arena;
    arena.what = "models[demo].ram";
    return BuildModel({.name = "demo", .directory = folder.File("store"), .ram = ram}, ModelId{1},
                      arena, kept, reader);
  }
  testing::TempFolder folder;
  NoListener listener;
  FakeRecordReader reader{{}, listener};
  HeatLookup kept = NoHeat();
};

}  // namespace

TEST_CASE("field_10: RAM below one token's experts is warned of with numbers", "[scheduling]") {
  DemoStore demo;
  Result<std::unique_ptr<LoadedModel>> small = demo.Load(Percent{10});
  REQUIRE(small.has_value());
  CHECK_THAT(BelowWorkingSet(**small).value(),
             Catch::Contains("one token's 24 experts (6 layers x top-4)"));
  CHECK((*small)->ledgers[0]->slot_count() == 10);
  CHECK((*small)->ledgers[1]->slot_count() == 9);
  CloseModel(std::move(small).value(), demo.reader);

  Result<std::unique_ptr<LoadedModel>> enough = demo.Load(Percent{25});
  REQUIRE(enough.has_value());
  CHECK_FALSE(BelowWorkingSet(**enough).has_value());
  CloseModel(std::move(enough).value(), demo.reader);
}

TEST_CASE("BuildModel: a budget that cannot hold one call's experts is refused with what it takes",
          "[scheduling]") {
  DemoStore demo;
  const Result<std::unique_ptr<LoadedModel>> refused = demo.Load(500_KiB);
  REQUIRE(!refused.has_value());
  CHECK(refused.error().reason == Reason::kBudgetTooSmall);
  CHECK_THAT(refused.error().message, Catch::StartsWith("models[demo].ram: a budget of 500"));
  CHECK(refused.error().message.find("944") != std::string::npos);  // KiB: 4 x (108 + 128)
  CHECK(demo.Load(944_KiB).has_value());
}

TEST_CASE("BuildModel: a budget above the model's bytes is all of it", "[scheduling]") {
  DemoStore demo;
  Result<std::unique_ptr<LoadedModel>> loaded = demo.Load(Bytes(UINT64_MAX));
  REQUIRE(loaded.has_value());
  CHECK((*loaded)->budget == (*loaded)->geometry->TotalBytes());
  CloseModel(std::move(loaded).value(), demo.reader);
}

TEST_CASE("BuildModel: a GGUF file in the place of a store is told what to do", "[scheduling]") {
  DemoStore demo;
  const Result<std::unique_ptr<LoadedModel>> refused = BuildModel(
      {.name = "demo", .directory = kDemo}, ModelId{1}, ArenaOptions{}, NoHeat(), demo.reader);
  REQUIRE(!refused.has_value());
  CHECK(refused.error().message.find("moetierctl import") != std::string::npos);
}

TEST_CASE("BuildModel: an unknown policy is refused with the names that exist", "[scheduling]") {
  DemoStore demo;
  const Result<std::unique_ptr<LoadedModel>> refused =
      BuildModel({.name = "demo", .directory = demo.folder.File("store"), .policy = "best"},
                 ModelId{1}, ArenaOptions{}, NoHeat(), demo.reader);
  REQUIRE(!refused.has_value());
  CHECK(refused.error().message.find("lru") != std::string::npos);
}

}  // namespace moetier
