#include "tiers/store/in_place_store.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>

#include "tests/support/as_nobody.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/store_helpers.h"
#include "tests/support/temp_folder.h"
#include "tiers/store/importer.h"

namespace moetier {
namespace {

const std::string kDemo = MOETIER_TEST_DATA "/demo-moe/moetier-demo-Q4_K_M.gguf";

// A small model imported in place.
struct Imported {
  testing::TempFolder folder;
  std::string model = folder.File("model.gguf");
  std::string directory = folder.File("store");

  explicit Imported(const std::vector<std::byte>& gguf) {
    testing::WriteFileBytes(model, gguf);
    const auto summary = Import();
    INFO((summary ? "" : summary.error().message));
    REQUIRE(summary.has_value());
  }
  Result<ImportSummary> Import() const {
    return ImportModel({.model_path = model,
                        .store_directory = directory,
                        .form = kernels::RecordForm::kRows16,
                        .in_place = true},
                       HostFileSystem());
  }
  Error OpenError() const {
    const auto store = ExpertStore::Open(directory);
    REQUIRE_FALSE(store.has_value());
    return store.error();
  }
};

}  // namespace

TEST_CASE("InPlaceStore: lands the records of the demo model without a copy of it", "[store]") {
  const testing::TempFolder folder;
  const std::string directory = folder.File("store");
  const auto summary = ImportModel({.model_path = kDemo,
                                    .store_directory = directory,
                                    .form = kernels::RecordForm::kRows16,
                                    .in_place = true},
                                   HostFileSystem());
  REQUIRE(summary.has_value());
  const auto store = ExpertStore::Open(directory).value();
  CHECK(store->kind() == StoreKind::kInPlace);
  CHECK_FALSE(store->lands_directly());
  REQUIRE(store->files().size() == 1);
  CHECK(store->files()[0].path == kDemo);
  CHECK(testing::FirstDifference(*store, testing::SourceModel(kDemo)) == "");
  uint64_t own_bytes = 0;
  for (const auto& [name, bytes] : testing::StoreContents(directory)) own_bytes += bytes.size();
  CHECK(own_bytes < 300'000);  // routers (196 KiB) and index; the experts have 22 MiB
}

TEST_CASE("InPlaceStore: six extents of an expert with biases", "[store]") {
  const Imported imported(testing::MakeMoeGguf({.biases = true}).Bytes());
  const auto store = ExpertStore::Open(imported.directory).value();
  CHECK(store->Locate(LayerIndex{1}, ExpertIndex{2}).count == 6);
  CHECK(testing::FirstDifference(*store, testing::SourceModel(imported.model)) == "");
}

TEST_CASE("InPlaceStore: shards and a fused gate_up give the packed store's records", "[store]") {
  const testing::TempFolder folder;
  const auto paths = testing::MakeMoeGguf({.fused = true}).WriteShards(folder.path(), "model", 3);
  const auto import = [&](const std::string& name, bool in_place) {
    const auto summary = ImportModel({.model_path = paths[1],
                                      .store_directory = folder.File(name),
                                      .form = kernels::RecordForm::kRows16,
                                      .in_place = in_place},
                                     HostFileSystem());
    INFO((summary ? "" : summary.error().message));
    REQUIRE(summary.has_value());
    return ExpertStore::Open(folder.File(name)).value();
  };
  const auto in_place = import("in-place", true);
  const auto packed = import("packed", false);
  CHECK(in_place->files().size() == 3);
  CHECK(in_place->fingerprint() == packed->fingerprint());
  for (const LayerGeometry& layer : packed->geometry().layers) {
    for (uint16_t expert = 0; expert < layer.experts; ++expert) {
      const auto want = testing::LandRecord(*packed, layer.layer, ExpertIndex{expert});
      const auto got = testing::LandRecord(*in_place, layer.layer, ExpertIndex{expert});
      REQUIRE(want.has_value());
      REQUIRE(got.has_value());
      CHECK(*want == *got);
    }
  }
}

TEST_CASE("InPlaceStore: a model that was downloaded again with other bytes is stale", "[store]") {
  const Imported imported(testing::MakeMoeGguf({.seed = 1}).Bytes());
  testing::WriteFileBytes(imported.model, testing::MakeMoeGguf({.seed = 2}).Bytes());
  const Error error = imported.OpenError();
  CHECK(error.code == ErrorCode::kFailedPrecondition);
  CHECK(error.reason == Reason::kStaleStore);
  CHECK_THAT(error.message,
             Catch::Contains("it was made from a model with fingerprint") &&
                 Catch::Contains("bring the model that was imported back, or import this one"));
  CHECK(imported.Import().error().reason == Reason::kStaleStore);
}

TEST_CASE("InPlaceStore: a model of another size, gone or unreadable is stale", "[store]") {
  const std::vector<std::byte> model = testing::MakeMoeGguf({}).Bytes();
  const Imported imported(model);
  std::vector<std::byte> longer = model;
  longer.resize(model.size() + 5);
  testing::WriteFileBytes(imported.model, longer);
  CHECK_THAT(imported.OpenError().message,
             Catch::Contains(fmt::format("{} has {} bytes, it had {} at import", imported.model,
                                         model.size() + 5, model.size())));
  testing::WriteFileBytes(imported.model, std::vector<std::byte>(model.size()));
  CHECK_THAT(imported.OpenError().message, Catch::Contains("its model cannot be read"));
  std::filesystem::remove(imported.model);
  CHECK_THAT(imported.OpenError().message, Catch::Contains(imported.model + " is gone"));
  testing::WriteFileBytes(imported.model, model);
  CHECK(ExpertStore::Open(imported.directory).has_value());
}

TEST_CASE("InPlaceStore: the same tensors at other offsets are stale", "[store]") {
  std::vector<std::byte> model = testing::MakeMoeGguf({}).Bytes();
  model.resize(model.size() + 64);
  const Imported imported(model);
  // 8 + 1 bytes of key, 4 of type, 8 + 43 of text: the data moves by 64 and the size stays.
  const auto shifted = testing::MakeMoeGguf({}).Text("x", std::string(43, 'y')).Bytes();
  REQUIRE(shifted.size() == model.size());
  testing::WriteFileBytes(imported.model, shifted);
  const Error error = imported.OpenError();
  CHECK(error.reason == Reason::kStaleStore);
  CHECK_THAT(error.message, Catch::Contains("have moved inside the file"));
}

TEST_CASE("InPlaceStore: a damaged expert is kChecksum and says to get the model again",
          "[store]") {
  const std::vector<std::byte> model = testing::MakeMoeGguf({.hidden = 256, .ffn = 256}).Bytes();
  const Imported imported(model);
  const auto store = ExpertStore::Open(imported.directory).value();
  const Extent extent = store->Locate(LayerIndex{1}, ExpertIndex{3}).extents[2];
  std::vector<std::byte> damaged = model;
  damaged[extent.offset + extent.bytes / 2] ^= std::byte{1};
  testing::WriteFileBytes(imported.model, damaged);
  const auto landed = testing::LandRecord(*store, LayerIndex{1}, ExpertIndex{3});
  REQUIRE_FALSE(landed.has_value());
  CHECK(landed.error().reason == Reason::kChecksum);
  CHECK_THAT(landed.error().message, Catch::Contains("blk.1 expert 3 at byte") &&
                                         Catch::Contains("the model file is damaged"));
  CHECK(testing::LandRecord(*store, LayerIndex{1}, ExpertIndex{2}).has_value());
}

TEST_CASE("InPlaceStore: a model that was moved can be imported again into its store", "[store]") {
  Imported imported(testing::MakeMoeGguf({}).Bytes());
  const std::string moved = imported.folder.File("moved.gguf");
  std::filesystem::rename(imported.model, moved);
  CHECK(imported.OpenError().reason == Reason::kStaleStore);
  imported.model = moved;
  const auto again = imported.Import();
  REQUIRE(again.has_value());
  CHECK_FALSE(again->already_complete);
  CHECK(ExpertStore::Open(imported.directory).value()->source_paths()[0] == moved);
}

TEST_CASE("InPlaceStore: a model or index that this user may not read is not called stale",
          "[store]") {
  const Imported imported(testing::MakeMoeGguf({}).Bytes());
  const auto refused_with = [&](const std::string& path) {
    REQUIRE(::chmod(imported.folder.path().c_str(), 0755) == 0);
    REQUIRE(::chmod(path.c_str(), 0) == 0);
    const testing::AsNobody nobody;
    return imported.OpenError();
  };
  const Error model = refused_with(imported.model);
  CHECK(model.code == ErrorCode::kPermissionDenied);
  CHECK_THAT(model.message, Catch::Contains("its model file cannot be read: open " +
                                            imported.model + ": Permission denied: user ") &&
                                Catch::Contains("chmod or chgrp it") &&
                                !Catch::Contains("bring the model"));
  const std::string index = imported.directory + "/" + std::string(kIndexFileName);
  const Error unopened = refused_with(index);
  CHECK(unopened.code == ErrorCode::kPermissionDenied);
  CHECK_THAT(unopened.message, Catch::Contains("open " + index + ": Permission denied: user ") &&
                                   Catch::Contains("chmod or chgrp it"));
}

}  // namespace moetier
