#ifndef MOETIER_TESTS_SIM_SIM_ENGINE_CALLS_H_
#define MOETIER_TESTS_SIM_SIM_ENGINE_CALLS_H_

#include <algorithm>
#include <set>
#include <vector>

#include "tests/sim/sim_engines.h"

namespace moetier {

constexpr uint32_t kMostWaitUs = 3000;  // of a call of an engine

// A call of an engine and its answers.
struct SimEngines::Call {
  EnginePtr engine;
  CallId id{};
  std::string what;
  Bytes most_charge{};  // that it may add
  bool waits_for_time = false;
  TimePoint begun{};  // when the executor took it
  std::chrono::microseconds wait{0};
  uint32_t answers = 0;
  bool cancelled = false;
  Named named{};               // of an Acquire
  bool may_lose = false;       // it may wait for the device, or has leased there and waits
  bool awaits_device = false;  // and for nothing else
  // Places that it would lease and that the engine has released since: it may fail for that, and
  // leases none of them.
  std::set<Place> released;
};

// How the expert of each key stood when the executor took the call.
struct SimEngines::AcquireCall {
  struct Stood {
    PoolId pool{};  // where it would be leased
    SlotState state = SlotState::kAbsent;
    bool quarantined = false;
    bool full = false;  // after the call had taken what it could
  };
  CallPtr call;
  ResidencyCalls::AcquireRequest request;
  std::vector<Stood> stood;
  bool looked_at = false;  // `full` is known
  bool lost = false;       // its answer does not come to the engine

  [[nodiscard]] bool StandsOnDevice() const {
    return std::ranges::any_of(stood, [](const Stood& each) {
      return each.pool == kDevicePool && each.state != SlotState::kAbsent;
    });
  }
  [[nodiscard]] bool AwaitsDeviceAlone() const {
    return std::ranges::all_of(stood, [](const Stood& each) {
      return each.pool == kDevicePool || each.state != SlotState::kLoading;
    });
  }
};

struct SimEngines::TransferCall {
  CallPtr call;
  ResidencyCalls::TransferRequest request;
  // Of those keys that were there; what the call brings leaves them there until it is answered.
  std::vector<std::optional<uint32_t>> generations;
};

}  // namespace moetier

#endif  // MOETIER_TESTS_SIM_SIM_ENGINE_CALLS_H_
