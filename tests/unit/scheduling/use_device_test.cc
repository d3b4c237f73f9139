#include <catch2/catch.hpp>
#include <memory>
#include <vector>

#include "daemon/scheduling/model_loading.h"
#include "tests/support/synthetic_model.h"
#include "tests/support/watching_device.h"

namespace moetier {
namespace {

using testing::SyntheticModel;
using testing::WatchingDevice;

// A model's geometry and RAM, which is all that a device is told of it.
struct Model {
  Model() {
    loaded.geometry = std::make_shared<const ModelGeometry>(synthetic.geometry());
    const auto plan = PlanArena(loaded.geometry->size_classes, loaded.geometry->TotalBytes(), 1);
    loaded.arena = Arena::Create(plan.value(), {}).value();
  }
  [[nodiscard]] std::vector<std::string> Fallbacks() const {
    std::vector<std::string> names;
    for (const Fallback& fallback : loaded.fallbacks) names.push_back(fallback.name);
    return names;
  }

  SyntheticModel synthetic{{.experts = 4}};
  LoadedModel loaded;
};

ModelOptions NoSlots() {
  ModelOptions options;
  options.vram.reset();
  return options;
}

}  // namespace

TEST_CASE("UseDevice: a device shown the model's RAM plans with its lanes", "[scheduling]") {
  WatchingDevice device;
  {
    Model model;
    REQUIRE(UseDevice(NoSlots(), device, {}, model.loaded));
    CHECK(model.loaded.planning != nullptr);
    CHECK(model.loaded.shown != nullptr);
    CHECK(device.shown.size() == 12);  // three layers of four experts
    CHECK(model.Fallbacks().empty());
  }
  CHECK(device.shown.empty());
}

TEST_CASE("UseDevice: a device that cannot compute the experts leaves them to the CPU, by name",
          "[scheduling]") {
  WatchingDevice device;
  device.admits = false;
  Model model;
  REQUIRE(UseDevice(NoSlots(), device, {}, model.loaded));
  CHECK(model.loaded.planning == nullptr);
  CHECK(model.loaded.vram == nullptr);
  CHECK(device.shown.empty());
  REQUIRE(model.Fallbacks() == std::vector<std::string>{"device:none"});
  CHECK(model.loaded.fallbacks[0].reason == "no such experts");
}

TEST_CASE("UseDevice: a device that cannot read RAM has no zero-copy lane, by name",
          "[scheduling]") {
  WatchingDevice device;
  device.may_show = 5;
  Model model;
  REQUIRE(UseDevice(ModelOptions(), device, {}, model.loaded));
  CHECK(model.loaded.shown == nullptr);
  CHECK(model.loaded.planning != nullptr);
  CHECK(device.shown.empty());
  CHECK(model.Fallbacks() == std::vector<std::string>{"zero_copy:none", "vram:none"});
}

TEST_CASE("UseDevice: a stop while RAM is shown ends the load, and nothing stays shown",
          "[scheduling]") {
  WatchingDevice device;
  Model model;
  const Status used = UseDevice(
      NoSlots(), device, [](Bytes, Bytes) { return false; }, model.loaded);
  REQUIRE(!used);
  CHECK(used.error().code == ErrorCode::kCancelled);
  CHECK(device.shown.empty());
}

TEST_CASE(
    "UseDevice: where the driver has less memory than the budget, the pool is smaller, by name",
    "[scheduling]") {
  WatchingDevice device;
  Model model;
  const Bytes all = model.loaded.geometry->TotalBytes();
  device.budget = all * 2;
  device.has = Bytes(all.count() / 2);
  REQUIRE(UseDevice(ModelOptions(), device, {}, model.loaded));
  REQUIRE(model.loaded.vram != nullptr);
  const uint64_t had = model.loaded.vram->size().count();
  CHECK(had <= device.has.count() * 7 / 8);  // the rest is left to others
  CHECK(had > device.has.count() / 2);
  REQUIRE(model.Fallbacks() == std::vector<std::string>{"vram:less"});
  CHECK_THAT(model.loaded.fallbacks[0].reason, Catch::StartsWith("models[].vram: no more memory") &&
                                                   Catch::Contains(" in place of "));
}

}  // namespace moetier
