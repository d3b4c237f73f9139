#include "tiers/store/verifier.h"

#include <catch2/catch.hpp>
#include <cerrno>

#include "tests/support/fake_file_system.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/store_helpers.h"
#include "tests/support/temp_folder.h"
#include "tiers/store/importer.h"
#include "tiers/store/indexed_store.h"

namespace moetier {
namespace {

const std::string kData = "/store/experts-0.bin";
const std::string kRouters = "/store/routers.bin";

// A packed store in memory of a model on disk.
struct Store {
  testing::TempFolder folder;
  std::string model = folder.File("model.gguf");
  FakeFileSystem files;
  std::map<std::string, std::vector<std::byte>> whole;

  Store() {
    testing::MakeMoeGguf({}).WriteFile(model);
    ImportOptions options;
    options.model_path = model;
    options.store_directory = "/store";
    REQUIRE(ImportModel(options, files).has_value());
    whole = files.Contents();
  }
  Result<VerifyReport> Verify() { return VerifyStore("/store", {}, files); }
  Result<VerifyReport> Repair(const std::string& path = "") {
    return VerifyStore("/store", {.repair = true, .model_path = path}, files);
  }
  Extent ExtentOf(uint16_t layer, uint16_t expert) {
    const auto index = ReadStoreIndex("/store", files);
    return index->layers[layer].ExtentsOf(expert)[0];
  }
  // What a damage must come to: reported as this record, repaired to the old bytes.
  void CheckFoundAndRepaired(uint16_t layer, std::optional<uint16_t> expert) {
    const auto report = Verify();
    REQUIRE(report.has_value());
    REQUIRE(report->damaged.size() == 1);
    CHECK_FALSE(report->good());
    CHECK(report->damaged[0].layer == LayerIndex{layer});
    CHECK(report->damaged[0].expert.has_value() == expert.has_value());
    if (expert) CHECK(report->damaged[0].expert == ExpertIndex{*expert});
    const auto repaired = Repair();
    REQUIRE(repaired.has_value());
    CHECK(repaired->damaged.size() == 1);
    CHECK(repaired->good());
    CHECK(files.Contents() == whole);
    CHECK(Verify()->damaged.empty());
  }
};

}  // namespace

TEST_CASE("VerifyStore: a good store has all its records read", "[store]") {
  Store store;
  std::vector<VerifyProgress> seen;
  const auto report = VerifyStore("/store", {}, store.files, [&](const VerifyProgress& progress) {
    seen.push_back(progress);
    return true;
  });
  REQUIRE(report.has_value());
  CHECK(report->records == 8);
  CHECK(report->good());
  REQUIRE(seen.size() == 8);
  CHECK(seen[7].bytes_done == seen[7].bytes_total);
  CHECK(seen[7].records_done == 8);
}

TEST_CASE("VerifyStore: names the damaged record and its place; repair brings its bytes back",
          "[store]") {
  Store store;
  const Extent extent = store.ExtentOf(1, 2);
  store.files.Bytes(kData)[extent.offset + 17] ^= std::byte{0x80};
  const auto report = store.Verify();
  REQUIRE(report->damaged.size() == 1);
  CHECK(report->damaged[0].path == kData);
  CHECK(report->damaged[0].offset == extent.offset);
  CHECK(report->damaged[0].bytes == extent.bytes);
  CHECK_THAT(report->damaged[0].problem, Catch::Contains("was expected"));
  store.CheckFoundAndRepaired(1, 2);
}

TEST_CASE("VerifyStore: a file that is too short or too long is damage of its last record",
          "[store]") {
  Store store;
  store.files.Bytes(kData).pop_back();
  store.CheckFoundAndRepaired(1, 3);
  store.files.Bytes(kData).resize(store.files.Bytes(kData).size() + 100);
  store.CheckFoundAndRepaired(1, 3);
}

TEST_CASE("VerifyStore: a data file that is gone is made again", "[store]") {
  Store store;
  REQUIRE(store.files.Remove(kData).has_value());
  CHECK(store.Verify()->damaged.size() == 8);
  const auto repaired = store.Repair();
  REQUIRE(repaired.has_value());
  CHECK(repaired->good());
  CHECK(store.files.Contents() == store.whole);
  store.files.Restart(Survival::kNothing, 0);
  CHECK(store.files.Contents() == store.whole);
}

TEST_CASE("VerifyStore: a damaged router is found and repaired", "[store]") {
  Store store;
  store.files.Bytes(kRouters)[3] ^= std::byte{1};
  store.CheckFoundAndRepaired(0, std::nullopt);
  store.files.Bytes(kRouters).push_back(std::byte{0});
  store.CheckFoundAndRepaired(1, std::nullopt);
  REQUIRE(store.files.Remove(kRouters).has_value());
  CHECK(store.Repair()->good());
  CHECK(store.files.Contents() == store.whole);
}

TEST_CASE("VerifyStore: repairs from another place, never from another model", "[store]") {
  Store store;
  store.files.Bytes(kData)[5] ^= std::byte{1};
  const std::string moved = store.folder.File("moved.gguf");
  std::filesystem::rename(store.model, moved);
  CHECK(store.Repair().error().code == ErrorCode::kNotFound);
  testing::MakeMoeGguf({.seed = 7}).WriteFile(store.model);
  const auto other = store.Repair();
  REQUIRE_FALSE(other.has_value());
  CHECK(other.error().reason == Reason::kStaleStore);
  CHECK(store.Repair(moved)->good());
  CHECK(store.files.Contents() == store.whole);
}

TEST_CASE("VerifyStore: a source that is damaged in the same expert repairs nothing", "[store]") {
  const testing::TempFolder folder;
  const std::string model = folder.File("model.gguf");
  testing::MakeMoeGguf({.hidden = 256, .ffn = 512, .experts = 8}).WriteFile(model);
  FakeFileSystem files;
  ImportOptions options;
  options.model_path = model;
  options.store_directory = "/store";
  REQUIRE(ImportModel(options, files).has_value());
  const auto gguf = GgufModel::Open(model).value();
  const GgufTensor& tensor = *gguf.FindTensor("blk.0.ffn_down_exps.weight");
  // One bit of one expert, between the fingerprint's samples: try until the model still is itself.
  const std::vector<std::byte> whole = testing::FileBytes(model);
  bool found = false;
  for (uint64_t at = 100; !found && at < tensor.bytes / 8; at += 1000) {
    std::vector<std::byte> bytes = whole;
    bytes[tensor.offset + at] ^= std::byte{1};
    testing::WriteFileBytes(model, bytes);
    files.Bytes(kData)[5] ^= std::byte{1};
    const auto report = VerifyStore("/store", {.repair = true}, files);
    files.Bytes(kData)[5] ^= std::byte{1};
    if (!report) continue;
    found = true;
    REQUIRE(report->damaged.size() == 1);
    CHECK_FALSE(report->good());
    CHECK_THAT(report->damaged[0].repair_problem, Catch::Contains("it is damaged too"));
  }
  CHECK(found);
}

TEST_CASE("VerifyStore: in place the model's own damage is found and cannot be repaired",
          "[store]") {
  const testing::TempFolder folder;
  const std::string model = folder.File("model.gguf");
  testing::MakeMoeGguf({.hidden = 256, .ffn = 512, .experts = 8}).WriteFile(model);
  FakeFileSystem files;
  ImportOptions options;
  options.model_path = model;
  options.store_directory = "/store";
  options.in_place = true;
  REQUIRE(ImportModel(options, files).has_value());
  CHECK(VerifyStore("/store", {}, files)->records == 16);
  const Extent extent = ReadStoreIndex("/store", files)->layers[1].ExtentsOf(4)[1];
  const std::vector<std::byte> whole = testing::FileBytes(model);
  bool found = false;
  for (uint64_t at = 0; !found && at < extent.bytes; at += 1000) {
    std::vector<std::byte> bytes = whole;
    bytes[extent.offset + at] ^= std::byte{1};
    testing::WriteFileBytes(model, bytes);
    const auto report = VerifyStore("/store", {.repair = true}, files);
    if (!report) continue;  // a sample of the fingerprint: stale, which is as well
    found = true;
    REQUIRE(report->damaged.size() == 1);
    CHECK(report->damaged[0].layer == LayerIndex{1});
    CHECK(report->damaged[0].expert == ExpertIndex{4});
    CHECK(report->damaged[0].path == model);
    CHECK_FALSE(report->damaged[0].repaired);
    CHECK(report->damaged[0].repair_problem == "the model file itself is damaged: get it again");
  }
  CHECK(found);
}

TEST_CASE("VerifyStore: a damaged index is an error, a full disk ends a repair", "[store]") {
  Store store;
  store.files.Bytes(kData)[5] ^= std::byte{1};
  store.files.FailAt(store.files.operations(), ENOSPC);
  CHECK(store.Repair().error().reason == Reason::kOutOfSpace);
  store.files.Bytes("/store/index")[30] ^= std::byte{1};
  CHECK(store.Verify().error().reason == Reason::kBadStore);
}

TEST_CASE("VerifyStore: a repair takes the lock, a check does not", "[store]") {
  Store store;
  const auto lock = store.files.Lock("/store");
  CHECK(store.Verify().has_value());
  CHECK(store.Repair().error().reason == Reason::kStoreLocked);
}

TEST_CASE("VerifyStore: stops when it is told to", "[store]") {
  Store store;
  const auto stopped = VerifyStore("/store", {}, store.files, [](const VerifyProgress& progress) {
    return progress.records_done < 3;
  });
  REQUIRE_FALSE(stopped.has_value());
  CHECK(stopped.error().message == "verify of /store stopped at 3 of 8 records, 0 of them damaged");
}

}  // namespace moetier
