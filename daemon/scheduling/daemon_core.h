#ifndef MOETIER_DAEMON_SCHEDULING_DAEMON_CORE_H_
#define MOETIER_DAEMON_SCHEDULING_DAEMON_CORE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "daemon/scheduling/call_source.h"
#include "daemon/scheduling/layer_call.h"
#include "daemon/scheduling/residency_calls.h"
#include "daemon/scheduling/route_tap.h"
#include "daemon/scheduling/slot_use.h"
#include "daemon/scheduling/status_snapshot.h"
#include "tiers/store/expert_store.h"
#include "tiers/store/model_geometry.h"
#include "tiers/store/model_heat.h"

namespace moetier {

enum class ModelState : uint8_t { kLoading, kReady, kUnloading };

// What is fixed about a loaded model.
struct ModelInfo {
  ModelId id{};
  std::string name;  // the handle that sessions attach to
  uint64_t fingerprint = 0;
  // Shared because a request being validated may outlive the model's unload.
  std::shared_ptr<const ModelGeometry> geometry;
  ModelState state = ModelState::kReady;
  StoreKind store_kind = StoreKind::kPackedRows16;
  std::string directory;  // empty: served in place from files that a client opened
  std::vector<std::string> source_paths;
  std::string arithmetic;  // names the definition that fixes the output's bits
  // Set by HoldModel alone: while a copy of it lives, the model is not unloaded to make room for
  // another. An operator's unload does not ask. Shared, since copies count themselves by it.
  std::shared_ptr<const void> hold{};
};

// From files that a client opened: a fingerprint samples a file, so it does not prove what the rest
// of that file holds, and only who brings the same files, or asks by name, gets the model.
inline bool BroughtByClient(const ModelInfo& model) { return model.directory.empty(); }

inline Error NotLoaded(std::string_view name) {
  return {ErrorCode::kNotFound, Reason::kUnknownModel,
          fmt::format("no model \"{}\" is loaded; `moetierctl models` lists those that are, "
                      "`moetierctl load` loads one",
                      name)};
}

struct LoadSpec {
  std::string name;
  std::string directory;           // already checked against the configured roots
  std::optional<Bytes> ram_bytes;  // none = what the configuration says
};

// How far a load or a verify has come; totals are 0 while unknown.
struct ModelProgress {
  std::string stage;
  Bytes bytes_done;
  Bytes bytes_total;
  uint64_t records_done = 0;
  uint64_t records_total = 0;
  std::string message;
  std::vector<QuarantineSnapshot> faulty;  // found since the progress before
};
// The listener's answer: whether the work should go on.
enum class GoOn : uint8_t { kYes, kNo };
// Called on the thread that called LoadModel, VerifyModel or AwaitPreheat.
using ProgressListener = std::function<GoOn(const ModelProgress&)>;

// A budget that is smaller for a while.
struct BudgetLoan {
  Bytes in_force;
  Bytes original;  // what is restored
};

// The daemon without its transports: models, tiers and the executor. Transports translate, validate
// and call it; a test replaces it.
// Threads: every method from any thread. Submit, Find*, ListModels, HoldModel, Snapshot,
//          AddRouteTap and SessionEnded do not block for I/O; the others may take as long as the
//          disk does.
class DaemonCore {
 public:
  virtual ~DaemonCore() = default;

  // Queues a validated call. Calls are accounted and planned in the order of their submission.
  // On an error `done` is never called: kUnavailable with kDraining (the daemon stops or the model
  // unloads), kExhausted with kQuota (the queue is full), kNotFound with kUnknownModel.
  virtual Status Submit(LayerCall call, LayerDone done) = 0;

  [[nodiscard]] virtual std::optional<ModelInfo> FindModel(std::string_view name) const = 0;
  [[nodiscard]] virtual std::optional<ModelInfo> ModelById(ModelId id) const = 0;
  [[nodiscard]] virtual std::vector<ModelInfo> ListModels() const = 0;
  // The model with its hold, for who makes a session of it; none when it does not serve.
  [[nodiscard]] virtual std::optional<ModelInfo> HoldModel(ModelId id) = 0;

