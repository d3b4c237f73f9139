#include "adapters/llama_cpp/model_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "adapters/llama_cpp/expert_name.h"
#include "tests/support/temp_folder.h"

namespace moetier::ggml {
namespace {

using testing::TempFolder;

constexpr const char* kMaps =
    "00400000-00500000 r-xp 00000000 08:01 11 /usr/bin/engine\n"
    "10000000-10002000 r--s 00003000 08:01 22 /models/a model.gguf\n"
    "10002000-10004000 r--s 00005000 08:01 22 /models/a model.gguf\n"
    "10004000-10005000 r--s 00000000 08:01 33 /models/other.gguf\n"
    "20000000-20001000 rw-p 00000000 00:00 0 \n"
    "30000000-30001000 rw-p 00000000 08:01 22 /models/a model.gguf\n"
    "40000000-40001000 r--p 00000000 00:00 0 [vvar]\n";

// A file of `bytes`, mapped as an engine maps it.
class MappedFile {
 public:
  MappedFile(const std::string& path, const std::vector<std::byte>& bytes) : size_(bytes.size()) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    const int fd = open(path.c_str(), O_RDONLY);
    data_ = mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
  }
  ~MappedFile() { munmap(data_, size_); }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  [[nodiscard]] const std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  void* data_;
  size_t size_;
};

std::vector<std::byte> SomeBytes(size_t size) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  return bytes;
}

}  // namespace

TEST_CASE("ParseExpertName: exactly the names of expert weights", "[llama_cpp]") {
  CHECK(ParseExpertName("blk.0.ffn_gate_exps.weight") == ExpertName{0, ExpertRole::kGate});
  CHECK(ParseExpertName("blk.41.ffn_up_exps.weight") == ExpertName{41, ExpertRole::kUp});
  CHECK(ParseExpertName("blk.7.ffn_down_exps.weight") == ExpertName{7, ExpertRole::kDown});
  CHECK(ParseExpertName("blk.7.ffn_gate_up_exps.weight") == ExpertName{7, ExpertRole::kGateUp});
  for (const char* other : {"", "blk.", "blk.x.ffn_up_exps.weight", "blk.3.ffn_up_exps.bias",
                            "blk.3.ffn_up.weight", "blk.3.ffn_up_exps.weight.lora_a",
                            "blk.-1.ffn_up_exps.weight", "MOETIER#blk.3.ffn_up_exps.weight#0",
                            "blk.99999999999.ffn_up_exps.weight", "blk.3.ffn_up_chexps.weight"}) {
    INFO(other);
    CHECK_FALSE(ParseExpertName(other));
  }
}

TEST_CASE("FindMapping: gives path and offset, over the lines of one mapping", "[llama_cpp]") {
  const auto inside = FindMapping(kMaps, 0x10000800, 0x800);
  REQUIRE(inside);
  CHECK(inside->path == "/models/a model.gguf");
  CHECK(inside->offset == 0x3800);
  const auto across = FindMapping(kMaps, 0x10001000, 0x3000);
  REQUIRE(across);
  CHECK(across->offset == 0x4000);
}

TEST_CASE("FindMapping: data beyond a mapping, of no file or writable are not found",
          "[llama_cpp]") {
  CHECK_FALSE(FindMapping(kMaps, 0x10003000, 0x1001));  // runs into another file
  CHECK_FALSE(FindMapping(kMaps, 0x10004000, 0x1001));  // runs into nothing
  CHECK_FALSE(FindMapping(kMaps, 0x20000000, 1));
  CHECK_FALSE(FindMapping(kMaps, 0x30000000, 1));
  CHECK_FALSE(FindMapping(kMaps, 0x40000000, 1));
  CHECK_FALSE(FindMapping(kMaps, 0x50000000, 1));
  CHECK_FALSE(FindMapping("no maps file at all", 0x10000000, 1));
}

