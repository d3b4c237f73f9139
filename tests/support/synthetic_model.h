#ifndef MOETIER_TESTS_SUPPORT_SYNTHETIC_MODEL_H_
#define MOETIER_TESTS_SUPPORT_SYNTHETIC_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "daemon/scheduling/layer_call.h"
#include "tiers/nvme/record_reader.h"
#include "tiers/store/expert_store.h"

namespace moetier::testing {

// A small model of random Q8_0 experts in memory: sparse MoE layers 1, 2 and 4, the last with a
// larger ffn, so that there are two size classes; or so many equal layers from 0 on. Also the
// store's one "file".
class SyntheticModel {
 public:
  struct Options {
    uint32_t experts = 8;
    uint32_t hidden = 64;
    uint32_t ffn = 64;
    uint64_t seed = 1;
    uint16_t equal_layers = 0;  // 0: the three
  };
  explicit SyntheticModel(const Options& options);

  [[nodiscard]] const ModelGeometry& geometry() const { return geometry_; }
  // All records, each at a multiple of kRecordAlignment.
  [[nodiscard]] std::span<std::byte> file() { return file_; }
  [[nodiscard]] Extent Locate(LayerIndex layer, ExpertIndex expert) const;
  // A store over the file; the model outlives it.
  [[nodiscard]] std::unique_ptr<ExpertStore> MakeStore() const;

  // A valid call with seeded random rows, distinct picks and weights.
  [[nodiscard]] LayerCall MakeCall(LayerIndex layer, uint32_t rows, uint32_t top_k,
                                   uint64_t seed) const;
  // What the reference arithmetic gives for a call.
  [[nodiscard]] std::vector<float> Reference(const LayerCall& call) const;

 private:
  ModelGeometry geometry_;
  std::vector<std::vector<std::vector<std::vector<std::byte>>>> source_;  // [layer][expert][role]
  std::vector<std::vector<uint64_t>> offsets_;                            // [layer][expert]
  std::vector<std::byte> file_;
};

}  // namespace moetier::testing

#endif  // MOETIER_TESTS_SUPPORT_SYNTHETIC_MODEL_H_
