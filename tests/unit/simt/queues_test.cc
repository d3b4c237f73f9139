#include "kernels/cuda/simt/queues.h"

#include <catch2/catch.hpp>
#include <vector>

#include "kernels/cuda/simt/simt.h"

namespace moetier::simt {
namespace {

__global__ void AddOne(int* values) { values[threadIdx.x] += 1; }
__global__ void Diverge() { __syncwarp(1); }

enum class Order { kByEvent, kForgotten };

// A copy in one stream, a kernel on what it brought in another, a copy out in the first.
int CopyAddCopy(uint64_t seed, Order order) {
  Device device({.seed = seed});
  Stream& copies = device.NewStream();
  Stream& kernels = device.NewStream();
  Event& arrived = device.NewEvent();
  Event& computed = device.NewEvent();
  const std::vector<int> in(32, 41);
  std::vector<int> on_device(32, 0);
  std::vector<int> out(32, 0);
  device.Copy(on_device.data(), in.data(), sizeof(int) * 32, copies);
  if (order == Order::kByEvent) {
    device.Record(arrived, copies);
    device.Wait(kernels, arrived);
  }
  REQUIRE(Launch({1, 32, 0}, &kernels, AddOne, on_device.data()) == 0);
  if (order == Order::kByEvent) {
    device.Record(computed, kernels);
    device.Wait(copies, computed);
  }
  device.Copy(out.data(), on_device.data(), sizeof(int) * 32, copies);
  REQUIRE(device.Synchronise().has_value());
  return out[9];
}

}  // namespace

TEST_CASE("Device: events order streams; without them some seed gives another result", "[simt]") {
  int wrong = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    CHECK(CopyAddCopy(seed, Order::kByEvent) == 42);
    if (CopyAddCopy(seed, Order::kForgotten) != 42) ++wrong;
  }
  CHECK(wrong > 0);
}

TEST_CASE("Device: nothing runs before the host waits, and then no more than it waits for",
          "[simt]") {
  Device device({});
  Stream& stream = device.NewStream();
  Event& first = device.NewEvent();
  std::vector<int> values(32, 0);
  REQUIRE(Launch({1, 32, 0}, &stream, AddOne, values.data()) == 0);
  device.Record(first, stream);
  REQUIRE(Launch({1, 32, 0}, &stream, AddOne, values.data()) == 0);
  CHECK(values[3] == 0);
  REQUIRE(device.Synchronise(first).has_value());
  CHECK(values[3] == 1);
  REQUIRE(device.Synchronise().has_value());
  CHECK(values[3] == 2);
}

TEST_CASE("Device: a wait for an event that was never recorded does not wait", "[simt]") {
  Device device({});
  Stream& stream = device.NewStream();
  Event& event = device.NewEvent();
  std::vector<int> values(32, 0);
  device.Wait(stream, event);
  REQUIRE(Launch({1, 32, 0}, &stream, AddOne, values.data()) == 0);
  REQUIRE(device.Synchronise().has_value());
  CHECK(values[0] == 1);
}

TEST_CASE("Device: nothing runs after a kernel that failed", "[simt]") {
  Device device({});
  Stream& stream = device.NewStream();
  std::vector<int> values(32, 0);
  REQUIRE(Launch({1, 32, 0}, &stream, Diverge) == 0);
  REQUIRE(Launch({1, 32, 0}, &stream, AddOne, values.data()) == 0);
  CHECK_FALSE(device.Synchronise().has_value());
  CHECK_FALSE(device.Synchronise().has_value());
  CHECK(values[0] == 0);
}

}  // namespace moetier::simt