TEST_CASE("ShardPaths: all shards of a split model in order, else the path alone", "[llama_cpp]") {
  CHECK(ShardPaths("/m/x-00002-of-00003.gguf") ==
        std::vector<std::string>{"/m/x-00001-of-00003.gguf", "/m/x-00002-of-00003.gguf",
                                 "/m/x-00003-of-00003.gguf"});
  for (const char* whole :
       {"/m/x.gguf", "/m/x-00000-of-00003.gguf", "/m/x-00004-of-00003.gguf",
        "/m/x-00001-of-00999.gguf", "-0001-of-00003.gguf", "/m/x-0000a-of-00003.gguf"}) {
    INFO(whole);
    CHECK(ShardPaths(whole) == std::vector<std::string>{whole});
  }
}

TEST_CASE("ModelFiles: what is mapped is found in the file and read back", "[llama_cpp]") {
  const TempFolder folder;
  const std::string path = folder.path() + "/model.gguf";
  const auto bytes = SomeBytes(40000);
  const MappedFile mapped(path, bytes);
  ModelFiles files;
  const auto range = files.Locate(mapped.data() + 12345, 20000);
  REQUIRE(range);
  CHECK(range->offset == 12345);
  CHECK(files.path(range->file) == path);
  CHECK(files.Descriptors().size() == 1);
  std::vector<std::byte> read(100);
  REQUIRE(files.Read(*range, 19900, read));
  CHECK(std::memcmp(read.data(), bytes.data() + 12345 + 19900, 100) == 0);
}

TEST_CASE("ModelFiles: a mapped file whose name now belongs to another is refused", "[llama_cpp]") {
  const TempFolder folder;
  const std::string path = folder.path() + "/model.gguf";
  const MappedFile mapped(path, SomeBytes(40000));
  std::filesystem::remove(path);
  const MappedFile replaced(path, SomeBytes(40000));
  ModelFiles files;
  const auto range = files.Locate(mapped.data(), 20000);
  REQUIRE_FALSE(range);
  CHECK(range.error().message.find("removed or replaced") != std::string::npos);
  CHECK(files.Locate(replaced.data(), 20000));
}

TEST_CASE("ModelFiles: a file that was cut short is an error where it ends", "[llama_cpp]") {
  const TempFolder folder;
  const std::string path = folder.path() + "/model.gguf";
  const MappedFile mapped(path, SomeBytes(40000));
  ModelFiles files;
  const auto range = files.Locate(mapped.data(), 40000);
  REQUIRE(range);
  std::filesystem::resize_file(path, 20000);
  std::vector<std::byte> read(100);
  const Status status = files.Read(*range, 19950, read);
  REQUIRE_FALSE(status);
  CHECK(status.error().code == ErrorCode::kDataLoss);
  CHECK(status.error().message.find("it ends at 20000, 50 bytes too early") != std::string::npos);
}

TEST_CASE("ModelFiles: a shell's holes are not read as weights", "[llama_cpp]") {
  const TempFolder folder;
  auto bytes = SomeBytes(3 << 20);
  constexpr std::string_view kKey = "moetier.shell.fingerprint";
  // Once across the border of two reads.
  const size_t at = GENERATE(size_t{100}, (size_t{1} << 20) - 5);
  std::memcpy(bytes.data() + at, kKey.data(), kKey.size());
  const MappedFile mapped(folder.path() + "/shell.gguf", bytes);
  ModelFiles files;
  const auto range = files.Locate(mapped.data() + (2 << 20), 1000);
  REQUIRE(range);
  std::vector<std::byte> read(100);
  const Status status = files.Read(*range, 0, read);
  REQUIRE_FALSE(status);
  CHECK(status.error().message.find("shell.gguf is a shell") != std::string::npos);
}

TEST_CASE("ModelFiles: a shard's siblings are opened with it, and a missing one is named",
          "[llama_cpp]") {
  const TempFolder folder;
  const std::string stem = folder.path() + "/model-";
  const MappedFile second(stem + "00002-of-00002.gguf", SomeBytes(9000));
  ModelFiles alone;
  const auto missing = alone.Locate(second.data(), 9000);
  REQUIRE_FALSE(missing);
  CHECK(missing.error().message.find("model-00001-of-00002.gguf") != std::string::npos);
  const MappedFile first(stem + "00001-of-00002.gguf", SomeBytes(10));
  ModelFiles files;
  const auto range = files.Locate(second.data(), 9000);
  REQUIRE(range);
  CHECK(range->file == 1);
  CHECK(files.Descriptors().size() == 2);
}

}  // namespace moetier::ggml
