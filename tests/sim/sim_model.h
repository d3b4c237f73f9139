#ifndef MOETIER_TESTS_SIM_SIM_MODEL_H_
#define MOETIER_TESTS_SIM_SIM_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "daemon/scheduling/cpu_lane.h"
#include "daemon/scheduling/layer_call.h"
#include "kernels/expert_kernels.h"
#include "tests/support/synthetic_model.h"
#include "tiers/arena.h"
#include "tiers/store/expert_store.h"

namespace moetier {

inline constexpr ModelId kSimModel{3};

// What all seeds share, since it does not change: a model of 24 experts in two size classes, a few
// rows, what each expert makes of each row by the reference arithmetic, and memory for all records.
class SimModel {
 public:
  static constexpr uint32_t kRows = 6;

  SimModel();

  [[nodiscard]] const ModelGeometry& geometry() const { return model_.geometry(); }
  [[nodiscard]] std::span<const std::byte> file() const { return file_; }
  [[nodiscard]] const std::vector<ExpertKey>& keys() const { return keys_; }
  [[nodiscard]] SizeClass ClassOf(const ExpertKey& key) const {
    return geometry().Find(key.layer)->size_class;
  }
  // The expert's true bytes.
  [[nodiscard]] std::span<const std::byte> Record(const ExpertKey& key) const;
  // Whose record begins at `offset` of the file.
  [[nodiscard]] const ExpertKey& KeyAt(uint64_t offset) const;
  [[nodiscard]] std::span<const float> Row(uint32_t row) const;
  // What a call must give whose rows are these.
  [[nodiscard]] std::vector<float> Expected(const LayerCall& call,
                                            std::span<const uint32_t> rows) const;

  enum class Landing : uint8_t { kDirect, kStaged };
  // Compares landed bytes with the record's own when asked, unless told to take what comes.
  enum class Checks : uint8_t { kHonest, kNone };
  [[nodiscard]] std::unique_ptr<ExpertStore> MakeStore(Landing landing, Checks checks) const;

  // Memory for a slot a record: that of the last seed, if it was given back.
  std::unique_ptr<Arena> TakeArena();
  void ReturnArena(std::unique_ptr<Arena> arena) { arena_ = std::move(arena); }

  [[nodiscard]] const kernels::ExpertKernels& kernels() const { return kernels_; }
  [[nodiscard]] CpuLane& lane() { return lane_; }

 private:
  [[nodiscard]] size_t IndexOf(const ExpertKey& key) const;  // into keys_

  testing::SyntheticModel model_;
  std::span<const std::byte> file_;
  std::vector<ExpertKey> keys_;
  std::vector<uint64_t> offsets_;         // by key
  std::vector<float> rows_;               // [kRows, hidden]
  std::vector<std::vector<float>> made_;  // [key][kRows, hidden]
  std::unique_ptr<Arena> arena_;
  kernels::ExpertKernels kernels_;
  CpuLane lane_;
};

}  // namespace moetier

#endif  // MOETIER_TESTS_SIM_SIM_MODEL_H_
