// Peers that die, lie or scribble.

#include <signal.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <thread>

#include "tests/support/lane_fixture.h"
#include "tests/support/random.h"
#include "tests/support/raw_lane.h"

namespace moetier::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr uint64_t kLeastCalls = 10;  // however slow a sanitizer makes them

size_t OpenFiles() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

bool WaitForFiles(size_t count) {
  const auto deadline = steady_clock::now() + std::chrono::seconds(10);
  while (OpenFiles() != count) {
    if (steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(milliseconds(5));
  }
  return true;
}

// A process of its own that runs `body` and then waits to be killed; it says through a pipe that
// body has run.
class Process {
 public:
  explicit Process(const std::function<void()>& body) {
    int ends[2];
    MOE_CHECK(pipe(ends) == 0, "pipe");
    pid_ = fork();
    MOE_CHECK(pid_ >= 0, "fork");
    if (pid_ == 0) {
      body();
      MOE_CHECK(write(ends[1], "x", 1) == 1, "write");
      for (;;) pause();
    }
    close(ends[1]);
    char done = 0;
    MOE_CHECK(read(ends[0], &done, 1) == 1, "the process ended early");
    close(ends[0]);
  }
  ~Process() { Kill(); }
  void Signal(int signal) const { MOE_CHECK(kill(pid_, signal) == 0, "kill"); }
  void Kill() {
    if (pid_ == 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  pid_t pid_ = 0;
};

// A process that writes random words all over `lane`'s page, rings its doorbell and steals rings.
pid_t Scribble(const RawLane& lane, uint64_t seed) {
  const pid_t pid = fork();
  MOE_CHECK(pid >= 0, "fork");
  if (pid != 0) return pid;
  Random random(seed);
  const std::span<uint32_t> words = lane.words();
  const size_t slot_words = lane.grant().slot_bytes / sizeof(uint32_t);
  const size_t first = lane.grant().slots_offset / sizeof(uint32_t);
  for (uint64_t i = 0;; ++i) {
    const uint32_t small = random.Below(8);
    const uint32_t any = static_cast<uint32_t>(random.Next());
    const uint32_t value = random.Percent(50) ? small : any;
    const size_t slot = first + random.Below(lane.grant().max_in_flight) * slot_words;
    switch (random.Below(4)) {
      case 0:
        words[random.Below(words.size())] = value;
        break;
      case 1:
        words[slot + random.Below(64)] = value;  // request and reply
        break;
      case 2:
        ++words[slot];  // submitted
        break;
      default:
        __atomic_fetch_add(&lane.head().submissions, 1, __ATOMIC_RELEASE);
        break;
    }
    if (i % 256 == 0) (void)eventfd_write(lane.doorbell(), 1);
    if (i % 1024 == 0) {
      eventfd_t stolen = 0;
      (void)eventfd_read(lane.doorbell(), &stolen);
    }
  }
}

void RunBesideScribblers(std::chrono::milliseconds length, uint64_t seed) {
  LaneFixture fixture;
  const Lane good(fixture);
  REQUIRE(good.status == MOETIER_OK);
  RawLane first(fixture.socket_path);
  RawLane second(fixture.socket_path);
  REQUIRE(first.Attach());
  REQUIRE(second.Attach());
  const std::vector<pid_t> scribblers = {Scribble(first, seed), Scribble(second, seed + 1)};
  const auto end = steady_clock::now() + length;
  uint64_t calls = 0;
  while (steady_clock::now() < end || calls < kLeastCalls) {
    moetier_lane_set_spin(good.get(), calls % 2 == 0 ? 0 : 50);
    LaneCall call(fixture, 1 + static_cast<uint32_t>(calls % 70), seed + calls);
    const moetier_layer_call request = call.Request();
    moetier_error error{};
    const moetier_status status = moetier_lane_compute(good.get(), &request, nullptr, &error);
    INFO("call " << calls << ": " << error.text);
    REQUIRE(status == MOETIER_OK);
    REQUIRE(call.output == call.Expected(fixture));
    ++calls;
  }
  for (const pid_t pid : scribblers) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  first.Hangup();
  second.Hangup();
  CHECK(fixture.WaitForSessions(1));
}

}  // namespace

TEST_CASE("Fast lane: a client that rewrites its page at random harms no other", "[fastlane]") {
  RunBesideScribblers(std::chrono::seconds(2), 1);
}

TEST_CASE("Fast lane: clients that rewrite their pages for minutes harm no other",
          "[fastlane][.slow]") {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    INFO("seed " << seed);
    RunBesideScribblers(std::chrono::seconds(10), 1000 * seed);
  }
}

TEST_CASE("Fast lane: a client killed in any state leaves no session, page or descriptor",
          "[fastlane]") {
  LaneFixture fixture;
  const size_t files = OpenFiles();
  // Made before the fork, since the child is not to need the fixture's threads.
  const std::vector<std::function<void()>> states = {
      [&] { (void)new RawLane(fixture.socket_path); },
      [&] { MOE_CHECK((new RawLane(fixture.socket_path))->Attach(), "attach"); },
      [&] {
        auto* lane = new Lane(fixture);
        auto* call = new LaneCall(fixture, 64, 5);
        const moetier_layer_call request = call->Request();
        for (int i = 0; i < 4; ++i) {
          uint64_t ticket = 0;
          MOE_CHECK(moetier_lane_submit(lane->get(), &request, &ticket, nullptr) == MOETIER_OK,
                    "submit");
        }
      },
      [&] {
        auto* lane = new Lane(fixture);
        LaneCall call(fixture, 1, 5);
        const moetier_layer_call request = call.Request();
        moetier_lane_set_spin(lane->get(), 0);
        MOE_CHECK(moetier_lane_compute(lane->get(), &request, nullptr, nullptr) == MOETIER_OK,
                  "compute");
      }};
  for (size_t state = 0; state < states.size(); ++state) {
    for (int round = 0; round < 5; ++round) {
      INFO("state " << state << ", round " << round);
      Process client(states[state]);
      client.Kill();
      REQUIRE(fixture.WaitForSessions(0));
      REQUIRE(WaitForFiles(files));
    }
  }
  const Lane lane(fixture);
  LaneCall call(fixture, 3, 5);
  const moetier_layer_call request = call.Request();
  REQUIRE(moetier_lane_compute(lane.get(), &request, nullptr, nullptr) == MOETIER_OK);
  CHECK(call.output == call.Expected(fixture));
}

TEST_CASE("Fast lane: a daemon that is killed is gone for its client at once", "[fastlane]") {
  const TempFolder folder;
  const std::string note = folder.File("note");
  Process daemon([&] {
    auto* fixture = new LaneFixture();
    std::filesystem::create_symlink(fixture->socket_path, note);
  });
  const std::string socket = std::filesystem::read_symlink(note).string();
  moetier_attach attach{};
  attach.size = sizeof attach;
  attach.socket = socket.c_str();
  moetier_lane* lane = nullptr;
  REQUIRE(moetier_lane_attach(&attach, 10'000'000, &lane, nullptr) == MOETIER_OK);
  daemon.Signal(SIGSTOP);
  const uint32_t hidden = moetier_lane_grant(lane)->max_hidden;
  std::vector<float> values(hidden);
  const int32_t expert = 0;
  const float weight = 1;
  moetier_layer_call call{};
  call.size = sizeof call;
  call.rows = 1;
  call.top_k = 1;
  call.hidden = hidden;
  call.hidden_type = MOETIER_F32;
  call.hidden_rows = values.data();
  call.experts = &expert;
  call.weights = &weight;
  call.output = values.data();
  uint64_t ticket = 0;
  REQUIRE(moetier_lane_submit(lane, &call, &ticket, nullptr) == MOETIER_OK);
  std::thread killer([&] {
    std::this_thread::sleep_for(milliseconds(50));  // the client sleeps by then
    daemon.Kill();
  });
  const auto begin = steady_clock::now();
  moetier_error error{};
  CHECK(moetier_lane_wait(lane, ticket, nullptr, &error) == MOETIER_GONE);
  CHECK(steady_clock::now() - begin < std::chrono::seconds(2));
  CHECK(std::string(error.text).find(socket) == 0);
  killer.join();
  CHECK(moetier_lane_compute(lane, &call, nullptr, nullptr) == MOETIER_GONE);
  CHECK(moetier_lane_submit(lane, &call, &ticket, nullptr) == MOETIER_GONE);
  moetier_lane_close(lane);
  std::filesystem::remove_all(std::filesystem::path(socket).parent_path().parent_path());
}

TEST_CASE("Fast lane: stopping answers what was accepted, then the session is gone", "[fastlane]") {
  LaneFixture fixture;
  const Lane lane(fixture);
  LaneCall call(fixture, 300, 8);
  const moetier_layer_call request = call.Request();
  std::thread stopper([&] {
    std::this_thread::sleep_for(milliseconds(20));
    fixture.server->Stop(fixture.clock.Now() + std::chrono::seconds(10));
  });
  moetier_status status = MOETIER_OK;
  moetier_error error{};
  int answered = 0;
  while (status == MOETIER_OK) {
    status = moetier_lane_compute(lane.get(), &request, nullptr, &error);
    if (status == MOETIER_OK) ++answered;
  }
  stopper.join();
  const bool draining =
      status == MOETIER_FAULT && error.reason == static_cast<uint32_t>(Reason::kDraining);
  INFO(answered << " answered, then " << error.text);
  CHECK((draining || status == MOETIER_GONE));
  CHECK(moetier_lane_compute(lane.get(), &request, nullptr, nullptr) == MOETIER_GONE);
  CHECK(fixture.book.sessions().empty());
  CHECK_FALSE(std::filesystem::exists(fixture.socket_path + ".fastlane"));
}

TEST_CASE("Fast lane: a client that only rings is put out, and harms no other", "[fastlane]") {
  LaneFixture fixture;
  const Lane good(fixture);
  RawLane ringer(fixture.socket_path);
  REQUIRE(ringer.Attach());
  std::atomic<bool> stop{false};
  std::thread ringing([&] {
    while (!stop) (void)eventfd_write(ringer.doorbell(), 1);
  });
  CHECK(ringer.WaitForEnd());
  stop = true;
  ringing.join();
  LaneCall call(fixture, 3, 5);
  const moetier_layer_call request = call.Request();
  REQUIRE(moetier_lane_compute(good.get(), &request, nullptr, nullptr) == MOETIER_OK);
  CHECK(call.output == call.Expected(fixture));
}

TEST_CASE("Fast lane: a client whose doorbell blocks or is emptied stalls nobody", "[fastlane]") {
  LaneFixture fixture;
  const Lane good(fixture);
  RawLane odd(fixture.socket_path);
  REQUIRE(odd.Attach());
  REQUIRE(fcntl(odd.doorbell(), F_SETFL, 0) == 0);  // of the description that the daemon has too
  std::atomic<bool> stop{false};
  std::thread emptying([&] {
    fcntl(odd.doorbell(), F_SETFL, 0);
    for (int i = 0; i < 1000 && !stop; ++i) {
      (void)eventfd_write(odd.doorbell(), 1);
      eventfd_t rung = 0;
      (void)eventfd_read(odd.doorbell(), &rung);
    }
  });
  for (uint64_t i = 0; i < 50; ++i) {
    LaneCall call(fixture, 1, i);
    const moetier_layer_call request = call.Request();
    moetier_lane_set_spin(good.get(), 0);
    std::this_thread::sleep_for(milliseconds(1));  // so that the daemon sleeps
    REQUIRE(moetier_lane_compute(good.get(), &request, nullptr, nullptr) == MOETIER_OK);
  }
  stop = true;
  emptying.join();
}

}  // namespace moetier::testing
