#include "tiers/store/importer.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>

#include "tests/support/fake_file_system.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/store_helpers.h"
#include "tests/support/temp_folder.h"
#include "tiers/store/import_journal.h"
#include "tiers/store/indexed_store.h"
#include "tiers/store/store_lock.h"
#include "tiers/store/verifier.h"

namespace moetier {
namespace {

constexpr uint32_t kExperts = 8;  // MoeSpec's two layers of four

// A small model on disk, imported into file systems of its tests' choice.
struct Model {
  testing::TempFolder folder;
  std::string path = folder.File("model.gguf");

  explicit Model(const testing::MoeSpec& spec = {}) { Write(spec); }
  void Write(const testing::MoeSpec& spec) const { testing::MakeMoeGguf(spec).WriteFile(path); }

  ImportOptions Options(const std::string& directory) const {
    ImportOptions options;
    options.model_path = path;
    options.store_directory = directory;
    options.sync_bytes = 1;  // a batch a record
    return options;
  }
  Result<ImportSummary> Import(FileSystem& files, const ImportCallback& callback = nullptr) const {
    return ImportModel(Options("/store"), files, callback);
  }
  // The files that an uninterrupted import makes.
  std::map<std::string, std::vector<std::byte>> Expected() const {
    FakeFileSystem files;
    REQUIRE(Import(files).has_value());
    return files.Contents();
  }
};

bool StopAt(const ImportProgress& progress, uint32_t experts) {
  return progress.experts_done < experts;
}

}  // namespace

TEST_CASE("ImportModel: leaves data, routers and index, and nothing else", "[store]") {
  const Model model;
  const auto files = model.Expected();
  REQUIRE(files.size() == 3);
  CHECK(files.contains("/store/experts-0.bin"));
  CHECK(files.contains("/store/routers.bin"));
  CHECK(files.contains("/store/index"));
}

TEST_CASE("ImportModel: reports every expert and each phase", "[store]") {
  const Model model;
  FakeFileSystem files;
  std::vector<ImportProgress> seen;
  REQUIRE(model
              .Import(files,
                      [&](const ImportProgress& progress) {
                        seen.push_back(progress);
                        return true;
                      })
              .has_value());
  REQUIRE(seen.size() == kExperts + 2);
  for (uint32_t i = 0; i < kExperts; ++i) CHECK(seen[i].experts_done == i + 1);
  CHECK(seen[kExperts - 1].bytes_done == seen[0].bytes_total);
  CHECK(seen[kExperts].phase == ImportPhase::kRouters);
  CHECK(seen[kExperts + 1].phase == ImportPhase::kCommit);
}

TEST_CASE("ImportModel: a complete store of the same model is left as it is", "[store]") {
  const Model model;
  FakeFileSystem files;
  REQUIRE(model.Import(files).has_value());
  const auto before = files.Contents();
  const auto again = model.Import(files, [](const ImportProgress&) { return false; });
  REQUIRE(again.has_value());
  CHECK(again->already_complete);
  CHECK(files.Contents() == before);
}

TEST_CASE("ImportModel: a store of another model or kind is not replaced", "[store]") {
  const Model model;
  FakeFileSystem files;
  REQUIRE(model.Import(files).has_value());
  const auto before = files.Contents();
  ImportOptions source = model.Options("/store");
  source.form = kernels::RecordForm::kSource;
  const auto other_kind = ImportModel(source, files);
  REQUIRE_FALSE(other_kind.has_value());
  CHECK(other_kind.error().code == ErrorCode::kAlreadyExists);
  CHECK_THAT(other_kind.error().message,
             Catch::Contains("/store holds the rows16 store of a model with fingerprint") &&
                 Catch::Contains("not the source store of") &&
                 Catch::Contains("import into a new directory"));
  model.Write({.seed = 99});
  const auto other_model = model.Import(files);
  REQUIRE_FALSE(other_model.has_value());
  CHECK(other_model.error().code == ErrorCode::kAlreadyExists);
  CHECK(other_model.error().reason == Reason::kStaleStore);
  CHECK(files.Contents() == before);
}

TEST_CASE("ImportModel: stopped after any expert, it resumes there with the same bytes",
          "[store]") {
  const Model model;
  const auto expected = model.Expected();
  for (uint32_t stop = 1; stop <= kExperts; ++stop) {
    FakeFileSystem files;
    const auto stopped =
        model.Import(files, [&](const ImportProgress& p) { return StopAt(p, stop); });
    REQUIRE_FALSE(stopped.has_value());
    CHECK(stopped.error().reason == Reason::kCancelled);
    CHECK(
        stopped.error().message ==
        fmt::format("import into /store stopped at {} of 8 experts; run it again to resume", stop));
    CHECK(ReadStoreIndex("/store", files).error().message ==
          "/store is no store: it has no index; an import into it was interrupted, run it again");
    const auto resumed = model.Import(files);
    REQUIRE(resumed.has_value());
    CHECK(resumed->experts_resumed == stop);
    CHECK(files.Contents() == expected);
  }
}

TEST_CASE("ImportModel: an interrupted import of a model that changed since starts over",
          "[store]") {
  const Model model;
  FakeFileSystem files;
  REQUIRE_FALSE(model.Import(files, [](const auto& p) { return StopAt(p, 3); }).has_value());
  std::filesystem::last_write_time(
      model.path, std::filesystem::file_time_type::clock::now() + std::chrono::hours(1));
  const auto resumed = model.Import(files);
  REQUIRE(resumed.has_value());
  CHECK(resumed->experts_resumed == 0);
  CHECK(files.Contents() == model.Expected());
}

TEST_CASE("ImportModel: an unfinished import of another model is not thrown away", "[store]") {
  const Model model;
  FakeFileSystem files;
  REQUIRE_FALSE(model.Import(files, [](const auto& p) { return StopAt(p, 3); }).has_value());
  const auto before = files.Contents();
  model.Write({.seed = 99});
  const auto other = model.Import(files);
  REQUIRE_FALSE(other.has_value());
  CHECK(other.error().code == ErrorCode::kAlreadyExists);
  CHECK_THAT(other.error().message,
             Catch::Contains("/store holds an unfinished import of a model"));
  CHECK(files.Contents() == before);
}

TEST_CASE("ImportModel: too little space is said with numbers before anything is written",
          "[store]") {
  const Model model;
  FakeFileSystem files;
  files.set_capacity(10'000);
  const auto refused = model.Import(files);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::kExhausted);
  CHECK(refused.error().reason == Reason::kOutOfSpace);
  CHECK_THAT(refused.error().message, Catch::Contains("bytes) more at /store") &&
                                          Catch::Contains("(10000 bytes) are free; free"));
  CHECK(files.Contents().empty());
}

TEST_CASE("field_51: a disk that fills up keeps the work, and the import resumes", "[store]") {
  const Model model;
  const auto expected = model.Expected();
  for (uint32_t full_after = 1; full_after < kExperts; ++full_after) {
    FakeFileSystem files;
    const auto failed = model.Import(files, [&](const ImportProgress& progress) {
      // Room for the journal's next batch, not for another record.
      if (progress.experts_done == full_after) {
        files.set_capacity(files.FreeBytes("/store").value() > 0 ? uint64_t{8192} * full_after + 500
                                                                 : 0);
      }
      return true;
    });
    REQUIRE_FALSE(failed.has_value());
    CHECK(failed.error().reason == Reason::kOutOfSpace);
    CHECK_THAT(failed.error().message,
               Catch::Contains("No space left on device") &&
                   Catch::Contains("are written and kept in /store: make room for") &&
                   Catch::Contains("run the import again to resume"));
    files.set_capacity(1 << 20);
    const auto resumed = model.Import(files);
    REQUIRE(resumed.has_value());
    CHECK(resumed->experts_resumed == full_after);
    CHECK(files.Contents() == expected);
  }
}

TEST_CASE("ImportModel: after any one failed operation the next try completes", "[store]") {
  const Model model({.experts = 2});
  const auto expected = model.Expected();
  const int error_number = GENERATE(EIO, ENOSPC);
  FakeFileSystem counted;
  REQUIRE(model.Import(counted).has_value());
  for (uint64_t operation = 0; operation < counted.operations(); ++operation) {
    FakeFileSystem files;
    files.FailAt(operation, error_number);
    INFO(operation);
    const auto failed = model.Import(files);
    REQUIRE_FALSE(failed.has_value());
    REQUIRE(model.Import(files).has_value());
    CHECK(files.Contents() == expected);
  }
}

TEST_CASE("ImportModel: a locked directory names the process that has it", "[store]") {
  const Model model;
  const std::string directory = model.folder.File("store");
  std::filesystem::create_directory(directory);
  std::optional<StoreLock> lock = StoreLock::Take(directory).value();
  const auto refused = ImportModel(model.Options(directory), HostFileSystem());
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::kFailedPrecondition);
  CHECK(refused.error().reason == Reason::kStoreLocked);
  CHECK(refused.error().message ==
        fmt::format("{} is being written by process {}; wait for it or stop it", directory,
                    ::getpid()));
  lock.reset();
  CHECK(ImportModel(model.Options(directory), HostFileSystem()).has_value());
}

