#include "tiers/store/store_catalog.h"

#include <catch2/catch.hpp>

#include "tests/support/gguf_builder.h"
#include "tests/support/temp_folder.h"
#include "tiers/store/importer.h"

namespace moetier {

TEST_CASE("StoreDirectoryName: is one safe name whatever the model is called", "[store]") {
  CHECK(StoreDirectoryName("Qwen3 30B-A3B", 0x12ab) == "qwen3-30b-a3b-00000000000012ab");
  CHECK(StoreDirectoryName("../../etc/passwd", 1) == "etc-passwd-0000000000000001");
  CHECK(StoreDirectoryName("", 1) == "model-0000000000000001");
  CHECK(StoreDirectoryName("...", 1) == "model-0000000000000001");
  CHECK(StoreDirectoryName("a\xff\x1b\nb", 1) == "a-b-0000000000000001");
  CHECK(StoreDirectoryName(std::string(5000, 'x'), 1).size() == 97);
}

TEST_CASE("ListStores: tells complete, unfinished and damaged stores apart", "[store]") {
  const testing::TempFolder folder;
  const std::string model = folder.File("model.gguf");
  testing::MakeMoeGguf({}).WriteFile(model);
  const auto import = [&](const std::string& name, const ImportCallback& callback) {
    ImportOptions options;
    options.model_path = model;
    options.store_directory = folder.File(name);
    return ImportModel(options, HostFileSystem(), callback).has_value();
  };
  REQUIRE(import("a", nullptr));
  REQUIRE_FALSE(import("b", [](const ImportProgress&) { return false; }));
  REQUIRE(import("c", nullptr));
  std::filesystem::resize_file(folder.File("c") + "/experts-0.bin", 10);
  std::filesystem::create_directory(folder.File("not-a-store"));

  const auto stores = ListStores(folder.path());
  REQUIRE(stores.has_value());
  REQUIRE(stores->size() == 3);
  const StoreInfo& a = (*stores)[0];
  CHECK(a.state == StoreState::kComplete);
  CHECK(a.problem.empty());
  CHECK(a.name == "Test MoE");
  CHECK(a.architecture == "qwen3moe");
  CHECK(a.layers == 2);
  CHECK(a.experts == 8);
  CHECK(a.disk_bytes > a.record_bytes);
  CHECK(a.source_paths == std::vector<std::string>{model});
  CHECK((*stores)[1].state == StoreState::kUnfinished);
  CHECK_THAT((*stores)[1].problem, Catch::Contains("was interrupted, run it again"));
  CHECK((*stores)[2].state == StoreState::kDamaged);
  CHECK_THAT((*stores)[2].problem, Catch::Contains("has 10 bytes"));
  CHECK(ListStores(folder.File("a"))->size() == 1);
  CHECK(ListStores(folder.File("none")).error().code == ErrorCode::kNotFound);
}

}  // namespace moetier
