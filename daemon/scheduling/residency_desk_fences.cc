// ResidencyDesk's Fence and Drain: calls that wait for the device's work.

#include <iterator>
#include <utility>

#include "daemon/scheduling/layer_executor.h"
#include "daemon/scheduling/residency_desk.h"

namespace moetier {

void ResidencyDesk::Fence(const ResidencyCalls::PoolRequest& request,
                          const std::function<void(Status)>& done) {
  Await(request, {.what = Fenced::What::kAll, .done = done});
}

void ResidencyDesk::Drain(const ResidencyCalls::PoolRequest& request,
                          const std::function<void(Status)>& done) {
  Await(request, {.what = Fenced::What::kWriteBacks, .done = done});
}

void ResidencyDesk::Await(const ResidencyCalls::PoolRequest& request, Fenced fenced) {
  const Result<Open> open = Find(request.session);
  if (!open) return fenced.done(open.error());
  fenced.session = request.session;
  fenced.call = request.call;
  fenced.copies = CopyId{executor_.next_copy_};
  fenced.runs = RunId{executor_.next_run_};
  if (request.pool == kRamPool || IsPassed(fenced, OldestWork())) return fenced.done(Ok{});
  if (const auto& lost = executor_.device_lost_; lost) return fenced.done(*lost);
  if (const Status allowed = CheckWaiting(request.session); !allowed) {
    return fenced.done(allowed.error());
  }
  fences_.push_back(std::move(fenced));
}

ResidencyDesk::Oldest ResidencyDesk::OldestWork() const {
  Oldest oldest;
  for (const auto& [id, copy] : executor_.copies_) {
    if (!oldest.copy || id < *oldest.copy) oldest.copy = id;
    if (copy.way != LayerExecutor::CopyWay::kBackToRam) continue;
    if (!oldest.write_back || id < *oldest.write_back) oldest.write_back = id;
  }
  for (const auto& [id, run] : executor_.runs_) {
    if (!oldest.run || id < *oldest.run) oldest.run = id;
  }
  return oldest;
}

bool ResidencyDesk::IsPassed(const Fenced& fenced, const Oldest& oldest) {
  const bool all = fenced.what == Fenced::What::kAll;
  const std::optional<CopyId> copy = all ? oldest.copy : oldest.write_back;
  if (copy && *copy < fenced.copies) return false;
  return !all || !oldest.run || *oldest.run >= fenced.runs;
}

void ResidencyDesk::FailFences(const std::function<bool(const Fenced&)>& is, const Error& error) {
  for (auto it = fences_.begin(); it != fences_.end();) {
    const auto next = std::next(it);
    if (is(*it)) {
      it->done(error);
      fences_.erase(it);
    }
    it = next;
  }
}

void ResidencyDesk::EndFences() {
  const Oldest oldest = OldestWork();
  for (auto it = fences_.begin(); it != fences_.end();) {
    const auto next = std::next(it);
    if (IsPassed(*it, oldest)) {
      it->done(Ok{});
      fences_.erase(it);
    }
    it = next;
  }
}

}  // namespace moetier
