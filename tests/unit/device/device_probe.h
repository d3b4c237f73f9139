#ifndef MOETIER_TESTS_UNIT_DEVICE_DEVICE_PROBE_H_
#define MOETIER_TESTS_UNIT_DEVICE_DEVICE_PROBE_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <utility>
#include <variant>
#include <vector>

#include "base/mutex.h"
#include "tests/support/synthetic_model.h"
#include "tiers/device/device.h"

namespace moetier::testing {

// Keeps what a device says; waits end after minutes, since sanitizers and the emulator are slow.
class DeviceRecord final : public DeviceListener {
 public:
  void OnCopy(const CopyDone& done) override {
    MutexLock lock(mu_);
    copies_.push_back(done);
    changed_.notify_all();
  }
  void OnRun(const RunDone& done) override {
    MutexLock lock(mu_);
    runs_.push_back(done);
    changed_.notify_all();
  }
  void OnDeviceLost(const Error& why) override {
    MutexLock lock(mu_);
    losses_.push_back(why);
  }

  std::vector<CopyDone> Copies(size_t count) { return Await(copies_, count); }
  std::vector<RunDone> Runs(size_t count) { return Await(runs_, count); }
  std::vector<Error> losses() {
    MutexLock lock(mu_);
    return losses_;
  }

 private:
  template <typename T>
  std::vector<T> Await(std::vector<T>& list, size_t count) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(4);
    MutexLock lock(mu_);
    while (list.size() < count && changed_.wait_until(mu_, end) == std::cv_status::no_timeout) {
    }
    return list;
  }

  Mutex mu_;
  ConditionVariable changed_;
  std::vector<CopyDone> copies_;
  std::vector<RunDone> runs_;
  std::vector<Error> losses_;
};

inline std::vector<std::byte> Pattern(size_t bytes, uint8_t first) {
  std::vector<std::byte> pattern(bytes);
  for (size_t i = 0; i < bytes; ++i) pattern[i] = static_cast<std::byte>(first + i);
  return pattern;
}

// A call's rows and the tasks of its picks, each pick an expert of its own result.
struct DeviceRows {
  DeviceRows(SyntheticModel& model, LayerIndex layer_index, uint32_t rows)
      : layer(*model.geometry().Find(layer_index)), call(model.MakeCall(layer_index, rows, 2, 5)) {
    const uint32_t hidden = layer.shape.hidden;
    inputs.Resize(rows, hidden);
    for (uint32_t row = 0; row < rows; ++row) {
      inputs.PutRow(row, std::span(call.hidden).subspan(size_t{row} * hidden, hidden));
      tokens.push_back(inputs.row(row));
    }
    results.resize(size_t{rows} * AlignUp(hidden, 32));
    for (uint32_t row = 0; row < rows; ++row)
      y.push_back(results.data() + row * AlignUp(hidden, 32));
  }
  DeviceTask Task(std::variant<DeviceAddress, const std::byte*> expert) {
    return {
        .shape = &layer.shape, .layout = &layer.record, .record = expert, .tokens = tokens, .y = y};
  }

  // What one expert of weight 1 gives for these rows, by the reference.
  [[nodiscard]] std::vector<float> Expected(const SyntheticModel& model, uint16_t expert) const {
    LayerCall alone = call;
    alone.top_k = 1;
    alone.experts.assign(tokens.size(), expert);
    alone.weights.assign(tokens.size(), 1.0f);
    return model.Reference(alone);
  }
  // What the tasks have written.
  [[nodiscard]] std::vector<float> Outputs() const {
    std::vector<float> all;
    for (const float* row : y) all.insert(all.end(), row, row + layer.shape.hidden);
    return all;
  }

  const LayerGeometry& layer;
  LayerCall call;
  kernels::ActivationRows inputs;
  std::vector<kernels::ActivationRow> tokens;
  std::vector<float> results;
  std::vector<float*> y;
};

// The host's memory that a device's work reads and writes. A bench has it before its device: where
// a wait gives up, the test ends while the work is still under way, until the device has stopped.
class WorkMemory {
 public:
  DeviceRows& Rows(SyntheticModel& model, LayerIndex layer, uint32_t rows) {
    return rows_.emplace_back(model, layer, rows);
  }
  std::vector<std::byte>& Keep(std::vector<std::byte> bytes) {
    return buffers_.emplace_back(std::move(bytes));
  }
  std::vector<std::byte>& Zeros(size_t bytes) { return Keep(std::vector<std::byte>(bytes)); }

 private:
  std::deque<DeviceRows> rows_;
  std::deque<std::vector<std::byte>> buffers_;
};

// Four slots a size class of the model, and eight places each.
inline ArenaPlan FourSlots(const SyntheticModel& model) {
  ArenaPlan plan;
  for (const SizeClassGeometry& each : model.geometry().size_classes) {
    plan.regions.push_back(
        {.slot_bytes = each.slot_bytes, .slots = 4, .offset = plan.total.count(), .records = 8});
    plan.total += each.slot_bytes * 4;
  }
  return plan;
}

}  // namespace moetier::testing

#endif  // MOETIER_TESTS_UNIT_DEVICE_DEVICE_PROBE_H_
