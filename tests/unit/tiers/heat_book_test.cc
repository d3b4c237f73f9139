#include "tiers/heat_book.h"

#include <catch2/catch.hpp>

namespace moetier {
namespace {

constexpr LayerIndex kFirst{2};
constexpr LayerIndex kSecond{5};

ModelGeometry TwoLayers() {
  ModelGeometry geometry;
  for (const LayerIndex layer : {kFirst, kSecond}) {
    LayerGeometry& added = geometry.layers.emplace_back();
    added.layer = layer;
    added.experts = 4;
  }
  return geometry;
}

constexpr ExpertIndex Expert(uint16_t number) { return ExpertIndex{number}; }

}  // namespace

TEST_CASE("HeatBook: heat halves over its half life of tokens, two requests each", "[tiers]") {
  HeatBook book(TwoLayers());
  book.Add(kFirst, Expert(1), 8);
  for (uint32_t i = 0; i < 2 * HeatBook::kHalfLife - 1; ++i) book.NextRequest();
  CHECK(book.Heat(kFirst, Expert(1)) > 4);
  book.NextRequest();
  CHECK(book.Heat(kFirst, Expert(1)) == Approx(4));
  book.Add(kFirst, Expert(1), 1);
  CHECK(book.Heat(kFirst, Expert(1)) == Approx(5));
  CHECK(book.Heat(kSecond, Expert(1)) == 0);
}

TEST_CASE("HeatBook: what is read and set again is the same heat", "[tiers]") {
  HeatBook book(TwoLayers());
  book.Add(kFirst, Expert(0), 3);
  book.Add(kSecond, Expert(3), 0.25);
  for (int i = 0; i < 100; ++i) book.NextRequest();
  const ModelHeat heat = book.Read(77);
  CHECK(heat.fingerprint == 77);
  CHECK(CheckHeat(heat, TwoLayers()).has_value());
  HeatBook other(TwoLayers());
  other.Add(kFirst, Expert(2), 50);  // forgotten
  other.Set(heat);
  CHECK(other.Read(77) == heat);
}

TEST_CASE("HeatBook: says whether there is anything new to save", "[tiers]") {
  HeatBook book(TwoLayers());
  CHECK_FALSE(book.changed());
  book.Add(kFirst, Expert(0), 1);
  CHECK(book.changed());
  book.NoteSaved();
  book.NextRequest();
  CHECK_FALSE(book.changed());
}

}  // namespace moetier
