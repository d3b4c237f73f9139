#include "tiers/store/opened_model.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <filesystem>

#include "tests/support/gguf_builder.h"
#include "tests/support/store_helpers.h"
#include "tests/support/temp_folder.h"
#include "tiers/store/moe_model.h"
#include "tiers/store/shell_writer.h"

namespace moetier {
namespace {

UniqueFd Open(const std::string& path, int flags = O_RDONLY) {
  return UniqueFd::Open(path, flags).value();
}

std::vector<UniqueFd> One(UniqueFd fd) {
  std::vector<UniqueFd> files;
  files.push_back(std::move(fd));
  return files;
}

Error OpenError(std::vector<UniqueFd> files) {
  const auto model = OpenModelFiles(std::move(files));
  REQUIRE_FALSE(model.has_value());
  return model.error();
}

std::string Refusal(const std::string& name, const std::string& what) {
  return name + " " + what + ": give the model's GGUF files, open for reading";
}

uint64_t Fingerprint(const std::string& path) {
  const GgufModel gguf = GgufModel::Open(path).value();
  return ModelFingerprint(gguf, ReadMoeModel(gguf, {}).value()).value();
}

}  // namespace

TEST_CASE("OpenModelFiles: shards in any order, of any name, give the fingerprint of the paths",
          "[store]") {
  const testing::TempFolder folder;
  const auto paths = testing::MakeMoeGguf({.biases = true}).WriteShards(folder.path(), "model", 3);
  const uint64_t fingerprint = Fingerprint(paths[0]);
  std::vector<UniqueFd> files;
  for (const size_t i : {size_t{2}, size_t{0}, size_t{1}}) {
    files.push_back(Open(paths[i]));
    std::filesystem::rename(paths[i], paths[i] + ".renamed");  // an inode needs no name
  }
  const auto model = OpenModelFiles(std::move(files));
  INFO((model ? "" : model.error().message));
  REQUIRE(model.has_value());
  CHECK(model->fingerprint == fingerprint);
  CHECK_FALSE(model->is_shell);
  REQUIRE(model->sources.size() == 3);
  for (size_t i = 0; i < 3; ++i) {
    CHECK(model->sources[i].path == paths[i] + ".renamed");
    CHECK(model->sources[i].bytes == std::filesystem::file_size(paths[i] + ".renamed"));
  }
}

TEST_CASE("OpenModelFiles: a file of a file system that is not known as local is not touched",
          "[store]") {
  const Error error = OpenError(One(Open("/proc/self/maps")));
  CHECK(error.code == ErrorCode::kInvalidArgument);
  CHECK(error.reason == Reason::kBadGguf);
  CHECK_THAT(error.message, Catch::Contains("is on a file system of type proc, which may stop") &&
                                Catch::Contains("keep the model on a local file system"));
}

TEST_CASE("OpenModelFiles: who gives up is asked between two files", "[store]") {
  const testing::TempFolder folder;
  const auto paths = testing::MakeMoeGguf({}).WriteShards(folder.path(), "model", 3);
  std::vector<UniqueFd> files;
  for (const std::string& path : paths) files.push_back(Open(path));
  int asked = 0;
  const auto model = OpenModelFiles(std::move(files), [&] { return ++asked < 2; });
  REQUIRE_FALSE(model.has_value());
  CHECK(model.error().code == ErrorCode::kCancelled);
  CHECK(asked == 2);
}

TEST_CASE("OpenModelFiles: a shell gives the fingerprint that it names", "[store]") {
  const testing::TempFolder folder;
  const std::string path = folder.File("model.gguf");
  testing::MakeMoeGguf({}).WriteFile(path);
  REQUIRE(
      WriteShell({.model_path = path, .output_path = folder.File("shell.gguf")}, HostFileSystem()));
  const auto model = OpenModelFiles(One(Open(folder.File("shell.gguf"))));
  REQUIRE(model.has_value());
  CHECK(model->is_shell);
  CHECK(model->fingerprint == Fingerprint(path));
}

TEST_CASE("OpenModelFiles: what is no file that its giver may read is refused by its kind",
          "[store]") {
  const testing::TempFolder folder;
  const std::string path = folder.File("model.gguf");
  testing::MakeMoeGguf({}).WriteFile(path);
  const auto refused = [](UniqueFd fd, const std::string& name, const std::string& what) {
    const Error error = OpenError(One(std::move(fd)));
    CHECK(error.code == ErrorCode::kInvalidArgument);
    CHECK(error.reason == Reason::kBadGguf);
    CHECK(error.message == Refusal(name, what));
  };
  refused(Open(folder.path(), O_RDONLY | O_DIRECTORY), folder.path(), "is a directory");
  refused(Open("/dev/zero"), "/dev/zero", "is a character device");
  refused(Open(path, O_PATH), path, "is not open for reading");
  refused(Open(path, O_WRONLY), path, "is not open for reading");
  testing::WriteFileBytes(folder.File("empty"), {});
  refused(Open(folder.File("empty")), folder.File("empty"), "is empty");
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  const UniqueFd write_end(ends[1]);
  CHECK(OpenError(One(UniqueFd(ends[0]))).message.find(" is a pipe: ") != std::string::npos);
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
  const UniqueFd peer(ends[1]);
  CHECK(OpenError(One(UniqueFd(ends[0]))).message.find(" is a socket: ") != std::string::npos);
  CHECK(OpenError({}).message == "0 model files were given, 1 to 64 are allowed");
  std::vector<UniqueFd> many;
  for (int i = 0; i < 65; ++i) many.push_back(Open(path));
  CHECK(OpenError(std::move(many)).message == "65 model files were given, 1 to 64 are allowed");
}

TEST_CASE("OpenModelFiles: truncated files, missing and doubled shards are named", "[store]") {
  const testing::TempFolder folder;
  const testing::GgufBuilder gguf = testing::MakeMoeGguf({});
  std::vector<std::byte> bytes = gguf.Bytes();
  bytes.resize(bytes.size() / 2);
  testing::WriteFileBytes(folder.File("cut.gguf"), bytes);
  const Error cut = OpenError(One(Open(folder.File("cut.gguf"))));
  CHECK(cut.code == ErrorCode::kDataLoss);
  CHECK(cut.reason == Reason::kBadGguf);
  CHECK(cut.message.find("cut.gguf: byte ") != std::string::npos);
  CHECK(cut.message.find("it is truncated or the offset is wrong") != std::string::npos);
  testing::WriteFileBytes(folder.File("text"), std::vector<std::byte>(100, std::byte{'a'}));
  CHECK(OpenError(One(Open(folder.File("text")))).message.find("not a GGUF file") !=
        std::string::npos);

  const auto paths = gguf.WriteShards(folder.path(), "model", 3);
  std::vector<UniqueFd> files;
  files.push_back(Open(paths[2]));
  files.push_back(Open(paths[0]));
  const Error missing = OpenError(std::move(files));
  CHECK(missing.reason == Reason::kMissingShard);
  CHECK(missing.message == paths[2] +
                               ": 1 fault in the set of 3 shards:\n"
                               "  model-00002-of-00003.gguf: not given");
  files.clear();
  for (const size_t i : {size_t{0}, size_t{1}, size_t{1}}) files.push_back(Open(paths[i]));
  const Error twice = OpenError(std::move(files));
  CHECK(twice.message.find("model-00002-of-00003.gguf: is shard 2 like model-00002-of-00003.gguf: "
                           "given twice?") != std::string::npos);
  CHECK(twice.message.find("model-00003-of-00003.gguf: not given") != std::string::npos);
  files.clear();
  gguf.WriteFile(folder.File("whole.gguf"));
  files.push_back(Open(folder.File("whole.gguf")));
  files.push_back(Open(paths[0]));
  CHECK(OpenError(std::move(files)).message ==
        "2 files were given, but split.count of whole.gguf is 1");
}

TEST_CASE("OpenModelFiles: a header that claims a hundred thousand shards costs nothing",
          "[store]") {
  const testing::TempFolder folder;
  testing::MakeMoeGguf({}).U64("split.count", uint64_t{1} << 60).WriteFile(folder.File("a.gguf"));
  CHECK(OpenError(One(Open(folder.File("a.gguf")))).message ==
        "1 files were given, but split.count of a.gguf is 1152921504606846976");
}

TEST_CASE("OpenModelFiles: all headers together are bounded", "[store]") {
  const testing::TempFolder folder;
  testing::GgufBuilder gguf = testing::MakeMoeGguf({});
  gguf.Text("a.long", std::string((size_t{64} << 20) + 1, 'x')).WriteFile(folder.File("a.gguf"));
  CHECK(OpenError(One(Open(folder.File("a.gguf")))).message ==
        folder.File("a.gguf") + ": the header is larger than 67108864 bytes");
}

}  // namespace moetier
