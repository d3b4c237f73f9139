#include "daemon/scheduling/pick_history.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace moetier {
namespace {

// A row is halved when it reaches this sum, so that what followed lately counts more and a count
// stays within its 16 bits.
constexpr uint32_t kMostFollowed = 4096;

}  // namespace

std::unique_ptr<PickHistory> PickHistory::Create(const ModelGeometry& geometry) {
  std::vector<Table> tables;
  uint64_t bytes = 0;
  for (size_t i = 0; i + 1 < geometry.layers.size(); ++i) {
    const LayerGeometry& layer = geometry.layers[i];
    const uint32_t to = geometry.layers[i + 1].experts;
    bytes += uint64_t{layer.experts} * to * sizeof(uint16_t);
    if (bytes > kMostBytes) return nullptr;
    tables.push_back({.layer = layer.layer,
                      .from = layer.experts,
                      .to = to,
                      .followed = std::vector<uint16_t>(size_t{layer.experts} * to),
                      .total = std::vector<uint32_t>(layer.experts)});
  }
  return std::unique_ptr<PickHistory>(new PickHistory(std::move(tables)));
}

PickHistory::Table* PickHistory::Find(LayerIndex layer) {
  const auto found = std::ranges::lower_bound(tables_, layer, {}, &Table::layer);
  return found != tables_.end() && found->layer == layer ? &*found : nullptr;
}

void PickHistory::Halve(Table& table, uint16_t from) {
  const auto row = std::span(table.followed).subspan(size_t{from} * table.to, table.to);
  table.total[from] = 0;
  for (uint16_t& count : row) {
    count = static_cast<uint16_t>(count / 2);
    table.total[from] += count;
  }
}

void PickHistory::Learn(LayerIndex layer, std::span<const uint16_t> from,
                        std::span<const uint16_t> to) {
  Table* const table = Find(layer);
  if (table == nullptr) return;
  for (const uint16_t before : from) {
    for (const uint16_t after : to) ++table->followed[size_t{before} * table->to + after];
    table->total[before] += static_cast<uint32_t>(to.size());
    if (table->total[before] >= kMostFollowed) Halve(*table, before);
  }
}

void PickHistory::Guess(LayerIndex layer, std::span<const uint16_t> from, uint32_t count,
                        std::vector<ExpertIndex>& guesses) {
  guesses.clear();
  const Table* const table = Find(layer);
  if (table == nullptr) return;
  scores_.assign(table->to, 0);
  for (const uint16_t before : from) {
    if (table->total[before] == 0) continue;
    const float share = 1.0F / static_cast<float>(table->total[before]);
    for (uint32_t after = 0; after < table->to; ++after) {
      scores_[after] += share * table->followed[size_t{before} * table->to + after];
    }
  }
  order_.resize(table->to);
  std::iota(order_.begin(), order_.end(), uint16_t{0});
  count = std::min(count, table->to);
  std::partial_sort(order_.begin(), order_.begin() + count, order_.end(),
                    [&](uint16_t a, uint16_t b) {
                      return scores_[a] != scores_[b] ? scores_[a] > scores_[b] : a < b;
                    });
  for (uint32_t i = 0; i < count && scores_[order_[i]] > 0; ++i) {
    guesses.push_back(ExpertIndex{order_[i]});
  }
}

}  // namespace moetier
