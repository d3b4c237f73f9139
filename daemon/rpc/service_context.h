#ifndef MOETIER_DAEMON_RPC_SERVICE_CONTEXT_H_
#define MOETIER_DAEMON_RPC_SERVICE_CONTEXT_H_

#include <spdlog/logger.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/memory_budget.h"
#include "base/result.h"
#include "daemon/rpc/admin_worker.h"
#include "daemon/rpc/event_pump.h"
#include "daemon/rpc/session_registry.h"
#include "daemon/rpc/status_map.h"
#include "daemon/scheduling/daemon_core.h"
#include "daemon/transport/reply_counters.h"

namespace moetier {

// What a client may do; Attach grants it.
struct GrantLimits {
  uint32_t max_rows = 0;
  uint32_t max_in_flight = 0;  // unanswered messages of a stream
  Bytes max_message_bytes;
  std::optional<MemoryBudget> leased = {};  // of a session; none: what the core lets it lease
};

// What a reload took over and what it could not.
struct ReloadReport {
  std::vector<std::string> changed;        // "log.level: info -> debug"
  std::vector<std::string> needs_restart;  // keys that differ but are fixed while running
};

// The collaborators of every service. Lifetime: RpcServer owns it and what it refers to, except the
// core, the clock, the book and the counters, which outlive the server. Threads: immutable; its
// members are their own.
struct ServiceContext {
  DaemonCore& core;
  const Clock& clock;
  spdlog::logger& log;
  SessionRegistry& sessions;
  SessionBook& book;
  ReplyCounters& counters;
  AdminDesk& admin;
  EventPump& events;
  GrantLimits limits;
  uint32_t lanes = 0;
  std::vector<PoolKind> pools;  // by index
  std::string version;
  std::string fast_lane_address;  // for grants; empty when there is none
  TimePoint started{};
  std::vector<std::string> model_roots;
  std::function<Result<ReloadReport>()> reload;
  std::function<std::vector<std::string>()> warnings;   // the server's own, as of now
  std::function<void(const ModelInfo&)> model_changed;  // health and events follow

  // Counts a refusal that concerns no session, and gives its status.
  [[nodiscard]] grpc::Status Refuse(const Error& error, const FaultPlace& place = {}) const {
    counters.CountRefusal(error.reason);
    return ToGrpcStatus(error, place);
  }
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_SERVICE_CONTEXT_H_
