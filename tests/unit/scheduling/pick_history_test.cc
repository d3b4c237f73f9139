#include "daemon/scheduling/pick_history.h"

#include <catch2/catch.hpp>

namespace moetier {
namespace {

ModelGeometry Geometry(std::vector<uint32_t> experts) {
  ModelGeometry geometry;
  for (size_t i = 0; i < experts.size(); ++i) {
    LayerGeometry layer;
    layer.layer = LayerIndex{static_cast<uint16_t>(2 * i)};  // sparse
    layer.experts = experts[i];
    geometry.layers.push_back(layer);
  }
  return geometry;
}

std::vector<uint16_t> Guess(PickHistory& history, uint16_t layer, std::vector<uint16_t> from,
                            uint32_t count) {
  std::vector<ExpertIndex> guesses;
  history.Guess(LayerIndex{layer}, from, count, guesses);
  std::vector<uint16_t> numbers;
  for (const ExpertIndex expert : guesses) numbers.push_back(Raw(expert));
  return numbers;
}

using Picks = std::vector<uint16_t>;

}  // namespace

TEST_CASE("PickHistory: what followed most often is guessed first", "[scheduling]") {
  const auto history = PickHistory::Create(Geometry({8, 8, 8}));
  history->Learn(LayerIndex{0}, Picks{1}, Picks{5});
  history->Learn(LayerIndex{0}, Picks{1}, Picks{5});
  history->Learn(LayerIndex{0}, Picks{1}, Picks{6});
  history->Learn(LayerIndex{0}, Picks{2}, Picks{7});
  CHECK(Guess(*history, 0, {1}, 8) == Picks{5, 6});
  CHECK(Guess(*history, 0, {1, 2}, 2) ==
        Picks{7, 5});  // always after 2, two times of three after 1
  CHECK(Guess(*history, 0, {3}, 8).empty());
  CHECK(Guess(*history, 2, {1}, 8).empty());
}

TEST_CASE("PickHistory: the last layer and unknown layers have no followers", "[scheduling]") {
  const auto history = PickHistory::Create(Geometry({4, 4}));
  history->Learn(LayerIndex{2}, Picks{1}, Picks{1});
  history->Learn(LayerIndex{1}, Picks{1}, Picks{1});
  CHECK(Guess(*history, 2, {1}, 4).empty());
  CHECK(Guess(*history, 1, {1}, 4).empty());
}

TEST_CASE("PickHistory: what followed lately outweighs what followed long ago", "[scheduling]") {
  const auto history = PickHistory::Create(Geometry({4, 4}));
  for (int i = 0; i < 100'000; ++i) history->Learn(LayerIndex{0}, Picks{1}, Picks{2});
  for (int i = 0; i < 8'000; ++i) history->Learn(LayerIndex{0}, Picks{1}, Picks{3});
  CHECK(Guess(*history, 0, {1}, 1) == Picks{3});
}

TEST_CASE("PickHistory: tables that would not fit are not made", "[scheduling]") {
  CHECK(PickHistory::Create(Geometry({4096, 4096, 4096, 4096})) == nullptr);
  CHECK(PickHistory::Create(Geometry({256, 256})) != nullptr);
}

}  // namespace moetier
