// How long a call through the fast lane takes, beside the floor of the host: two processes that
// wake each other. One row of a model so small that its computing is next to nothing; every output
// is checked. usage: bench_fastlane [CALLS]

#include <linux/futex.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <vector>

#include "base/check.h"
#include "moetier/fastlane.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/lane_fixture.h"
#include "tests/support/temp_folder.h"

namespace moetier {
namespace {

using std::chrono::steady_clock;
using testing::LaneFixture;

constexpr uint32_t kHidden = 64;
constexpr std::chrono::microseconds kPause{200};  // the daemon's spin is 20: it sleeps by then

struct Spread {
  double p50 = 0;
  double p99 = 0;
};

Spread SpreadOf(std::vector<double> us) {
  std::ranges::sort(us);
  return {.p50 = us[us.size() / 2], .p99 = us[us.size() * 99 / 100]};
}

void Print(const char* what, const Spread& spread) {
  std::printf("%-46s %8.1f us %8.1f us\n", what, spread.p50, spread.p99);
}

Spread Measure(int rounds, std::chrono::microseconds pause, const std::function<void()>& step) {
  std::vector<double> us;
  for (int i = 0; i < rounds + rounds / 10; ++i) {
    if (pause.count() > 0) usleep(static_cast<useconds_t>(pause.count()));
    const auto begin = steady_clock::now();
    step();
    const std::chrono::duration<double, std::micro> took = steady_clock::now() - begin;
    if (i >= rounds / 10) us.push_back(took.count());  // the first tenth warms up
  }
  return SpreadOf(std::move(us));
}

struct SharedWords {
  alignas(64) std::atomic<uint32_t> ping{0};
  alignas(64) std::atomic<uint32_t> pong{0};
};

void FutexWait(std::atomic<uint32_t>& word, uint32_t seen) {
  (void)syscall(SYS_futex, &word, FUTEX_WAIT, seen, nullptr, nullptr, 0);
}
void FutexWake(std::atomic<uint32_t>& word) {
  (void)syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

// The least that a call of these kinds can take: a child that answers a word at once.
void MeasureFloor(int calls) {
  auto* const words = new (mmap(nullptr, sizeof(SharedWords), PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS, -1, 0)) SharedWords;
  const int bell = eventfd(0, EFD_CLOEXEC);
  for (const bool sleeping : {false, true}) {
    words->ping = words->pong = 0;
    const pid_t child = fork();
    if (child == 0) {
      for (uint32_t i = 1;; ++i) {
        eventfd_t rung = 0;
        if (sleeping) (void)eventfd_read(bell, &rung);
        while (words->ping.load(std::memory_order_acquire) != i) __builtin_ia32_pause();
        words->pong.store(i, std::memory_order_release);
        if (sleeping) FutexWake(words->pong);
      }
    }
    uint32_t sequence = 0;
    const auto step = [&] {
      words->ping.store(++sequence, std::memory_order_release);
      if (sleeping) (void)eventfd_write(bell, 1);
      while (words->pong.load(std::memory_order_acquire) != sequence) {
        if (sleeping) FutexWait(words->pong, sequence - 1);
        __builtin_ia32_pause();
      }
    };
    Print(sleeping ? "floor: eventfd there, futex back" : "floor: a spun word there and back",
          Measure(calls, sleeping ? kPause : std::chrono::microseconds(0), step));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  close(bell);
  munmap(words, sizeof(SharedWords));
}

// The one call, and what the daemon's own queue gives for it.
struct Sample {
  std::array<float, kHidden> hidden{};
  int32_t expert = 1;
  float weight = 0.5f;
  std::array<float, kHidden> expected{};
  std::array<char, 108> socket{};  // of the daemon
};

Sample MakeSample() {
  Sample sample;
  for (uint32_t i = 0; i < kHidden; ++i) sample.hidden[i] = static_cast<float>(i % 7) - 3.0f;
  return sample;
}

void FillExpected(const LaneFixture& fixture, Sample& sample) {
  LayerCall call;
  call.model = fixture.core->FindModel("demo")->id;
  call.rows = 1;
  call.top_k = 1;
  call.hidden.assign(sample.hidden.begin(), sample.hidden.end());
  call.experts = {static_cast<uint16_t>(sample.expert)};
  call.weights = {sample.weight};
  call.received = fixture.clock.Now();
  call.control = std::make_shared<CallControl>();
  std::promise<std::vector<float>> output;
  const Status taken = fixture.core->Submit(std::move(call), [&](Result<LayerOutput> result) {
    MOE_CHECK(result.has_value(), "{}", result.error().message);
    output.set_value(std::move(result->output));
  });
  MOE_CHECK(taken.has_value(), "{}", taken.error().message);
  std::ranges::copy(output.get_future().get(), sample.expected.begin());
}

// The daemon's process: serves, and hands the sample over.
void Serve(int handover) {
  const testing::TempFolder folder;
  testing::MakeMoeGguf({.hidden = kHidden}).WriteFile(folder.File("tiny.gguf"));
  const LaneFixture fixture(LaneFixture::DefaultOptions(), {}, folder.File("tiny.gguf"));
  Sample sample = MakeSample();
  FillExpected(fixture, sample);
  MOE_CHECK(fixture.socket_path.size() < sample.socket.size(), "{}", fixture.socket_path);
  std::ranges::copy(fixture.socket_path, sample.socket.begin());
  MOE_CHECK(write(handover, &sample, sizeof sample) == sizeof sample, "write");
  // Until the parent, which has the only other end, is done; then the folders go.
  char end = 0;
  while (read(handover, &end, 1) > 0) continue;
}

void MeasureLane(const Sample& sample, int calls) {
  moetier_attach attach{};
  attach.size = sizeof attach;
  attach.socket = sample.socket.data();
  moetier_lane* lane = nullptr;
  moetier_error error{};
  MOE_CHECK(moetier_lane_attach(&attach, 10'000'000, &lane, &error) == MOETIER_OK, "{}",
            error.text);
  std::array<float, kHidden> output{};
  moetier_layer_call call{};
  call.size = sizeof call;
  call.rows = 1;
  call.top_k = 1;
  call.hidden = kHidden;
  call.hidden_type = MOETIER_F32;
  call.hidden_rows = sample.hidden.data();
  call.experts = &sample.expert;
  call.weights = &sample.weight;
  call.output = output.data();
  std::vector<double> inside;
  const auto step = [&] {
    moetier_layer_info info{};
    output.fill(0);
    MOE_CHECK(moetier_lane_compute(lane, &call, &info, &error) == MOETIER_OK, "{}", error.text);
    MOE_CHECK(output == sample.expected, "a wrong output");
    inside.push_back(info.total_us);
  };
  moetier_lane_set_spin(lane, 1'000'000);
  Print("call: both spin", Measure(calls, std::chrono::microseconds(0), step));
  Print("call: the daemon has gone to sleep", Measure(calls, kPause, step));
  moetier_lane_set_spin(lane, 0);
  Print("call: both sleep", Measure(calls, kPause, step));
  Print("of these inside the daemon, whole us", SpreadOf(std::move(inside)));
  moetier_lane_close(lane);
}

}  // namespace
}  // namespace moetier

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // the children inherit nothing unwritten
  const int calls = argc > 1 ? std::max(100, std::atoi(argv[1])) : 5000;
  std::printf("%-46s %11s %11s\n", "one row, one pick, hidden 64", "p50", "p99");
  moetier::MeasureFloor(calls);
  int ends[2];
  MOE_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0, "socketpair");
  const pid_t daemon = fork();
  if (daemon == 0) {
    close(ends[0]);
    moetier::Serve(ends[1]);
    return 0;
  }
  close(ends[1]);
  moetier::Sample sample;
  MOE_CHECK(read(ends[0], &sample, sizeof sample) == sizeof sample, "the daemon ended");
  moetier::MeasureLane(sample, calls);
  close(ends[0]);
  waitpid(daemon, nullptr, 0);
  return 0;
}
