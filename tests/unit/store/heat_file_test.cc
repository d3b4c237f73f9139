#include "tiers/store/heat_file.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "tests/support/fake_file_system.h"

namespace moetier {
namespace {

constexpr uint64_t kFingerprint = 0x1234;

// Layers 1 and 4 of 2 and 3 experts.
ModelGeometry Geometry() {
  ModelGeometry geometry;
  for (const auto& [layer, experts] : {std::pair{1, 2u}, {4, 3u}}) {
    LayerGeometry& added = geometry.layers.emplace_back();
    added.layer = LayerIndex{static_cast<uint16_t>(layer)};
    added.experts = experts;
  }
  return geometry;
}

ModelHeat Heat(float first) {
  return {.fingerprint = kFingerprint,
          .layers = {{LayerIndex{1}, {first, 0}}, {LayerIndex{4}, {0.5f, 100, 7}}}};
}

const std::string kPath = "/state/heat/0000000000001234.heat";

struct Folder {
  FakeFileSystem files;
  HeatFolder folder{files, "/state/heat"};
};

}  // namespace

TEST_CASE("HeatFolder: a load finds what was saved last", "[store]") {
  Folder at;
  REQUIRE(at.folder.Save(Heat(1)).has_value());
  REQUIRE(at.folder.Save(Heat(2)).has_value());
  const HeatFolder::Found found = at.folder.Load(kFingerprint, Geometry());
  CHECK(found.heat == Heat(2));
  CHECK_FALSE(found.warning.has_value());
}

TEST_CASE("HeatFolder: a model that nothing was saved of starts without heat, and no word",
          "[store]") {
  Folder at;
  const HeatFolder::Found found = at.folder.Load(kFingerprint, Geometry());
  CHECK_FALSE(found.heat.has_value());
  CHECK_FALSE(found.warning.has_value());
}

TEST_CASE("HeatFolder: a power loss at any moment of a save leaves the old heat or the new one",
          "[store]") {
  for (const Survival survival :
       {Survival::kNothing, Survival::kScattered, Survival::kEverything}) {
    for (uint64_t operation = 0;; ++operation) {
      Folder at;
      REQUIRE(at.folder.Save(Heat(1)).has_value());
      const uint64_t before = at.files.operations();
      at.files.LosePowerAt(before + operation);
      const bool saved = at.folder.Save(Heat(2)).has_value();
      at.files.Restart(survival, operation);
      const HeatFolder::Found found = at.folder.Load(kFingerprint, Geometry());
      CAPTURE(operation);
      REQUIRE(found.heat.has_value());
      CHECK((found.heat == Heat(1) || found.heat == Heat(2)));
      if (!saved) continue;
      CHECK(found.heat == Heat(2));
      break;
    }
  }
}

TEST_CASE("HeatFolder: every damaged byte is noticed, named, and the file is kept aside",
          "[store]") {
  const size_t size = SerializeHeat(Heat(1)).size();
  for (size_t byte = 0; byte < size; ++byte) {
    Folder at;
    REQUIRE(at.folder.Save(Heat(1)).has_value());
    at.files.Bytes(kPath)[byte] ^= std::byte{0x10};
    const HeatFolder::Found found = at.folder.Load(kFingerprint, Geometry());
    CAPTURE(byte);
    CHECK_FALSE(found.heat.has_value());
    REQUIRE(found.warning.has_value());
    CHECK_THAT(*found.warning, Catch::StartsWith("heat file " + kPath + " is damaged: "));
    CHECK(at.files.Contents().contains(kPath + ".damaged"));
    CHECK_FALSE(at.files.Contents().contains(kPath));
    // The next load is an ordinary first one.
    CHECK_FALSE(at.folder.Load(kFingerprint, Geometry()).warning.has_value());
  }
}

TEST_CASE("HeatFolder: the heat of other layers, experts or another model is not used", "[store]") {
  Folder at;
  REQUIRE(at.folder.Save(Heat(1)).has_value());
  ModelGeometry other = Geometry();
  other.layers[1].experts = 4;
  const HeatFolder::Found found = at.folder.Load(kFingerprint, other);
  CHECK_FALSE(found.heat.has_value());
  CHECK_THAT(found.warning.value(),
             Catch::Contains("blk.4: the heat has 3 experts, the model has 4"));

  REQUIRE(at.folder.Save(Heat(1)).has_value());
  REQUIRE(at.files.Rename(kPath, "/state/heat/0000000000005678.heat").has_value());
  const HeatFolder::Found wrong = at.folder.Load(0x5678, Geometry());
  CHECK_FALSE(wrong.heat.has_value());
  CHECK_THAT(wrong.warning.value(), Catch::Contains("0000000000001234, not of 0000000000005678"));
}

TEST_CASE("ParseHeat: a heat below 0 is no heat, whatever its checksum", "[store]") {
  CHECK(ParseHeat(SerializeHeat(Heat(-1))).error().reason == Reason::kBadShape);
  CHECK(ParseHeat(SerializeHeat(Heat(1))).value() == Heat(1));
}

TEST_CASE("CheckHeat: layers, experts and values that are not the model's are refused", "[store]") {
  CHECK(CheckHeat(Heat(1), Geometry()).has_value());
  ModelHeat fewer = Heat(1);
  fewer.layers.pop_back();
  CHECK(CheckHeat(fewer, Geometry()).error().message ==
        "the heat has 1 layers, the model has 2 with experts");
  ModelHeat shifted = Heat(1);
  shifted.layers[1].layer = LayerIndex{3};
  CHECK_FALSE(CheckHeat(shifted, Geometry()).has_value());
  for (const float bad : {-1.0f, std::numeric_limits<float>::infinity(), std::nanf("")}) {
    CHECK_FALSE(CheckHeat(Heat(bad), Geometry()).has_value());
  }
}

TEST_CASE("HottestFirst: gives the experts with heat, the hottest first", "[store]") {
  const ModelId id{3};
  const std::vector<ExpertKey> hottest = HottestFirst(Heat(7), id);
  const std::vector<ExpertKey> expected = {{id, LayerIndex{4}, ExpertIndex{1}},
                                           {id, LayerIndex{1}, ExpertIndex{0}},
                                           {id, LayerIndex{4}, ExpertIndex{2}},
                                           {id, LayerIndex{4}, ExpertIndex{0}}};
  CHECK(hottest == expected);
}

}  // namespace moetier
