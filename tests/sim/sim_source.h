#ifndef MOETIER_TESTS_SIM_SIM_SOURCE_H_
#define MOETIER_TESTS_SIM_SIM_SOURCE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <utility>

#include "daemon/scheduling/call_source.h"

namespace moetier {

// Calls that the executor finds by looking, as those of the fast lane. Threads: one.
class SimSource final : public CallSource {
 public:
  // `refused` is told why a call was not taken.
  void Put(LayerCall call, LayerDone done, std::function<void(const Error&)> refused) {
    waiting_.push_back({std::move(call), std::move(done), std::move(refused)});
  }

  // The session's lane is closed: its calls are refused.
  void Close(SessionId session) {
    std::erase_if(waiting_, [=](const Waiting& each) {
      if (each.call.session != session) return false;
      each.refused({ErrorCode::kCancelled, Reason::kCancelled, "its lane is closed"});
      return true;
    });
  }

  void Poll(CallSink& sink, uint32_t room) override {
    for (; room > 0 && !waiting_.empty(); --room) {
      Waiting next = std::move(waiting_.front());
      waiting_.pop_front();
      const Status taken = sink.Take(std::move(next.call), std::move(next.done));
      if (!taken.has_value()) next.refused(taken.error());
    }
  }
  [[nodiscard]] bool Ready() override { return !waiting_.empty(); }
  [[nodiscard]] bool HasClients() const override { return false; }
  void BeginSleep() override {}
  void EndSleep() override {}
  [[nodiscard]] int descriptor() const override { return -1; }

 private:
  struct Waiting {
    LayerCall call;
    LayerDone done;
    std::function<void(const Error&)> refused;
  };
  std::deque<Waiting> waiting_;
};

}  // namespace moetier

#endif  // MOETIER_TESTS_SIM_SIM_SOURCE_H_
