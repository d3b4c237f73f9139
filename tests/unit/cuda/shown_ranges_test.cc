#include "kernels/cuda/shown_ranges.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <future>

namespace moetier::kernels::cuda {

namespace {

// What a driver would be asked.
struct Registrations {
  Status Show(const std::byte& at, uint32_t gpu) {
    return ranges.Show(&at, gpu, [this]() -> Status {
      if (refuses) return Error{ErrorCode::kExhausted, Reason::kMemoryLimit, "no"};
      ++registered;
      return Ok{};
    });
  }
  void Hide(const std::byte& at, uint32_t gpu) {
    ranges.Hide(&at, gpu, [this]() -> Status {
      if (refuses) return Error{ErrorCode::kUnavailable, Reason::kIo, "no"};
      --registered;
      return Ok{};
    });
  }

  bool refuses = false;
  int registered = 0;
  ShownRanges ranges;
};

}  // namespace

TEST_CASE("ShownRanges: a range is registered once, and given back by the last that has it",
          "[cuda]") {
  std::byte memory[2]{};
  Registrations driver;
  REQUIRE(driver.Show(memory[0], 0));
  REQUIRE(driver.Show(memory[0], 1));
  CHECK(driver.registered == 1);
  REQUIRE(driver.Show(memory[1], 0));
  CHECK(driver.registered == 2);
  driver.Hide(memory[0], 0);
  CHECK(driver.registered == 2);
  driver.Hide(memory[0], 1);
  CHECK(driver.registered == 1);
  driver.Hide(memory[0], 1);
  CHECK(driver.registered == 1);
  REQUIRE(driver.Show(memory[0], 0));
  CHECK(driver.registered == 2);
}

TEST_CASE("ShownRanges: who was not shown a range does not take it from who was", "[cuda]") {
  std::byte memory{};
  Registrations driver;
  REQUIRE(driver.Show(memory, 0));
  driver.Hide(memory, 1);
  driver.Hide(memory, 1);
  CHECK(driver.registered == 1);
  driver.Hide(memory, 0);
  CHECK(driver.registered == 0);
}

TEST_CASE("ShownRanges: what could not be registered is not shown", "[cuda]") {
  std::byte memory{};
  Registrations driver;
  driver.refuses = true;
  CHECK(!driver.Show(memory, 0));
  driver.refuses = false;
  driver.Hide(memory, 0);
  CHECK(driver.registered == 0);
  CHECK(driver.Show(memory, 0));
}

TEST_CASE("ShownRanges: while one GPU hangs no range is given back, nor taken for another's",
          "[cuda]") {
  std::byte memory[2]{};
  Registrations driver;
  REQUIRE(driver.Show(memory[0], 0));
  REQUIRE(driver.Show(memory[0], 1));
  driver.ranges.GiveUp();
  driver.Hide(memory[0], 0);
  REQUIRE(driver.Show(memory[0], 0));  // it is still the other's
  driver.Hide(memory[0], 0);
  driver.Hide(memory[0], 1);
  CHECK(driver.registered == 1);
  const Status again = driver.Show(memory[0], 1);
  REQUIRE(!again);
  CHECK(again.error().code == ErrorCode::kUnavailable);
  CHECK(driver.Show(memory[1], 1));
}

TEST_CASE("ShownRanges: who waits in the driver holds up nobody who has another range", "[cuda]") {
  std::byte memory[2]{};
  Registrations driver;
  REQUIRE(driver.Show(memory[0], 0));
  std::promise<void> answer;
  std::promise<void> asked;
  auto hidden = std::async(std::launch::async, [&] {
    driver.ranges.Hide(&memory[0], 0, [&]() -> Status {
      asked.set_value();
      answer.get_future().wait();
      return Ok{};
    });
  });
  asked.get_future().wait();
  CHECK(driver.Show(memory[1], 0));
  driver.Hide(memory[1], 0);
  auto again = std::async(std::launch::async, [&] { return driver.Show(memory[0], 1); });
  CHECK(again.wait_for(std::chrono::milliseconds(20)) == std::future_status::timeout);
  answer.set_value();
  CHECK(again.get());
}

TEST_CASE("ShownRanges: a range that the driver does not give back is not registered anew",
          "[cuda]") {
  std::byte memory{};
  Registrations driver;
  REQUIRE(driver.Show(memory, 0));
  driver.refuses = true;
  driver.Hide(memory, 0);
  driver.refuses = false;
  CHECK(!driver.Show(memory, 0));
  CHECK(driver.registered == 1);
}

}  // namespace moetier::kernels::cuda
