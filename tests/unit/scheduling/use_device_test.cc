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
    UseDevice(NoSlots(), device, model.loaded);
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
  UseDevice(NoSlots(), device, model.loaded);
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
  UseDevice(ModelOptions(), device, model.loaded);
  CHECK(model.loaded.shown == nullptr);
  CHECK(model.loaded.planning != nullptr);
  CHECK(device.shown.empty());
  CHECK(model.Fallbacks() == std::vector<std::string>{"zero_copy:none", "vram:none"});
}

}  // namespace moetier
