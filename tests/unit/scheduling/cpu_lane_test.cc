#include "daemon/scheduling/cpu_lane.h"

#include <catch2/catch.hpp>
#include <vector>

#include "base/bytes.h"
#include "base/cpu_workers.h"
#include "tests/support/synthetic_model.h"

namespace moetier {
namespace {

using testing::SyntheticModel;

// Every expert of a layer over `rows` rows in one run; the outputs one after another.
std::vector<float> RunLayer(SyntheticModel& model, CpuLane& lane, LayerIndex layer, uint32_t rows) {
  const LayerGeometry* geometry = model.geometry().Find(layer);
  const LayerCall call = model.MakeCall(layer, rows, 2, 7);
  kernels::ActivationRows inputs;
  inputs.Resize(rows, geometry->shape.hidden);
  std::vector<kernels::ActivationRow> tokens;
  for (uint32_t row = 0; row < rows; ++row) {
    inputs.PutRow(
        row, std::span(call.hidden).subspan(row * geometry->shape.hidden, geometry->shape.hidden));
  }
  for (uint32_t row = 0; row < rows; ++row) tokens.push_back(inputs.row(row));
  const size_t stride = AlignUp(geometry->shape.hidden, 32);
  std::vector<float> results(geometry->experts * rows * stride);
  std::vector<std::vector<float*>> y(geometry->experts);
  std::vector<LaneTask> tasks;
  for (uint16_t expert = 0; expert < geometry->experts; ++expert) {
    for (uint32_t row = 0; row < rows; ++row) {
      y[expert].push_back(results.data() + (expert * rows + row) * stride);
    }
    const std::byte* record = model.file().data() + model.Locate(layer, ExpertIndex{expert}).offset;
    tasks.push_back({.expert = {&geometry->shape, &geometry->record, record},
                     .tokens = tokens,
                     .y = y[expert]});
  }
  lane.Run(tasks);
  return results;
}

}  // namespace

TEST_CASE("CpuLane: the number of workers does not change the bits", "[scheduling]") {
  SyntheticModel model({.experts = 6, .hidden = 96, .ffn = 64});
  const auto kernels = kernels::ExpertKernels::Create(kernels::InstructionSet::kScalar).value();
  CpuLane one({.workers = 1}, kernels);
  const std::vector<float> expected = RunLayer(model, one, LayerIndex{4}, 11);
  for (const uint32_t workers : {2u, 3u, 5u}) {
    CpuLane lane({.workers = workers}, kernels);
    for (int run = 0; run < 5; ++run) CHECK(RunLayer(model, lane, LayerIndex{4}, 11) == expected);
  }
}

TEST_CASE("CpuLane: workers that sleep between runs lose none", "[scheduling]") {
  SyntheticModel model({.experts = 2, .hidden = 32, .ffn = 32});
  const auto kernels = kernels::ExpertKernels::Create(kernels::InstructionSet::kScalar).value();
  CpuLane lane({.workers = 3}, kernels);
  const std::vector<float> expected = RunLayer(model, lane, LayerIndex{1}, 1);
  for (int run = 0; run < 300; ++run) {
    // Long enough now and then that the spinning workers go to sleep.
    if (run % 50 == 0) RunLayer(model, lane, LayerIndex{2}, 9);
    REQUIRE(RunLayer(model, lane, LayerIndex{1}, 1) == expected);
  }
}

TEST_CASE("CpuLane: as many workers as the configuration allows compute the same bits",
          "[scheduling]") {
  SyntheticModel model({.experts = 6, .hidden = 96, .ffn = 64});
  const auto kernels = kernels::ExpertKernels::Create(kernels::InstructionSet::kScalar).value();
  CpuLane one({.workers = 1}, kernels);
  const std::vector<float> expected = RunLayer(model, one, LayerIndex{4}, 11);
  for (const uint32_t workers : {256u, kMaxCpuWorkers}) {
    CpuLane lane({.workers = workers}, kernels);
    for (int run = 0; run < 3; ++run) CHECK(RunLayer(model, lane, LayerIndex{4}, 11) == expected);
  }
}

TEST_CASE("CpuLane: an empty run returns at once", "[scheduling]") {
  const auto kernels = kernels::ExpertKernels::Create(kernels::InstructionSet::kScalar).value();
  CpuLane lane({.workers = 2}, kernels);
  lane.Run({});
}

}  // namespace moetier
