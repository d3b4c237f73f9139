#ifndef MOETIER_DAEMON_RPC_PROGRESS_REACTOR_H_
#define MOETIER_DAEMON_RPC_PROGRESS_REACTOR_H_

#include <grpcpp/support/server_callback.h>

#include <memory>
#include <optional>

#include "base/mutex.h"
#include "moetier/v1/models.pb.h"

namespace moetier {

// The reply stream of a long call. A client that reads slowly gets fewer messages: one waits at
// most, and a newer one replaces it, keeping the experts that it named.
// Threads: any; gRPC operations are started under its lock, as in DecodeReactor.
// Lifetime: holds itself until gRPC is done with it; the work that reports may hold it longer.
class ProgressReactor final : public grpc::ServerWriteReactor<v1::Progress>,
                              public std::enable_shared_from_this<ProgressReactor> {
 public:
  static std::shared_ptr<ProgressReactor> Make();

  void Report(v1::Progress progress);
  // The stream ends with `status` after the last report. Once.
  void End(const grpc::Status& status);
  // The client has gone away.
  [[nodiscard]] bool cancelled();

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  ProgressReactor() = default;
  void Pump() REQUIRES(mu_);

  std::shared_ptr<ProgressReactor> self_;
  Mutex mu_;
  v1::Progress current_;  // owned by gRPC while writing_
  std::optional<v1::Progress> next_ GUARDED_BY(mu_);
  std::optional<grpc::Status> end_ GUARDED_BY(mu_);
  bool writing_ GUARDED_BY(mu_) = false;
  bool cancelled_ GUARDED_BY(mu_) = false;
  bool finished_ GUARDED_BY(mu_) = false;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_PROGRESS_REACTOR_H_
