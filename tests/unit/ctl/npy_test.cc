#include "daemon/ctl/npy.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

namespace moetier {
namespace {

constexpr const char* kDict = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n";

// A version 1 file of this header and so many bytes of zeros.
std::string File(const std::string& header, size_t data_bytes, char version = 1) {
  std::string file = "\x93NUMPY";
  file += version;
  file += '\0';
  file += static_cast<char>(header.size() & 0xFF);
  file += static_cast<char>(header.size() >> 8);
  if (version > 1) file += std::string(2, '\0');
  return file + header + std::string(data_bytes, '\0');
}

Result<NpyHeader> Parse(const std::string& file) {
  return ParseNpyHeader(std::as_bytes(std::span(file)), file.size(), "x.npy");
}

// Why a file is refused.
std::string RefusalOf(const std::string& file) {
  const Result<NpyHeader> header = Parse(file);
  REQUIRE(!header.has_value());
  CHECK(header.error().code == ErrorCode::kInvalidArgument);
  CHECK(header.error().message.starts_with("x.npy: not an array we read: "));
  return header.error().message;
}

// A file that is gone at the end of the test.
class TempFile {
 public:
  explicit TempFile(const std::string& contents)
      : path_(std::filesystem::temp_directory_path() /
              ("moetier-npy-" + std::to_string(std::random_device()()))) {
    std::ofstream(path_, std::ios::binary) << contents;
  }
  ~TempFile() { std::filesystem::remove(path_); }
  [[nodiscard]] std::string path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace

TEST_CASE("ParseNpyHeader: what numpy writes is read, in each version", "[ctl]") {
  for (const char version : {char{1}, char{2}, char{3}}) {
    const std::string file = File(kDict, 24, version);
    const NpyHeader header = Parse(file).value();
    CHECK(header.type == NpyType::kF32);
    CHECK(header.shape == std::vector<uint64_t>{2, 3});
    CHECK(header.elements == 6);
    CHECK(header.data_offset == file.size() - 24);
  }
}

TEST_CASE("ParseNpyHeader: other forms of the dict are read", "[ctl]") {
  CHECK(Parse(File(R"({"shape":(3,),"fortran_order":False,"descr":"<i4"})", 12)).value().type ==
        NpyType::kI32);
  const auto scalar = Parse(File("{'descr': '<f4', 'fortran_order': False, 'shape': ()}", 4));
  CHECK(scalar.value().elements == 1);
  const auto empty = Parse(File("{'descr': '<f4', 'fortran_order': False, 'shape': (0, 5)}", 0));
  CHECK(empty.value().elements == 0);
}

TEST_CASE("ParseNpyHeader: a header that is not numpy's is refused", "[ctl]") {
  for (const char* dict : {
           "",
           "{",
           "{}",
           "{'descr': '<f4'}",
           "{'descr': '<f4', 'fortran_order': False}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)} x",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (2, -3)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3}",
           "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2, 3)}",
           "{'descr': '<f4, 'fortran_order': False, 'shape': (2, 3)}",
           "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'more': 1}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 2, 3)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999, 1)}",
       }) {
    INFO(dict);
    CHECK(RefusalOf(File(dict, 24)).find("descr, fortran_order and shape") != std::string::npos);
  }
}

TEST_CASE("ParseNpyHeader: other orders, types, versions and marks are refused", "[ctl]") {
  CHECK(RefusalOf(File("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3)}", 24))
            .find("Fortran order") != std::string::npos);
  for (const char* type : {"<f8", ">f4", "|O", "<u2"}) {
    const std::string dict =
        std::string("{'descr': '") + type + "', 'fortran_order': False, 'shape': (2, 3)}";
    CHECK(RefusalOf(File(dict, 24)).find("another element type") != std::string::npos);
  }
  CHECK(RefusalOf(File(kDict, 24, 4)).find("version 4") != std::string::npos);
  CHECK(RefusalOf("NUMPY not").find("numpy's mark") != std::string::npos);
  CHECK(RefusalOf("").find("numpy's mark") != std::string::npos);
  CHECK(RefusalOf(File(kDict, 24, 2).substr(0, 11)).find("first bytes") != std::string::npos);
}

TEST_CASE("ParseNpyHeader: a header longer than the file or the limit is refused", "[ctl]") {
  std::string lying = File(kDict, 0);
  lying[8] = '\xFF';
  CHECK(RefusalOf(lying).find("a header of 255 bytes") != std::string::npos);
  std::string huge = File(kDict, 24, 2);
  for (size_t i = 8; i < 12; ++i) huge[i] = '\xFF';
  CHECK(RefusalOf(huge).find("a header of 4294967295 bytes") != std::string::npos);
  CHECK(RefusalOf(File(std::string(kMaxNpyHeader + 1, ' '), 24)).find("a header of 4097") !=
        std::string::npos);
}

TEST_CASE("ParseNpyHeader: a shape must fill the file exactly, overflow included", "[ctl]") {
  CHECK(RefusalOf(File(kDict, 20)).find("[2, 3] does not fill the 20 bytes") != std::string::npos);
  CHECK(RefusalOf(File(kDict, 28)).find("does not fill") != std::string::npos);
  CHECK(RefusalOf(File(kDict, 25)).find("does not fill") != std::string::npos);
  // 2^32 * 2^32 elements would be 0 bytes in 64 bits.
  const std::string wrap =
      "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}";
  CHECK(RefusalOf(File(wrap, 0)).find("does not fill") != std::string::npos);
  // 2^62 elements of 4 bytes wrap to 0 too.
  const std::string bytes_wrap =
      "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,)}";
  CHECK(RefusalOf(File(bytes_wrap, 0)).find("does not fill") != std::string::npos);
}

TEST_CASE("ReadNpyF32: values come as they lie on disk", "[ctl]") {
  std::string contents = File(kDict, 24);
  const float value = 1.5f;
  std::memcpy(contents.data() + contents.size() - 4, &value, 4);
  const TempFile file(contents);
  const NpyArray<float> array = ReadNpyF32(file.path(), 1_MiB).value();
  CHECK(array.shape == std::vector<uint64_t>{2, 3});
  CHECK(array.values == std::vector<float>{0, 0, 0, 0, 0, 1.5f});
}

TEST_CASE("ReadNpy: another type, too large a file, a folder or no file is refused", "[ctl]") {
  const TempFile file(File(kDict, 24));
  CHECK(ReadNpyI32(file.path(), 1_MiB).error().message.find("its elements are <f4, expected <i4") !=
        std::string::npos);
  CHECK(ReadNpyF32(file.path(), 16_B).error().message.find("more than the limit of 16 B") !=
        std::string::npos);
  CHECK(!ReadNpyF32("/", 1_MiB).has_value());
  CHECK(ReadNpyF32(file.path() + ".none", 1_MiB).error().code == ErrorCode::kNotFound);
}

}  // namespace moetier
