#include <catch2/catch.hpp>
#include <limits>
#include <set>

#include "tiers/store/model_geometry.h"

namespace moetier {
namespace {

ModelGeometry WithRecords(const std::vector<std::pair<uint64_t, uint32_t>>& bytes_and_experts) {
  ModelGeometry geometry;
  uint16_t number = 3;
  for (const auto& [bytes, experts] : bytes_and_experts) {
    LayerGeometry layer;
    layer.layer = LayerIndex{number};
    number = static_cast<uint16_t>(number + 2);
    layer.experts = experts;
    layer.record.bytes = bytes;
    geometry.layers.push_back(layer);
  }
  AssignSizeClasses(geometry);
  return geometry;
}

uint64_t Aligned(uint64_t bytes) { return (bytes + 4095) / 4096 * 4096; }

// The least total over every choice of at most four of the sizes as classes; tries all subsets.
uint64_t LeastTotal(const std::vector<std::pair<uint64_t, uint32_t>>& records) {
  std::set<uint64_t> distinct;
  for (const auto& record : records) distinct.insert(Aligned(record.first));
  const std::vector<uint64_t> sizes(distinct.begin(), distinct.end());
  uint64_t least = std::numeric_limits<uint64_t>::max();
  for (uint32_t chosen = 1; chosen < 1u << sizes.size(); ++chosen) {
    if (__builtin_popcount(chosen) > 4 || (chosen >> (sizes.size() - 1)) == 0) continue;
    uint64_t total = 0;
    for (const auto& [bytes, experts] : records) {
      size_t i = 0;
      while ((chosen >> i & 1) == 0 || sizes[i] < Aligned(bytes)) ++i;
      total += sizes[i] * experts;
    }
    least = std::min(least, total);
  }
  return least;
}

}  // namespace

TEST_CASE("AssignSizeClasses: up to four sizes stay exact, rounded up to 4096", "[store]") {
  const ModelGeometry geometry =
      WithRecords({{8192, 2}, {64, 3}, {8193, 5}, {4096, 7}, {100000, 1}});
  REQUIRE(geometry.size_classes.size() == 4);
  CHECK(geometry.size_classes[0].slot_bytes == Bytes(4096));
  CHECK(geometry.size_classes[0].records == 10);  // 64 and 4096 take the same slot
  CHECK(geometry.size_classes[1].slot_bytes == Bytes(8192));
  CHECK(geometry.size_classes[2].slot_bytes == Bytes(12288));
  CHECK(geometry.size_classes[3].slot_bytes == Bytes(102400));
  CHECK(Raw(geometry.layers[0].size_class) == 1);
  CHECK(Raw(geometry.layers[1].size_class) == 0);
  CHECK(Raw(geometry.layers[2].size_class) == 2);
  CHECK(geometry.TotalBytes() == Bytes(10 * 4096 + 2 * 8192 + 5 * 12288 + 102400));
  CHECK(geometry.TotalExperts() == 18);
}

TEST_CASE("AssignSizeClasses: a rare size joins its larger neighbour, a common one does not",
          "[store]") {
  const ModelGeometry geometry =
      WithRecords({{4096, 100}, {8192, 1}, {12288, 100}, {16384, 100}, {20480, 100}});
  REQUIRE(geometry.size_classes.size() == 4);
  CHECK(geometry.size_classes[1].slot_bytes == Bytes(12288));
  CHECK(geometry.size_classes[1].records == 101);
  CHECK(geometry.layers[1].size_class == geometry.layers[2].size_class);
}

TEST_CASE("AssignSizeClasses: no other choice of classes takes fewer bytes", "[store]") {
  uint64_t state = 1;
  const auto next = [&](uint64_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
  };
  for (int round = 0; round < 300; ++round) {
    std::vector<std::pair<uint64_t, uint32_t>> records;
    const uint64_t layers = 1 + next(10);
    for (uint64_t i = 0; i < layers; ++i) {
      records.emplace_back(1 + next(60000), static_cast<uint32_t>(1 + next(300)));
    }
    const ModelGeometry geometry = WithRecords(records);
    INFO("round " << round);
    CHECK(geometry.size_classes.size() <= 4);
    CHECK(geometry.TotalBytes().count() == LeastTotal(records));
    for (const LayerGeometry& layer : geometry.layers) {
      CHECK(geometry.size_classes[Raw(layer.size_class)].slot_bytes >= Bytes(layer.record.bytes));
    }
  }
}

TEST_CASE("ModelGeometry: finds sparse layers by block number", "[store]") {
  const ModelGeometry geometry = WithRecords({{4096, 1}, {4096, 2}});
  CHECK(geometry.Find(LayerIndex{3}) == &geometry.layers[0]);
  CHECK(geometry.Find(LayerIndex{5}) == &geometry.layers[1]);
  CHECK(geometry.Find(LayerIndex{4}) == nullptr);
  CHECK(geometry.Find(LayerIndex{6}) == nullptr);
  CHECK(ModelGeometry().Find(LayerIndex{0}) == nullptr);
}

TEST_CASE("AssignSizeClasses: a model without layers has no classes", "[store]") {
  ModelGeometry geometry;
  AssignSizeClasses(geometry);
  CHECK(geometry.size_classes.empty());
  CHECK(geometry.TotalBytes() == 0_B);
}

}  // namespace moetier