TEST_CASE("ImportModel: without a directory the store is named by model and fingerprint",
          "[store]") {
  const Model model;
  ImportOptions options = model.Options("");
  CHECK(ImportModel(options, HostFileSystem()).error().code == ErrorCode::kInvalidArgument);
  options.store_root = model.folder.File("deep/root");
  const auto summary = ImportModel(options, HostFileSystem());
  REQUIRE(summary.has_value());
  CHECK(summary->directory ==
        fmt::format("{}/test-moe-{:016x}", options.store_root, summary->fingerprint));
  CHECK(ExpertStore::Open(summary->directory).has_value());
}

TEST_CASE("ImportModel: a scale that is NaN is refused by tensor, expert and block", "[store]") {
  const Model model;
  auto gguf = GgufModel::Open(model.path).value();
  const GgufTensor& tensor = *gguf.FindTensor("blk.1.ffn_up_exps.weight");
  std::vector<std::byte> bytes = testing::FileBytes(model.path);
  // Expert 2, block 5 of Q8_0: 34 bytes, the f16 scale first.
  const uint64_t at = tensor.offset + tensor.bytes / 4 * 2 + 5 * 34;
  bytes[at] = std::byte{0x01};
  bytes[at + 1] = std::byte{0x7E};
  testing::WriteFileBytes(model.path, bytes);
  FakeFileSystem files;
  const auto refused = model.Import(files);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::kDataLoss);
  CHECK_THAT(refused.error().message,
             Catch::Contains("blk.1.ffn_up_exps.weight") && Catch::Contains("expert 2") &&
                 Catch::Contains("block 5") && Catch::Contains("without the scan of its weights"));
  ImportOptions options = model.Options("/store");
  options.scan_weights = false;
  CHECK(ImportModel(options, files).has_value());
}

