#ifndef MOETIER_TESTS_SIM_GPU_MODELS_H_
#define MOETIER_TESTS_SIM_GPU_MODELS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/scheduling/layer_call.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/temp_folder.h"

namespace moetier {

// A small model of random weights: its imported store, a few hidden rows, and what each expert
// makes of them by the reference arithmetic. What has been computed once is kept.
class GpuModel {
 public:
  static constexpr uint32_t kRows = 8;

  GpuModel(std::string name, const testing::MoeSpec& spec);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& directory() const { return directory_; }
  [[nodiscard]] uint32_t layers() const { return spec_.moe_layers; }
  [[nodiscard]] uint32_t experts() const { return spec_.experts; }
  [[nodiscard]] std::span<const float> Row(uint32_t row) const;
  // What a call must give whose rows are these.
  [[nodiscard]] std::vector<float> Expected(const LayerCall& call, std::span<const uint32_t> rows);

 private:
  using Key = std::pair<uint32_t, uint32_t>;  // layer, expert
  const std::vector<float>& MadeBy(const Key& key);
  [[nodiscard]] std::span<const std::byte> Part(uint32_t layer, const char* role,
                                                uint32_t expert) const;

  const std::string name_;
  const testing::MoeSpec spec_;
  const testing::GgufBuilder gguf_;
  testing::TempFolder folder_;
  const std::string directory_;
  std::vector<float> rows_;                 // [kRows, hidden]
  std::map<Key, std::vector<float>> made_;  // [kRows, hidden]
};

// Of the kernels' families: K-types, types of 32 columns, floats.
std::vector<std::unique_ptr<GpuModel>> MakeGpuModels();

}  // namespace moetier

#endif  // MOETIER_TESTS_SIM_GPU_MODELS_H_
