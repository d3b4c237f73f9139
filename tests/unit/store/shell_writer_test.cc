#include "tiers/store/shell_writer.h"

#include <sys/stat.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <filesystem>

#include "tests/support/fake_file_system.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/store_helpers.h"
#include "tests/support/temp_folder.h"
#include "tiers/store/gguf_header.h"
#include "tiers/store/importer.h"
#include "tiers/store/moe_model.h"
#include "tiers/store/shell_gguf.h"

namespace moetier {
namespace {

const std::string kDemo = MOETIER_TEST_DATA "/demo-moe/moetier-demo-Q4_K_M.gguf";

ShellSummary MakeShell(const std::string& model, const std::string& output) {
  const auto summary = WriteShell({.model_path = model, .output_path = output}, HostFileSystem());
  INFO((summary ? "" : summary.error().message));
  REQUIRE(summary.has_value());
  return *summary;
}

Error ShellError(const ShellOptions& options, FileSystem& files = HostFileSystem()) {
  const auto summary = WriteShell(options, files);
  REQUIRE_FALSE(summary.has_value());
  return summary.error();
}

uint64_t Fingerprint(const std::string& path) {
  const GgufModel gguf = GgufModel::Open(path).value();
  return ModelFingerprint(gguf, ReadMoeModel(gguf, {}).value()).value();
}

uint64_t DiskBytes(const std::string& path) {
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  return static_cast<uint64_t>(info.st_blocks) * 512;
}

// What is not as it must be of a shell, against the model's files; empty if all is.
std::string FirstFault(const std::string& model_path, const std::string& shell_path) {
  const GgufModel model = GgufModel::Open(model_path).value();
  const GgufModel shell = GgufModel::Open(shell_path).value();
  std::vector<std::vector<std::byte>> shards;
  for (const std::string& path : model.shard_paths()) shards.push_back(testing::FileBytes(path));
  const std::vector<std::byte> file = testing::FileBytes(shell_path);
  if (shell.tensors().size() != model.tensors().size()) return "another number of tensors";
  for (size_t i = 0; i < shell.tensors().size(); ++i) {
    const GgufTensor& had = model.tensors()[i];
    const GgufTensor& has = shell.tensors()[i];
    if (had.name != has.name || had.shape != has.shape) return has.name + " is another tensor";
    const auto data = std::span(file).subspan(has.offset, has.bytes);
    if (IsShellHole(has.name)) {
      if (has.bytes >= had.bytes) return has.name + " has not shrunk";
      if (std::ranges::any_of(data, [](std::byte b) { return b != std::byte{0}; })) {
        return has.name + " is no hole";
      }
      continue;
    }
    if (has.ggml_type != had.ggml_type) return has.name + " has another type";
    if (!std::ranges::equal(data, std::span(shards[had.shard]).subspan(had.offset, had.bytes))) {
      return has.name + " has other bytes";
    }
  }
  return "";
}

}  // namespace

TEST_CASE("WriteShell: the demo model's dense part byte for byte, its experts as holes",
          "[store]") {
  const testing::TempFolder folder;
  const std::string path = folder.File("shell.gguf");
  const ShellSummary summary = MakeShell(kDemo, path);
  CHECK(FirstFault(kDemo, path) == "");
  CHECK(summary.hole_tensors == 18);  // 6 layers of gate, up and down
  CHECK(summary.fingerprint == Fingerprint(kDemo));
  CHECK(summary.file_bytes == std::filesystem::file_size(path));
  // Sparse: the blocks that the copied part touches and no more; each hole may touch one at either
  // end.
  const uint64_t blocks = DiskBytes(path);
  CHECK(blocks >= summary.copied_bytes / 4096 * 4096);
  CHECK(blocks <= summary.copied_bytes + 2 * 4096 * uint64_t{summary.hole_tensors} + 64 * 1024);
  CHECK(blocks < summary.file_bytes / 2);
}

TEST_CASE("WriteShell: metadata pairs keep their bytes, and the shell's own come after",
          "[store]") {
  const testing::TempFolder folder;
  const std::string model = folder.File("model.gguf");
  testing::GgufBuilder gguf = testing::MakeMoeGguf({});
  gguf.U8("a.u8", 7).I16("a.i16", -3).F64("a.f64", 0.1).Bool("a.bool", true);
  gguf.Texts("a.texts", {"", "two"}).Array<float>("a.floats", 6, {1.5F, -0.0F});
  gguf.WriteFile(model);
  const std::string path = folder.File("shell.gguf");
  const ShellSummary summary = MakeShell(model, path);
  const GgufFile had = ReadGgufFile(model).value();
  const GgufFile has = ReadGgufFile(path).value();
  REQUIRE(has.header.pairs.size() == had.header.pairs.size() + 3);
  const auto before = testing::FileBytes(model);
  const auto after = testing::FileBytes(path);
  for (size_t i = 0; i < had.header.pairs.size(); ++i) {
    const GgufPair& a = had.header.pairs[i];
    const GgufPair& b = has.header.pairs[i];
    INFO(a.key);
    CHECK(std::ranges::equal(std::span(before).subspan(a.offset, a.bytes),
                             std::span(after).subspan(b.offset, b.bytes)));
  }
  const GgufModel shell = GgufModel::Open(path).value();
  CHECK(shell.FindUnsigned("moetier.shell.version") == 1);
  CHECK(*shell.FindString("moetier.shell.fingerprint") ==
        fmt::format("{:016x}", summary.fingerprint));
  CHECK(ShellFingerprint(shell).value() == summary.fingerprint);
  CHECK(!ShellFingerprint(GgufModel::Open(model).value()).value().has_value());
}

TEST_CASE(
    "WriteShell: a split model with biases, fused experts and its own alignment becomes one "
    "file",
    "[store]") {
  const testing::TempFolder folder;
  testing::GgufBuilder gguf = testing::MakeMoeGguf({.dense_first = 1,
                                                    .fused = true,
                                                    .biases = true,
                                                    .choice_bias = true,
                                                    .shared_expert = true});
  gguf.Alignment(256);
  const auto shards = gguf.WriteShards(folder.path(), "model", 3, GENERATE(false, true));
  const std::string path = folder.File("shell.gguf");
  const ShellSummary summary = MakeShell(shards[2], path);
  CHECK(FirstFault(shards[0], path) == "");
  CHECK(summary.fingerprint == Fingerprint(shards[0]));
  CHECK(summary.hole_tensors == 4);  // 2 layers of gate_up and down; the biases stay
  const GgufFile has = ReadGgufFile(path).value();
  CHECK(has.header.alignment == 256);
  for (const GgufPair& pair : has.header.pairs) CHECK(!pair.key.starts_with("split."));
}

TEST_CASE("AsShellHole: the smallest type whose block divides the row, else the tensor's own",
          "[store]") {
  const auto type_for = [](uint64_t row, kernels::WeightType type) {
    GgufTensor tensor;
    tensor.ggml_type = static_cast<uint32_t>(type);
    tensor.dimensions = 2;
    tensor.shape = {row, 3, 1, 1};
    tensor.bytes = 3 * kernels::RowBytes(type, row).value();
    const GgufTensor hole = AsShellHole(tensor);
    const kernels::WeightTypeInfo& info = *kernels::FindWeightType(hole.ggml_type);
    CHECK(hole.bytes == 3 * (row / info.block_weights * info.block_bytes));
    return std::string(info.name);
  };
  CHECK(type_for(2048, kernels::WeightType::kQ4_K) == "IQ1_S");
  CHECK(type_for(2880, kernels::WeightType::kMXFP4) == "MXFP4");  // gpt-oss's rows
  CHECK(type_for(96, kernels::WeightType::kQ8_0) == "MXFP4");
  CHECK(type_for(96, kernels::WeightType::kF16) == "MXFP4");
  CHECK(type_for(33, kernels::WeightType::kF16) == "F16");
}

TEST_CASE("WriteShell: refuses what would lose something or make no sense", "[store]") {
  const testing::TempFolder folder;
  const std::string model = folder.File("model.gguf");
  testing::MakeMoeGguf({}).WriteFile(model);
  const std::string path = folder.File("shell.gguf");
  const auto before = testing::FileBytes(model);

  SECTION("an output that exists, unless told to replace it") {
    testing::WriteFileBytes(path, std::vector<std::byte>(3));
    const Error error = ShellError({.model_path = model, .output_path = path});
    CHECK(error.code == ErrorCode::kAlreadyExists);
    CHECK(error.message == path + " exists; choose another name, or replace it with --force");
    CHECK(testing::FileBytes(path).size() == 3);
    REQUIRE(WriteShell({.model_path = model, .output_path = path, .overwrite = Overwrite::kYes},
                       HostFileSystem()));
    CHECK(FirstFault(model, path) == "");
  }
  SECTION("the model itself, by whatever name, even when told to replace it") {
    std::filesystem::create_hard_link(model, path);
    std::filesystem::create_hard_link(model, folder.File("other.gguf.partial"));
    for (const std::string& output : {model, path, folder.File("other.gguf")}) {
      const Error error =
          ShellError({.model_path = model, .output_path = output, .overwrite = Overwrite::kYes});
      CHECK(error.code == ErrorCode::kAlreadyExists);
      CHECK(error.message.find("is the model itself") != std::string::npos);
    }
  }
  SECTION("a shell") {
    (void)MakeShell(model, path);
    const Error error = ShellError({.model_path = path, .output_path = folder.File("again.gguf")});
    CHECK(error.code == ErrorCode::kInvalidArgument);
    CHECK(error.message.find("is a shell itself") != std::string::npos);
  }
  SECTION("a model without experts") {
    testing::GgufBuilder dense;
    dense.Text("general.architecture", "llama");
    dense.AddTensor("token_embd.weight", kernels::WeightType::kF16, {64, 16});
    dense.WriteFile(folder.File("dense.gguf"));
    const Error error = ShellError({.model_path = folder.File("dense.gguf"), .output_path = path});
    CHECK(error.reason == Reason::kUnsupportedModel);
    CHECK(error.message.find("no expert tensors") != std::string::npos);
  }
  SECTION("a disk without room, before anything is written") {
    FakeFileSystem files;
    files.set_capacity(1000);
    const Error error = ShellError({.model_path = model, .output_path = "/shell.gguf"}, files);
    CHECK(error.reason == Reason::kOutOfSpace);
    CHECK(files.operations() == 0);
  }
  CHECK(testing::FileBytes(model) == before);
}

TEST_CASE("WriteShell: power lost at any operation leaves no shell or a whole one", "[store]") {
  const testing::TempFolder folder;
  const std::string model = folder.File("model.gguf");
  testing::MakeMoeGguf({}).WriteFile(model);
  const ShellOptions options{.model_path = model, .output_path = "/shell.gguf"};
  FakeFileSystem whole;
  REQUIRE(WriteShell(options, whole).has_value());
  const auto expected = whole.Contents();
  REQUIRE(expected.size() == 1);
  const auto survival = GENERATE(Survival::kNothing, Survival::kScattered, Survival::kEverything);
  for (uint64_t operation = 0; operation < whole.operations(); ++operation) {
    INFO("operation " << operation);
    FakeFileSystem files;
    files.LosePowerAt(operation);
    REQUIRE_FALSE(WriteShell(options, files).has_value());
    files.Restart(survival, operation);
    const auto left = files.Contents();
    if (left.contains("/shell.gguf")) {
      CHECK(left.at("/shell.gguf") == expected.at("/shell.gguf"));
    } else {
      REQUIRE(WriteShell(options, files).has_value());
      files.Restart(Survival::kNothing, 0);
      CHECK(files.Contents() == expected);
    }
  }
}

TEST_CASE("WriteShell: a failed write or a stop leaves nothing behind", "[store]") {
  const testing::TempFolder folder;
  const std::string model = folder.File("model.gguf");
  testing::MakeMoeGguf({}).WriteFile(model);
  const ShellOptions options{.model_path = model, .output_path = "/shell.gguf"};
  FakeFileSystem full;
  full.FailAt(4, ENOSPC);
  const Error error = ShellError(options, full);
  CHECK(error.reason == Reason::kOutOfSpace);
  CHECK(full.Contents().empty());

  FakeFileSystem stopped;
  const auto summary = WriteShell(options, stopped, [](const ShellProgress& progress) {
    CHECK(progress.bytes_done <= progress.bytes_total);
    return progress.bytes_done < progress.bytes_total / 2;
  });
  REQUIRE_FALSE(summary.has_value());
  CHECK(summary.error().code == ErrorCode::kCancelled);
  CHECK(stopped.Contents().empty());
}

TEST_CASE("ShellFingerprint: damaged keys and other versions are refused, not overlooked",
          "[store]") {
  const auto parse = [](testing::GgufBuilder gguf) {
    const auto bytes = gguf.Bytes();
    return ShellFingerprint(GgufModel::Parse(bytes, bytes.size(), "shell.gguf").value());
  };
  testing::GgufBuilder gguf;
  SECTION("no fingerprint") { gguf.U32("moetier.shell.version", 1); }
  SECTION("not sixteen digits") {
    gguf.U32("moetier.shell.version", 1).Text("moetier.shell.fingerprint", "123");
  }
  SECTION("no digits") {
    gguf.U32("moetier.shell.version", 1).Text("moetier.shell.fingerprint", "0123456789abcdeg");
  }
  SECTION("another version") {
    gguf.U32("moetier.shell.version", 2).Text("moetier.shell.fingerprint", "0123456789abcdef");
  }
  SECTION("a version that is no number") { gguf.Text("moetier.shell.version", "1"); }
  const auto fingerprint = parse(gguf);
  REQUIRE_FALSE(fingerprint.has_value());
  CHECK(fingerprint.error().message.find("moetierctl shell") != std::string::npos);
}

TEST_CASE("ImportModel: a shell is refused by its name, in every form of a store", "[store]") {
  const testing::TempFolder folder;
  const std::string shell = folder.File("shell.gguf");
  const ShellSummary made = MakeShell(kDemo, shell);
  for (const kernels::RecordForm form :
       {kernels::RecordForm::kRows16, kernels::RecordForm::kSource}) {
    for (const bool in_place : {false, true}) {
      const auto refused = ImportModel({.model_path = shell,
                                        .store_directory = folder.File("store"),
                                        .form = form,
                                        .in_place = in_place},
                                       HostFileSystem());
      REQUIRE_FALSE(refused.has_value());
      CHECK(refused.error().message ==
            fmt::format("{} is a shell, without expert weights; import the model that it was made "
                        "of (fingerprint {:016x})",
                        shell, made.fingerprint));
    }
  }
  CHECK_FALSE(std::filesystem::exists(folder.File("store")));
}

}  // namespace moetier
