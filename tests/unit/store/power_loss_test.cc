#include <catch2/catch.hpp>

#include "tests/support/fake_file_system.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/temp_folder.h"
#include "tiers/store/importer.h"
#include "tiers/store/indexed_store.h"
#include "tiers/store/verifier.h"

namespace moetier {
namespace {

// A model of four experts, so that every operation of its import can be interrupted.
struct Model {
  testing::TempFolder folder;
  ImportOptions options;

  explicit Model(bool in_place) {
    options.model_path = folder.File("model.gguf");
    options.store_directory = "/store";
    options.sync_bytes = 1;
    options.in_place = in_place;
    testing::MakeMoeGguf({.experts = 2, .choice_bias = true}).WriteFile(options.model_path);
  }
};

// A store that opens has every record right; before it opens it may be anything.
void CheckNeverCorrupt(FakeFileSystem& files) {
  if (!OpenStore("/store", files)) return;
  const auto report = VerifyStore("/store", {}, files);
  REQUIRE(report.has_value());
  CHECK(report->damaged.empty());
}

}  // namespace

TEST_CASE("Import: power lost at any operation leaves no bad store, and resumes to the same bytes",
          "[store]") {
  const Model model(GENERATE(false, true));
  const auto survival = GENERATE(Survival::kNothing, Survival::kScattered, Survival::kEverything);
  FakeFileSystem whole;
  REQUIRE(ImportModel(model.options, whole).has_value());
  const auto expected = whole.Contents();
  const uint64_t seeds = survival == Survival::kScattered ? 4 : 1;
  for (uint64_t operation = 0; operation < whole.operations(); ++operation) {
    for (uint64_t seed = 0; seed < seeds; ++seed) {
      INFO("operation " << operation << ", seed " << seed);
      FakeFileSystem files;
      files.LosePowerAt(operation);
      REQUIRE_FALSE(ImportModel(model.options, files).has_value());
      files.Restart(survival, seed);
      CheckNeverCorrupt(files);
      const auto resumed = ImportModel(model.options, files);
      INFO((resumed ? "" : resumed.error().message));
      REQUIRE(resumed.has_value());
      files.Restart(Survival::kNothing, 0);
      CHECK(files.Contents() == expected);
    }
  }
}

TEST_CASE("Import: killed, resumed and then without power, it still ends with the same bytes",
          "[store]") {
  const Model model(false);
  FakeFileSystem whole;
  REQUIRE(ImportModel(model.options, whole).has_value());
  const auto expected = whole.Contents();
  for (uint64_t kill = 0; kill < whole.operations(); ++kill) {
    for (uint64_t loss = kill % 3; loss < whole.operations(); loss += 3) {
      INFO("killed at " << kill << ", power lost at " << loss);
      FakeFileSystem files;
      files.LosePowerAt(kill);
      REQUIRE_FALSE(ImportModel(model.options, files).has_value());
      files.Restart(Survival::kEverything, 0);
      files.LosePowerAt(loss);
      // A short rest of the work may be done before the power goes.
      const bool done = ImportModel(model.options, files).has_value();
      files.Restart(Survival::kScattered, kill * 1000 + loss);
      CheckNeverCorrupt(files);
      if (done) CHECK(OpenStore("/store", files).has_value());
      REQUIRE(ImportModel(model.options, files).has_value());
      CHECK(files.Contents() == expected);
    }
  }
}

TEST_CASE("Import: what its journal counts survives a power loss", "[store]") {
  const Model model(GENERATE(false, true));
  FakeFileSystem files;
  REQUIRE_FALSE(ImportModel(model.options, files, [](const ImportProgress& progress) {
                  return progress.experts_done < 3;
                }).has_value());
  files.Restart(Survival::kNothing, 0);
  CHECK(ImportModel(model.options, files)->experts_resumed == 3);
}

TEST_CASE("Import: on a drive whose fsync does nothing, a power loss is seen", "[store]") {
  // Were it not, the cases above would prove nothing.
  const Model model(false);
  FakeFileSystem files;
  files.IgnoreFileSyncs();
  REQUIRE(ImportModel(model.options, files).has_value());
  const auto expected = files.Contents();
  files.Restart(Survival::kScattered, 1);
  CHECK(files.Contents() != expected);
}

}  // namespace moetier