  // Returns once the model serves. kAlreadyExists when the name is taken; kCancelled, with nothing
  // left behind, when the listener says kNo.
  virtual Status LoadModel(const LoadSpec& spec, const ProgressListener& listener) = 0;
  // Refuses new calls on the model, answers those under way, frees, returns.
  virtual Status UnloadModel(std::string_view name) = 0;
  // Reads every record; faulty ones are in the progress and are no error. kCancelled when the
  // listener says kNo.
  virtual Status VerifyModel(std::string_view name, const ProgressListener& listener) = 0;

  // `experts` exist in the layer. Pin returns when they are resident; on an error it has pinned
  // none. Both give how many changed: those that were not pinned before, those that were.
  virtual Result<uint32_t> Pin(ModelId model, LayerIndex layer,
                               std::span<const ExpertIndex> experts) = 0;
  virtual Result<uint32_t> Unpin(ModelId model, LayerIndex layer,
                                 std::span<const ExpertIndex> experts) = 0;

  // Experts of one model, which exist, that the session expects soon, those of a layer together.
  // Gives how many were taken: they are resident or will be read ahead if the drive has time.
  virtual uint32_t Hint(SessionId session, const std::vector<ExpertKey>& experts) = 0;
  // The decayed counts of uses of the model's experts. Does not block for I/O.
  virtual Result<ModelHeat> GetHeat(ModelId model) const = 0;
  // Replaces them, and loads the hottest into slots that are free. kInvalidArgument, kBadShape with
  // the numbers when the heat is another model's. Does not block for I/O.
  virtual Status SetHeat(ModelId model, const ModelHeat& heat) = 0;
  // Returns when the experts that were hot before are loaded, at once when there are none; the
  // model serves meanwhile. kCancelled when the listener says kNo: the loading goes on.
  virtual Status AwaitPreheat(ModelId model, const ProgressListener& listener) = 0;

  // Changes the memory that the model's experts have in a pool, under load, and gives what is in
  // force. With `hold`, what was in force before the first such change is restored after so long.
  // kExhausted: kBudgetTooSmall, kNoRoom (pins or leases need more, or the device has no more) or
  // kMemoryLimit, with the numbers and nothing changed; kFailedPrecondition when the model has no
  // slots there; kUnavailable when a lost device is to give memory. Waits until nobody uses what is
  // given back.
  virtual Result<Bytes> SetBudget(const ModelPool& of, Bytes bytes,
                                  std::optional<std::chrono::seconds> hold) = 0;

  // SetBudget with a hold, to `less` below what will be restored: of several such changes the last
  // alone counts, they do not add up. kExhausted, kBudgetTooSmall when `less` is all of it.
  virtual Result<BudgetLoan> LendBudget(const ModelPool& of, Bytes less,
                                        std::chrono::seconds hold) = 0;

  // Leases and transfers, for engines with kernels of their own.
  virtual ResidencyCalls& residency() = 0;

  [[nodiscard]] virtual StatusSnapshot Snapshot() const = 0;

  // `tap` sees every call that is answered from now on, until it says kNoMore. Shared with the
  // executor, which holds it until the first answer after that.
  virtual void AddRouteTap(std::shared_ptr<RouteTap> tap) = 0;

  // The executor looks at `source` from now on; there may be one. An error when the host gives no
  // descriptor to wait with.
  virtual Status AddCallSource(CallSource& source) = 0;
  // Returns when the source will not be called any more; calls that it gave are still answered.
  virtual void RemoveCallSource(CallSource& source) = 0;

  // The session is over: its queued calls end with kCancelled, whatever it held is freed.
  virtual void SessionEnded(SessionId session) = 0;

  // Refuses new calls with kDraining and returns when every accepted one has been answered: those
  // that are not done by `deadline` with kDraining too. kUnavailable, and what it is, when a drive
  // or a device goes on all the same: heat is saved, and what is left is to end the process, for
  // the core cannot be destroyed.
  virtual Status Drain(TimePoint deadline) = 0;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_SCHEDULING_DAEMON_CORE_H_
