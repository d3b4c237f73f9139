#ifndef MOETIER_DAEMON_SCHEDULING_PICK_HISTORY_H_
#define MOETIER_DAEMON_SCHEDULING_PICK_HISTORY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "tiers/store/model_geometry.h"

namespace moetier {

// Guesses a layer's experts from those that the layer before it has picked: counts which followed
// which. Needs no router; on a model with routers it is the weaker guess (see ARCHITECTURE.md).
// Threads: one thread, its owner. Memory: all taken at creation, experts^2 x 2 bytes a layer.
class PickHistory {
 public:
  // None when a model's tables would take more than kMostBytes.
  static std::unique_ptr<PickHistory> Create(const ModelGeometry& geometry);
  static constexpr uint64_t kMostBytes = 64 << 20;

  // Two calls of one token: `from` in a layer and `to` in the next layer with experts.
  void Learn(LayerIndex layer, std::span<const uint16_t> from, std::span<const uint16_t> to);
  // Fills `guesses` with at most `count` experts of the layer after `layer`, the most likely first;
  // none that never followed any of `from`.
  void Guess(LayerIndex layer, std::span<const uint16_t> from, uint32_t count,
             std::vector<ExpertIndex>& guesses);

 private:
  struct Table {
    LayerIndex layer{};
    uint32_t from = 0;
    uint32_t to = 0;
    std::vector<uint16_t> followed;  // [from, to]
    std::vector<uint32_t> total;     // [from]: the sum of its row
  };

  explicit PickHistory(std::vector<Table> tables) : tables_(std::move(tables)) {}
  Table* Find(LayerIndex layer);
  static void Halve(Table& table, uint16_t from);

  std::vector<Table> tables_;  // of every layer but the last, ascending
  std::vector<float> scores_;
  std::vector<uint16_t> order_;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_PICK_HISTORY_H_
