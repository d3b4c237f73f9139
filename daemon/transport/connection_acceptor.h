#ifndef MOETIER_DAEMON_TRANSPORT_CONNECTION_ACCEPTOR_H_
#define MOETIER_DAEMON_TRANSPORT_CONNECTION_ACCEPTOR_H_

#include <spdlog/logger.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace moetier {

// Accepts on listening sockets and hands the connections on. Short of descriptors it holds new ones
// back in the kernel's queue, and goes on by itself once there are some: gRPC's own listeners never
// accept again after one failure.
// Threads:  one of its own ("accept"), on which `enter` is called; held_back from any.
// Lifetime: the clock, the logger and the listening sockets outlive it.
class ConnectionAcceptor {
 public:
  struct Door {
    int listener = -1;                          // listens, non-blocking
    std::function<void(int connection)> enter;  // owns the descriptor from here on
  };

  static Result<std::unique_ptr<ConnectionAcceptor>> Start(std::vector<Door> doors,
                                                           const Clock& clock, spdlog::logger& log);
  ~ConnectionAcceptor() { Stop(); }

  // No `enter` is called afterwards. Once is enough, more do no harm.
  void Stop();

  // Why connections are held back; none while they are not.
  [[nodiscard]] std::optional<std::string> held_back() const EXCLUDES(mu_);

 private:
  ConnectionAcceptor(std::vector<Door> doors, const Clock& clock, spdlog::logger& log)
      : doors_(std::move(doors)), clock_(clock), log_(log) {}
  void Loop();
  // False when it must pause.
  bool AcceptSome(const Door& door);
  void HoldBack(const std::string& why) EXCLUDES(mu_);
  void GoOn() EXCLUDES(mu_);

  const std::vector<Door> doors_;
  const Clock& clock_;
  spdlog::logger& log_;
  UniqueFd stop_;  // eventfd: readable once Stop was called
  mutable Mutex mu_;
  std::optional<std::string> held_back_ GUARDED_BY(mu_);
  std::optional<TimePoint> said_;  // the thread's own: when it last logged
  std::jthread thread_;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_TRANSPORT_CONNECTION_ACCEPTOR_H_
