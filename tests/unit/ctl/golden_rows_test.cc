#include "daemon/ctl/golden_rows.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

namespace moetier {
namespace {

// A copy of the demo model's golden files that a test may spoil.
class GoldenFolder {
 public:
  GoldenFolder()
      : path_(std::filesystem::temp_directory_path() /
              ("moetier-golden-" + std::to_string(std::random_device()()))) {
    std::filesystem::copy(std::string(MOETIER_TEST_DATA) + "/demo-moe/golden", path_);
  }
  ~GoldenFolder() { std::filesystem::remove_all(path_); }
  [[nodiscard]] std::string path() const { return path_; }

  // Overwrites the last four bytes.
  template <typename T>
  void SpoilLast(const std::string& name, T value) const {
    static_assert(sizeof value == 4);
    std::fstream file(path_ / name, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-4, std::ios::end);
    file.write(reinterpret_cast<const char*>(&value), 4);
  }
  void Replace(const std::string& name, const std::string& by) const {
    std::filesystem::copy_file(path_ / by, path_ / name,
                               std::filesystem::copy_options::overwrite_existing);
  }

 private:
  std::filesystem::path path_;
};

}  // namespace

TEST_CASE("ReadGoldenRows: the demo model's rows have its shape", "[ctl]") {
  const GoldenRows rows =
      ReadGoldenRows(std::string(MOETIER_TEST_DATA) + "/demo-moe/golden").value();
  CHECK(rows.tokens == 64);
  CHECK(rows.layers == 6);
  CHECK(rows.hidden_size == 256);
  CHECK(rows.top_k == 4);
  CHECK(rows.HiddenOf(63, 5).data() + 256 == rows.hidden.data() + rows.hidden.size());
  CHECK(rows.ExpertsOf(1, 0).data() == rows.experts.data() + 6 * 4);
  CHECK(rows.WeightsOf(0, 1).size() == 4);
}

TEST_CASE("ReadGoldenRows: a missing file, other shapes and bad values are refused", "[ctl]") {
  const auto refusal = [](const GoldenFolder& folder) {
    const Result<GoldenRows> rows = ReadGoldenRows(folder.path());
    REQUIRE(!rows.has_value());
    return rows.error().message;
  };
  const GoldenFolder missing;
  std::filesystem::remove(missing.path() + "/weights.npy");
  CHECK(refusal(missing).find("weights.npy") != std::string::npos);

  const GoldenFolder shape;
  shape.Replace("output.npy", "weights.npy");
  CHECK(refusal(shape).find("shape [64, 6, 4], expected [64, 6, 256]") != std::string::npos);

  const GoldenFolder type;
  type.Replace("experts.npy", "weights.npy");
  CHECK(refusal(type).find("its elements are <f4, expected <i4") != std::string::npos);

  const GoldenFolder infinite;
  infinite.SpoilLast("hidden.npy", std::numeric_limits<float>::infinity());
  CHECK(refusal(infinite).find("element 98303 is not finite") != std::string::npos);

  const GoldenFolder negative;
  negative.SpoilLast("experts.npy", int32_t{-1});
  CHECK(refusal(negative).find("expert -1") != std::string::npos);
}

}  // namespace moetier
