// What does it cost the thread that evicts to tell sessions of 4096 victims, and of 4096 transfers
// that ended? A server with clients that read all they are told; printed is the time of the calls
// on the caller's thread, by the clock and by the processor.

#include <fmt/core.h>
#include <time.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "tests/support/rpc_fixture.h"

namespace {

using namespace moetier;  // NOLINT: a program of one file
using Clock = std::chrono::steady_clock;

constexpr size_t kVictims = 4096;
constexpr int kTurns = 50;
constexpr std::chrono::milliseconds kBetween{20};  // the clients keep up

class Listening {
 public:
  explicit Listening(RpcFixture& fixture) {
    v1::AttachRequest request;
    request.set_model("small");
    request.add_features(v1::FEATURE_VICTIMS);
    request.add_features(v1::FEATURE_TRANSFER_DONE);
    client_ = std::make_unique<AttachedClient>(fixture.Connect(), request);
    listener = fixture.core.residency()
                   .OpenedSession(SessionId{client_->grant().session()})
                   .listener.lock();
    reader_ = std::jthread([this] {
      v1::SessionEvent event;
      while (client_->NextEvent(event)) {
      }
    });
  }

  std::shared_ptr<ResidencyListener> listener;

 private:
  std::unique_ptr<AttachedClient> client_;
  std::jthread reader_;
};

double ThreadMicroseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

template <typename Tell>
void Measure(const char* what, size_t listeners, const Tell& tell) {
  double clock_us = 0;
  double processor_us = 0;
  for (int turn = 0; turn < kTurns; ++turn) {
    const auto begin = Clock::now();
    const double processor = ThreadMicroseconds();
    tell();
    processor_us += ThreadMicroseconds() - processor;
    clock_us += std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
    std::this_thread::sleep_for(kBetween);
  }
  fmt::print("{:24} {:2} listeners: {:9.1f} us a turn, {:9.1f} of the processor\n", what, listeners,
             clock_us / kTurns, processor_us / kTurns);
}

void Run(size_t listeners) {
  RpcServer::Options options = RpcFixture::DefaultOptions();
  options.max_sessions = 64;
  RpcFixture fixture(options);
  std::vector<std::unique_ptr<Listening>> sessions;
  for (size_t i = 0; i < listeners; ++i) sessions.push_back(std::make_unique<Listening>(fixture));
  const Victim victim{.key = {}, .pool = PoolId{0}, .generation = 1};
  const auto victims = std::make_shared<const std::vector<Victim>>(kVictims, victim);
  const auto one = std::make_shared<const std::vector<Victim>>(1, victim);
  Measure("4096 victims", listeners, [&] {
    for (const auto& session : sessions) session->listener->OnVictims(victims);
  });
  Measure("1 victim", listeners, [&] {
    for (const auto& session : sessions) session->listener->OnVictims(one);
  });
  const EndedTransfer ended{.transfer = TransferId{1}, .key = {}, .failed = std::nullopt};
  Measure("4096 ended transfers", listeners, [&] {
    for (size_t i = 0; i < kVictims; ++i) {
      sessions[i % listeners]->listener->OnTransferEnded(ended);
    }
  });
  static_cast<void>(
      fixture.server->Stop(std::chrono::seconds(1)));  // ends the streams that are read
}

}  // namespace

int main() {
  Run(1);
  Run(16);
  return 0;
}
