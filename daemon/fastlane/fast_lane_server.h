#ifndef MOETIER_DAEMON_FASTLANE_FAST_LANE_SERVER_H_
#define MOETIER_DAEMON_FASTLANE_FAST_LANE_SERVER_H_

#include <spdlog/logger.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "daemon/fastlane/file_resolver.h"
#include "daemon/fastlane/handshake.h"
#include "daemon/fastlane/job_thread.h"
#include "daemon/fastlane/lane_poller.h"
#include "daemon/fastlane/lane_ring.h"
#include "daemon/fastlane/lane_socket.h"
#include "daemon/scheduling/daemon_core.h"
#include "daemon/transport/reply_counters.h"
#include "daemon/transport/session_book.h"
#include "daemon/transport/unix_listener.h"

namespace moetier {

// Sessions over shared memory: accepts, shakes hands, sees clients go. Calls do not pass through
// it: the executor looks at the pages itself. Clients with a session over gRPC get the descriptors
// of an arena or of a slot here, which gRPC cannot pass.
// Threads:  its own ("fastlane", and "fastlane-maps", which waits for the executor) and the
//           FileResolver's two. Start, BeginDrain and Stop from one.
// Lifetime: the core, the clock, the logger, the book and the counters outlive it.
class FastLaneServer {
 public:
  // The model of a session of another transport, which its token proves. kNotFound,
  // kUnknownSession. Must not block.
  using SessionFinder =
      std::function<Result<ModelInfo>(uint64_t session, const std::string& token)>;

  struct Options {
    uint32_t max_sessions = 64;
    uint32_t max_rows = 512;     // the most that a session is granted
    uint32_t max_in_flight = 4;  // likewise
    Bytes memory = 2_GiB;        // the pages of all sessions together
    std::string version;
    std::chrono::milliseconds hello_patience{5000};  // from connecting to HELLO
    ModelResolver resolve_files;                     // empty: models are not found by their files
    SessionFinder find_session;                      // empty: no arena is mapped
    std::vector<uint32_t> trusted_users;             // who may have a device's memory
  };

  static constexpr size_t kMaxSilent = 64;   // connections without HELLO; the oldest is dropped
  static constexpr size_t kMaxMapping = 16;  // clients whose MAP or MAP_SLOT waits

  // `listener` is of SOCK_SEQPACKET.
  static Result<std::unique_ptr<FastLaneServer>> Start(DaemonCore& core, const Clock& clock,
                                                       spdlog::logger& log, SessionBook& book,
                                                       ReplyCounters& counters,
                                                       UnixListener listener, Options options);
  ~FastLaneServer() { Stop(clock_.Now()); }

  // Refuses new sessions with kDraining.
  void BeginDrain() { draining_.store(true); }
  // Drains the core, so that what was accepted is answered until `deadline`; then ends every
  // session and removes the socket. Blocks. Once is enough, more do no harm.
  void Stop(TimePoint deadline);

 private:
  enum class Stage : uint8_t { kHello, kResolving, kMapping, kGranted };
  struct Connection {
    UniqueFd socket;
    Stage stage = Stage::kHello;
    TimePoint since{};
    std::string name = "a client";  // for the log
    bool maps_slot = false;         // by MAP_SLOT, for the counters
    Hello hello;
    FileResolver::Wanted wanted;     // while resolving
    std::shared_ptr<LaneRing> ring;  // once granted
  };
  using Connections = std::map<uint64_t, Connection>;

  FastLaneServer(DaemonCore& core, const Clock& clock, spdlog::logger& log, SessionBook& book,
                 ReplyCounters& counters, UnixListener listener, Options options);
  Status Open();
  void Loop();
  [[nodiscard]] int Patience() const;
  void Expire();
  void SetAccepting(bool accepting);
  void HoldBack(const std::string& why);
  void Accept();
  void OnReadable(uint64_t number);
  Status TakeFirst(uint64_t number, Connection& connection, LaneMessage message);
  Status TakeHello(uint64_t number, Connection& connection, std::vector<UniqueFd> files);
  Status TakeMap(uint64_t number, Connection& connection, const MapRequest& request);
  void ConcludeMap(uint64_t number, const ModelInfo& model, PoolId pool,
                   const Result<ResidencyCalls::SharedArena>& arena);
  Status TakeMapSlot(uint64_t number, Connection& connection, const MapSlotRequest& request);
  void ConcludeMapSlot(uint64_t number, const ModelInfo& model, LeaseId lease,
                       const Result<ResidencyCalls::LeasedMemory>& memory);
  Status CheckTrusted(int socket) const;
  Status MapLater(std::function<void()> map);
  Status ResolveFiles(uint64_t number, Connection& connection, std::vector<UniqueFd> files);
  void Conclude(uint64_t number, const Result<ModelInfo>& model);
  Status CheckDraining() const;
  Status CheckRoom() const;
  Status CheckMemory(const LaneShape& shape) const;
  Status Grant(Connection& connection, ModelInfo model);
  [[nodiscard]] LaneShape ShapeFor(const Hello& hello, const ModelInfo& model) const;
  bool SendGrant(const Connection& connection, int doorbell) const;
  void Refuse(uint64_t number, const Error& error);
  void Close(uint64_t number);
  void EndSession(const std::shared_ptr<LaneRing>& ring);
  void EndBroken(SessionId session);
  void Bury();
  void Post(std::function<void()> task) EXCLUDES(mu_);
  void RunTasks() EXCLUDES(mu_);

  DaemonCore& core_;
  const Clock& clock_;
  spdlog::logger& log_;
  SessionBook& book_;
  ReplyCounters& counters_;
  const Options options_;
  const uint32_t lanes_;  // of the core
  std::atomic<bool> draining_{false};
  std::atomic<bool> stopping_{false};
  bool stopped_ = false;

  std::unique_ptr<LanePoller> poller_;
  UnixListener listener_;
  UniqueFd epoll_;
  UniqueFd wake_;  // eventfd: tasks_ is not empty, or stopping_

  Mutex mu_;
  std::vector<std::function<void()>> tasks_ GUARDED_BY(mu_);

  // The thread's own.
  Connections connections_;
  uint64_t next_connection_ = 2;  // 0 and 1 are the listener's and the wake's
  uint32_t sessions_ = 0;
  bool accepting_ = true;
  TimePoint accept_again_{};
  std::optional<TimePoint> said_;  // when it last logged that connections are held back
  // Ended sessions whose pages the executor may still write.
  std::vector<std::shared_ptr<LaneRing>> closing_;

  JobThread maps_{"fastlane-maps", kMaxMapping};
  std::unique_ptr<FileResolver> resolver_;
  std::jthread thread_;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_FASTLANE_FAST_LANE_SERVER_H_
