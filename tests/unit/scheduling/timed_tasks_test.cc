#include "daemon/scheduling/timed_tasks.h"

#include <catch2/catch.hpp>
#include <future>
#include <vector>

namespace moetier {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

}  // namespace

TEST_CASE("TimedTasks: tasks run in the order of their times, whatever order they came in",
          "[scheduling]") {
  TimedTasks tasks;
  std::promise<void> done;
  std::vector<int> ran;  // by the tasks' thread, then read here after `done`
  const TimePoint now = steady_clock::now();
  tasks.At(now + milliseconds(30), [&] {
    ran.push_back(3);
    done.set_value();
  });
  tasks.At(now + milliseconds(20), [&] { ran.push_back(2); });
  tasks.At(now - hours(1), [&] { ran.push_back(1); });
  REQUIRE(done.get_future().wait_for(std::chrono::seconds(10)) == std::future_status::ready);
  CHECK(ran == std::vector<int>{1, 2, 3});
}

TEST_CASE("TimedTasks: what is dropped does not run, and a task may add the next", "[scheduling]") {
  TimedTasks tasks;
  std::promise<void> done;
  bool ran = false;
  const TimePoint now = steady_clock::now();
  const TimedTasks::TaskId dropped = tasks.At(now + milliseconds(20), [&] { ran = true; });
  tasks.Drop(dropped);
  tasks.At(now,
           [&] { tasks.At(steady_clock::now() + milliseconds(40), [&] { done.set_value(); }); });
  REQUIRE(done.get_future().wait_for(std::chrono::seconds(10)) == std::future_status::ready);
  tasks.Stop();
  CHECK_FALSE(ran);
}

TEST_CASE("TimedTasks: a stop does not wait for what is far away", "[scheduling]") {
  TimedTasks tasks;
  tasks.At(steady_clock::now() + hours(1), [] { FAIL("an hour is not over"); });
  tasks.Stop();
  tasks.Stop();
  SUCCEED();
}

}  // namespace moetier