TEST_CASE("field_01: a type without a kernel is refused by tensor, or held in the source form",
          "[store]") {
  const Model model;
  auto gguf = testing::MakeMoeGguf({.hidden = 256, .ffn = 256, .moe_layers = 1});
  testing::GgufBuilder unknown;
  unknown.Text("general.architecture", "qwen3moe").U32("qwen3moe.expert_used_count", 2);
  unknown.U32("qwen3moe.embedding_length", 256).U32("qwen3moe.expert_count", 4);
  unknown.U32("qwen3moe.block_count", 1);
  for (testing::GgufBuilder::Tensor tensor : gguf.tensors()) {
    if (tensor.name == "blk.0.ffn_down_exps.weight") {
      tensor.ggml_type = 16;  // IQ2_XXS: 66 bytes for 256 weights
      tensor.data.assign(size_t{256} * 4 * 66, std::byte{5});
    }
    unknown.AddTensor(tensor);
  }
  unknown.WriteFile(model.path);
  const std::string directory = model.folder.File("store");
  ImportOptions options = model.Options(directory);
  const auto refused = ImportModel(options, HostFileSystem());
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().reason == Reason::kUnsupportedType);
  CHECK_THAT(refused.error().message,
             Catch::Contains("blk.0.ffn_down_exps.weight") && Catch::Contains("IQ2_XXS"));
  options.form = kernels::RecordForm::kSource;
  const auto held = ImportModel(options, HostFileSystem());
  INFO((held ? "" : held.error().message));
  REQUIRE(held.has_value());
  const auto store = ExpertStore::Open(directory).value();
  CHECK_FALSE(store->geometry().layers[0].compute);
  CHECK(testing::FirstDifference(*store, testing::SourceModel(model.path)) == "");
}

TEST_CASE("ImportModel: a model file that ends early leaves no store", "[store]") {
  const Model model;
  FakeFileSystem files;
  const auto cut = model.Import(files, [&](const ImportProgress& progress) {
    if (progress.experts_done == 2) std::filesystem::resize_file(model.path, 5000);
    return true;
  });
  REQUIRE_FALSE(cut.has_value());
  CHECK(cut.error().reason == Reason::kShortRead);
  CHECK_THAT(cut.error().message, Catch::Contains(model.path + " ends at byte"));
  CHECK_FALSE(OpenStore("/store", files).has_value());
}

}  // namespace moetier
