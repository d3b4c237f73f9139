#ifndef MOETIER_TESTS_SUPPORT_RESIDENCY_CLIENT_H_
#define MOETIER_TESTS_SUPPORT_RESIDENCY_CLIENT_H_

#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "daemon/scheduling/residency_calls.h"

namespace moetier::testing {

// Keeps what a session is told. Threads: any.
class HeardResidency final : public ResidencyListener {
 public:
  void OnVictims(const Victims& victims) override {
    MutexLock lock(mu_);
    victims_.insert(victims_.end(), victims->begin(), victims->end());
  }
  void OnTransferEnded(const EndedTransfer& transfer) override {
    MutexLock lock(mu_);
    ended_.push_back(transfer);
  }
  void OnLeasesLost(const LostLeases& lost) override {
    MutexLock lock(mu_);
    lost_.push_back(lost);
  }
  [[nodiscard]] std::vector<Victim> victims() const {
    MutexLock lock(mu_);
    return victims_;
  }
  [[nodiscard]] std::vector<EndedTransfer> ended() const {
    MutexLock lock(mu_);
    return ended_;
  }

  [[nodiscard]] std::vector<LostLeases> lost() const {
    MutexLock lock(mu_);
    return lost_;
  }

 private:
  mutable Mutex mu_;
  std::vector<Victim> victims_ GUARDED_BY(mu_);
  std::vector<EndedTransfer> ended_ GUARDED_BY(mu_);
  std::vector<LostLeases> lost_ GUARDED_BY(mu_);
};

// One session's calls as futures.
class ResidencyClient {
 public:
  template <typename T>
  using Later = std::future<Result<T>>;
  using Micros = std::chrono::microseconds;

  ResidencyClient(ResidencyCalls& calls, uint64_t session, ModelId model, Bytes max_leased)
      : heard(std::make_shared<HeardResidency>()), id{session}, calls_(calls) {
    calls_.OpenSession({.id = id, .model = model, .max_leased = max_leased, .listener = heard});
  }

  Later<std::vector<LeaseOutcome>> Acquire(std::vector<ExpertKey> keys,
                                           std::optional<PoolId> pool = {}, Micros wait = {},
                                           CallId call = {}) {
    return Ask<std::vector<LeaseOutcome>>([&](auto done) {
      calls_.Acquire(
          {.session = id, .call = call, .keys = std::move(keys), .pool = pool, .wait = wait},
          std::move(done));
    });
  }
  // The first key's lease; it must be granted.
  SlotLease Lease(const ExpertKey& key, std::optional<PoolId> pool = {}, Micros wait = {}) {
    return std::get<SlotLease>(Acquire({key}, pool, wait).get().value().at(0));
  }
  // Why the key is not leased.
  NotLeased Refusal(const ExpertKey& key, std::optional<PoolId> pool = {}, Micros wait = {}) {
    return std::get<NotLeased>(Acquire({key}, pool, wait).get().value().at(0));
  }
  Later<uint32_t> Release(std::vector<LeaseId> leases) {
    return Ask<uint32_t>([&](auto done) {
      calls_.Release({.session = id, .leases = std::move(leases)}, std::move(done));
    });
  }
  Later<uint32_t> ReleaseKeys(std::vector<ExpertKey> keys, std::optional<PoolId> pool = {},
                              std::vector<LeaseId> kept = {}) {
    return Ask<uint32_t>([&](auto done) {
      calls_.Release({.session = id,
                      .leases = {},
                      .keys = std::move(keys),
                      .pool = pool,
                      .kept = std::move(kept)},
                     std::move(done));
    });
  }
  void Cancel(CallId call) { calls_.Cancel(id, call); }
  Later<std::vector<TransferOutcome>> Transfer(std::vector<ExpertKey> keys, PoolId to) {
    return Ask<std::vector<TransferOutcome>>([&](auto done) {
      calls_.Transfer({.session = id, .keys = std::move(keys), .to = to}, std::move(done));
    });
  }
  TransferOutcome TransferOne(const ExpertKey& key, PoolId to) {
    return Transfer({key}, to).get().value().at(0);
  }
  Later<LandedTransfers> Landed(TransferId after, Micros wait = {}, CallId call = {}) {
    return Ask<LandedTransfers>([&](auto done) {
      calls_.Landed({.session = id, .call = call, .after = after, .wait = wait}, std::move(done));
    });
  }
  // Waits until every transfer up to `last` has ended.
  LandedTransfers AwaitTransfer(TransferId last) {
    LandedTransfers landed = Landed(TransferId{0}).get().value();
    while (Raw(landed.all_done_below) <= Raw(last)) {
      landed = Landed(TransferId{0}, Micros(1000)).get().value();
    }
    return landed;
  }
  Later<Ok> Fence(PoolId pool, CallId call = {}) {
    return Ask<Ok>([&](auto done) {
      calls_.Fence({.session = id, .call = call, .pool = pool}, std::move(done));
    });
  }
  Later<Ok> Drain(PoolId pool) {
    return Ask<Ok>([&](auto done) {
      calls_.Drain({.session = id, .call = {}, .pool = pool}, std::move(done));
    });
  }
  Later<std::vector<RoutedExpert>> Route(LayerIndex layer, uint32_t rows,
                                         std::vector<ExpertIndex> experts) {
    return Ask<std::vector<RoutedExpert>>(
        [&](auto done) { calls_.Route(id, layer, rows, std::move(experts), std::move(done)); });
  }

  const std::shared_ptr<HeardResidency> heard;
  const SessionId id;

 private:
  template <typename T, typename Send>
  static Later<T> Ask(const Send& send) {
    // Shared because a std::function is copyable and a promise is not.
    auto promise = std::make_shared<std::promise<Result<T>>>();
    Later<T> answer = promise->get_future();
    send([promise](Result<T> result) { promise->set_value(std::move(result)); });
    return answer;
  }

  ResidencyCalls& calls_;
};

}  // namespace moetier::testing

#endif  // MOETIER_TESTS_SUPPORT_RESIDENCY_CLIENT_H_
