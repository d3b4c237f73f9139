#include "tiers/store/packed_store.h"

#include <catch2/catch.hpp>

#include "tests/support/gguf_builder.h"
#include "tests/support/store_helpers.h"
#include "tests/support/temp_folder.h"
#include "tiers/store/importer.h"
#include "tiers/store/router_file.h"

namespace moetier {
namespace {

const std::string kDemo = MOETIER_TEST_DATA "/demo-moe/moetier-demo-Q4_K_M.gguf";

struct Imported {
  testing::TempFolder folder;
  std::string directory = folder.File("store");
  explicit Imported(kernels::RecordForm form) {
    const auto summary = ImportModel(
        {.model_path = kDemo, .store_directory = directory, .form = form}, HostFileSystem());
    INFO((summary ? "" : summary.error().message));
    REQUIRE(summary.has_value());
    CHECK(summary->experts == 192);
    CHECK_FALSE(summary->already_complete);
  }
};

}  // namespace

TEST_CASE("PackedStore: each record of the demo model is its source packed", "[store]") {
  const testing::SourceModel source(kDemo);
  const auto form = GENERATE(kernels::RecordForm::kRows16, kernels::RecordForm::kSource);
  const Imported imported(form);
  const auto store = ExpertStore::Open(imported.directory).value();
  CHECK(store->kind() == (form == kernels::RecordForm::kRows16 ? StoreKind::kPackedRows16
                                                               : StoreKind::kPackedSource));
  CHECK(store->lands_directly());
  CHECK(store->geometry().TotalExperts() == 192);
  CHECK(store->geometry().architecture == "qwen3moe");
  CHECK(testing::FirstDifference(*store, source) == "");
  for (const LayerGeometry& layer : store->geometry().layers) {
    for (uint16_t expert = 0; expert < layer.experts; ++expert) {
      const ExtentList extents = store->Locate(layer.layer, ExpertIndex{expert});
      REQUIRE(extents.count == 1);
      CHECK(extents.extents[0].offset % kRecordAlignment == 0);
    }
  }
  REQUIRE(store->files().size() == 1);
  CHECK(store->files()[0].bytes % kRecordAlignment == 0);
  CHECK(store->source_paths()[0] == kDemo);
}

TEST_CASE("PackedStore: a landed record with a flipped bit is kChecksum, naming its place",
          "[store]") {
  const Imported imported(kernels::RecordForm::kRows16);
  const auto store = ExpertStore::Open(imported.directory).value();
  const LayerGeometry& layer = store->geometry().layers[1];
  const ExpertIndex expert{3};
  const Extent extent = store->Locate(layer.layer, expert).extents[0];
  std::vector<std::byte> data = testing::FileBytes(store->files()[0].path);
  const std::span<std::byte> slot = std::span(data).subspan(extent.offset, extent.bytes);
  const std::array<std::span<const std::byte>, 1> landed{slot};
  REQUIRE(store->Land(layer.layer, expert, landed, slot, Verify::kYes).has_value());
  slot[100] ^= std::byte{1};
  const Status damaged = store->Land(layer.layer, expert, landed, slot, Verify::kYes);
  REQUIRE_FALSE(damaged.has_value());
  CHECK(damaged.error().code == ErrorCode::kDataLoss);
  CHECK(damaged.error().reason == Reason::kChecksum);
  CHECK_THAT(damaged.error().message,
             Catch::Contains(fmt::format("blk.1 expert 3 at byte {} of {} has xxh3", extent.offset,
                                         store->files()[0].path)) &&
                 Catch::Contains(fmt::format("run `moetierctl verify --repair {}`, then "
                                             "`moetierctl reload`",
                                             imported.directory)));
  CHECK(store->Land(layer.layer, expert, landed, slot, Verify::kNo).has_value());
}

TEST_CASE("PackedStore: a short or missing file is refused with its sizes", "[store]") {
  const Imported imported(kernels::RecordForm::kSource);
  const std::string data = imported.directory + "/experts-0.bin";
  const auto bytes = std::filesystem::file_size(data);
  std::filesystem::resize_file(data, bytes - 1);
  CHECK(ExpertStore::Open(imported.directory).error().message ==
        fmt::format("{} has {} bytes, the index says {}; repair it with moetierctl verify --repair "
                    "{}",
                    data, bytes - 1, bytes, imported.directory));
  std::filesystem::remove(data);
  const Error missing = ExpertStore::Open(imported.directory).error();
  CHECK(missing.reason == Reason::kBadStore);
  CHECK_THAT(missing.message, Catch::Contains(data + " is missing"));
}

TEST_CASE("PackedStore: a folder without an index is no store", "[store]") {
  const testing::TempFolder folder;
  const Error error = ExpertStore::Open(folder.path()).error();
  CHECK(error.code == ErrorCode::kNotFound);
  CHECK(error.message ==
        folder.path() + " is no store: it has no index; make one with moetierctl import");
}

TEST_CASE("ReadRouters: gives the model's own router bytes", "[store]") {
  const testing::TempFolder folder;
  const std::string model = folder.File("model.gguf");
  const auto gguf = testing::MakeMoeGguf({.moe_layers = 2, .choice_bias = true});
  gguf.WriteFile(model);
  const std::string directory = folder.File("store");
  REQUIRE(ImportModel({.model_path = model, .store_directory = directory}, HostFileSystem())
              .has_value());
  const auto routers = ReadRouters(directory);
  REQUIRE(routers.has_value());
  REQUIRE(routers->size() == 2);
  const auto tensor = [&](std::string_view name) {
    for (const auto& candidate : gguf.tensors()) {
      if (candidate.name == name) return candidate.data;
    }
    return std::vector<std::byte>();
  };
  const auto& first = (*routers)[0].tensors;
  REQUIRE(first[0].has_value());
  CHECK(first[0]->rows == 4);
  CHECK(first[0]->columns == 64);
  CHECK(first[0]->bytes == tensor("blk.0.ffn_gate_inp.weight"));
  REQUIRE(first[1].has_value());
  CHECK(first[1]->bytes == tensor("blk.0.exp_probs_b.bias"));
  CHECK_FALSE(first[2].has_value());
  std::vector<std::byte> damaged = testing::FileBytes(directory + "/routers.bin");
  damaged[5] ^= std::byte{1};
  testing::WriteFileBytes(directory + "/routers.bin", damaged);
  CHECK(ReadRouters(directory).error().reason == Reason::kChecksum);
}

}  // namespace moetier
