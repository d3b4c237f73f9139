#include "daemon/transport/connection_acceptor.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "daemon/transport/descriptor_room.h"

namespace moetier {
namespace {

constexpr int kAcceptsARound = 16;  // of one door, then the others have their turn
constexpr int kPauseMs = 100;
constexpr std::chrono::seconds kQuiet{10};  // between two warnings

// The client has gone before it was let in, or a signal came: the next one.
bool OfThisClientAlone(int error) {
  return error == ECONNABORTED || error == EINTR || error == EPROTO || error == EPERM;
}

}  // namespace

Result<std::unique_ptr<ConnectionAcceptor>> ConnectionAcceptor::Start(std::vector<Door> doors,
                                                                      const Clock& clock,
                                                                      spdlog::logger& log) {
  std::unique_ptr<ConnectionAcceptor> acceptor(
      new ConnectionAcceptor(std::move(doors), clock, log));
  acceptor->stop_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!acceptor->stop_) return ErrnoError(errno, "start to accept: eventfd");
  acceptor->thread_ = std::jthread([raw = acceptor.get()] {
    pthread_setname_np(pthread_self(), "accept");
    raw->Loop();
  });
  return acceptor;
}

void ConnectionAcceptor::Stop() {
  if (!thread_.joinable()) return;
  (void)eventfd_write(stop_.get(), 1);
  thread_.join();
}

std::optional<std::string> ConnectionAcceptor::held_back() const {
  const MutexLock lock(mu_);
  return held_back_;
}

void ConnectionAcceptor::Loop() {
  std::vector<pollfd> watched;
  watched.push_back({.fd = stop_.get(), .events = POLLIN, .revents = 0});
  for (const Door& door : doors_) {
    watched.push_back({.fd = door.listener, .events = POLLIN, .revents = 0});
  }
  bool paused = false;
  for (;;) {
    // While paused only the end is waited for: the listeners stay readable.
    (void)poll(watched.data(), paused ? 1 : watched.size(), paused ? kPauseMs : -1);
    if (watched.front().revents != 0) return;
    paused = false;
    for (const Door& door : doors_) paused = !AcceptSome(door) || paused;
    if (!paused) GoOn();
  }
}

bool ConnectionAcceptor::AcceptSome(const Door& door) {
  for (int i = 0; i < kAcceptsARound; ++i) {
    if (const Status room = CheckDescriptorRoom(door.listener); !room) {
      HoldBack(room.error().message);
      return false;
    }
    const int connection = accept4(door.listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (connection >= 0) {
      door.enter(connection);
    } else if (errno == EAGAIN) {
      return true;
    } else if (!OfThisClientAlone(errno)) {
      HoldBack(ErrnoError(errno, "accept").message);
      return false;
    }
  }
  return true;
}

void ConnectionAcceptor::HoldBack(const std::string& why) {
  {
    const MutexLock lock(mu_);
    held_back_ = why;
  }
  const TimePoint now = clock_.Now();
  if (said_ && now - *said_ < kQuiet) return;
  said_ = now;
  log_.warn("connections are held back: {}", why);
}

void ConnectionAcceptor::GoOn() {
  const MutexLock lock(mu_);
  held_back_.reset();
}

}  // namespace moetier
