#ifndef MOETIER_DAEMON_RPC_RPC_SERVER_H_
#define MOETIER_DAEMON_RPC_RPC_SERVER_H_

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <spdlog/logger.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "daemon/rpc/admin_worker.h"
#include "daemon/rpc/event_pump.h"
#include "daemon/rpc/experts_service.h"
#include "daemon/rpc/models_service.h"
#include "daemon/rpc/operator_service.h"
#include "daemon/rpc/residency_service.h"
#include "daemon/rpc/rpc_door.h"
#include "daemon/rpc/service_context.h"
#include "daemon/rpc/session_registry.h"
#include "daemon/scheduling/daemon_core.h"
#include "daemon/transport/connection_acceptor.h"
#include "daemon/transport/reply_counters.h"

namespace moetier {

// The gRPC side of the daemon: the four services, health (per service and
// "moetier.v1.Experts/MODEL" per model) and reflection, on a Unix socket and, when asked, on TCP
// with TLS and a token.
// Threads:  gRPC's own, "accept", "rpc-events" and the AdminDesk's. Start and Stop from one thread.
// Lifetime: the core, the clock, the logger, the book and the counters outlive it.
class RpcServer {
 public:
  struct Options {
    GrantLimits limits;
    uint32_t max_sessions = 64;
    uint32_t max_streams = 16;  // Decode streams of one session
    std::vector<std::string> model_roots;
    std::string version;
    std::string fast_lane_address;  // for grants; empty: there is no fast lane
    // Reads the configuration again. Runs on rpc-reload.
    std::function<Result<ReloadReport>()> reload;
  };

  static Result<std::unique_ptr<RpcServer>> Start(DaemonCore& core, const Clock& clock,
                                                  spdlog::logger& log, SessionBook& book,
                                                  ReplyCounters& counters, RpcDoor door,
                                                  Options options);
  // Stops without grace if Stop was not called.
  ~RpcServer();

  // Health turns NOT_SERVING, sessions get Draining and new ones are refused. Stop does it too.
  void BeginDrain();

  // In this order: health turns NOT_SERVING and sessions get Draining; the core answers what it
  // has accepted, for three quarters of `grace`, and refuses the rest; streams end once they are
  // flushed; calls that still linger at the end of `grace` are cancelled; the socket is removed.
  // Blocks. The error is Drain's: streams are ended and nothing more is waited for, since calls
  // may wait for what has not ended. Once Drain is well it can be called again.
  Status Stop(std::chrono::milliseconds grace);

  // Health of the model and the ModelChanged event. Any thread.
  void ModelChanged(const ModelInfo& model);

  // Whether a client that connects to the Unix socket now would be served; blocks up to `patience`.
  // For the watchdog. True while connections are held back, which ends by itself.
  [[nodiscard]] bool Answers(std::chrono::milliseconds patience) const;

  // The model of a session that lives and has this token; else kNotFound, kUnknownSession. Any
  // thread; does not block.
  [[nodiscard]] Result<ModelInfo> FindSession(uint64_t session, const std::string& token) const;

  [[nodiscard]] StatusReport& status() { return report_; }
  [[nodiscard]] int tcp_port() const { return door_.tcp.port; }  // 0 without TCP

 private:
  RpcServer(DaemonCore& core, const Clock& clock, spdlog::logger& log, SessionBook& book,
            ReplyCounters& counters, RpcDoor door, Options options);
  Status Serve();
  void AnnounceHealth();
  [[nodiscard]] std::vector<std::string> Warnings() const;
  static void Enter(grpc::experimental::ExternalConnectionAcceptor& entry, int connection);

  const Options options_;
  RpcDoor door_;
  DaemonCore& core_;
  SessionRegistry sessions_;
  AdminDesk admin_;
  EventPump events_;
  ServiceContext context_;
  StatusReport report_;
  ExpertsService experts_;
  ResidencyService residency_;
  ModelsService models_;
  OperatorService operator_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> unix_entry_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> tcp_entry_;  // null without TCP
  std::unique_ptr<grpc::Server> server_;  // null before Serve and after Stop
  std::unique_ptr<ConnectionAcceptor> acceptor_;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_RPC_SERVER_H_
