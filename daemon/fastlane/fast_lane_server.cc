#include "daemon/fastlane/fast_lane_server.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "daemon/fastlane/watch_descriptor.h"
#include "daemon/transport/descriptor_room.h"

namespace moetier {
namespace {

constexpr uint64_t kListener = 0;
constexpr uint64_t kWake = 1;
constexpr int kAcceptsARound = 16;
constexpr std::chrono::milliseconds kAcceptPause{100};  // after a want of descriptors
constexpr std::chrono::seconds kQuiet{10};              // between two warnings of it
constexpr std::chrono::milliseconds kBuryPause{20};     // while calls of ended sessions run

Status Watch(int epoll, int descriptor, uint64_t number) {
  return WatchDescriptor(epoll, descriptor, EPOLLIN | EPOLLRDHUP, number,
                         "the fast lane's sockets");
}

Result<ResolvedFiles> NoResolver(const std::vector<UniqueFd>& /*files*/,
                                 const std::function<bool()>& /*keep_going*/) {
  return Error{ErrorCode::kUnimplemented, Reason::kNotYet,
               "this daemon does not find models by their files; name a loaded one"};
}

}  // namespace

FastLaneServer::FastLaneServer(DaemonCore& core, const Clock& clock, spdlog::logger& log,
                               SessionBook& book, ReplyCounters& counters, UnixListener listener,
                               Options options)
    : core_(core),
      clock_(clock),
      log_(log),
      book_(book),
      counters_(counters),
      options_(std::move(options)),
      lanes_(static_cast<uint32_t>(core.Snapshot().lanes.size())),
      listener_(std::move(listener)) {}

Result<std::unique_ptr<FastLaneServer>> FastLaneServer::Start(
    DaemonCore& core, const Clock& clock, spdlog::logger& log, SessionBook& book,
    ReplyCounters& counters, UnixListener listener, Options options) {
  std::unique_ptr<FastLaneServer> server(new FastLaneServer(
      core, clock, log, book, counters, std::move(listener), std::move(options)));
  RETURN_IF_ERROR(server->Open());
  server->resolver_ = std::make_unique<FileResolver>(
      server->options_.resolve_files ? server->options_.resolve_files : ModelResolver(NoResolver));
  server->thread_ = std::jthread([raw = server.get()] {
    pthread_setname_np(pthread_self(), "fastlane");
    raw->Loop();
  });
  return server;
}

Status FastLaneServer::Open() {
  epoll_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return ErrnoError(errno, "start the fast lane: epoll_create1");
  wake_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) return ErrnoError(errno, "start the fast lane: eventfd");
  ASSIGN_OR_RETURN(auto poller, LanePoller::Create([this](SessionId session) {
                     Post([this, session] { EndBroken(session); });
                   }));
  RETURN_IF_ERROR(listener_.Listen());
  RETURN_IF_ERROR(Watch(epoll_.get(), listener_.descriptor(), kListener));
  RETURN_IF_ERROR(Watch(epoll_.get(), wake_.get(), kWake));
  RETURN_IF_ERROR(core_.AddCallSource(*poller));
  poller_ = std::move(poller);
  return Ok{};
}

void FastLaneServer::Stop(TimePoint deadline) {
  if (std::exchange(stopped_, true) || poller_ == nullptr) return;
  BeginDrain();
  static_cast<void>(core_.Drain(deadline));  // whoever ends the daemon asks, too
  stopping_.store(true);
  (void)eventfd_write(wake_.get(), 1);
  if (thread_.joinable()) thread_.join();
  maps_.Stop();
  if (resolver_ != nullptr) resolver_->Stop();
  while (!connections_.empty()) Close(connections_.begin()->first);
  core_.RemoveCallSource(*poller_);
  poller_->Clear();
  closing_.clear();
  listener_.Close();
}

void FastLaneServer::Loop() {
  std::array<epoll_event, 64> events{};
  while (!stopping_.load()) {
    const int count =
        epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), Patience());
    for (int i = 0; i < count; ++i) {
      const uint64_t number = events[static_cast<size_t>(i)].data.u64;
      if (number == kListener) {
        Accept();
      } else if (number == kWake) {
        RunTasks();
      } else {
        OnReadable(number);
      }
    }
    Expire();
    Bury();
  }
}

// Milliseconds until something is due; -1: nothing is.
int FastLaneServer::Patience() const {
  const TimePoint now = clock_.Now();
  TimePoint due = TimePoint::max();
  for (const auto& [number, connection] : connections_) {
    if (connection.stage == Stage::kHello) {
      due = std::min(due, connection.since + options_.hello_patience);
    }
  }
  if (!accepting_) due = std::min(due, accept_again_);
  if (!closing_.empty()) due = std::min(due, now + kBuryPause);
  if (due == TimePoint::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(due - now).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 1'000'000));
}

void FastLaneServer::Expire() {
  const TimePoint now = clock_.Now();
  if (!accepting_ && now >= accept_again_) SetAccepting(true);
  for (auto it = connections_.begin(); it != connections_.end();) {
    const auto& [number, connection] = *it++;
    if (connection.stage == Stage::kHello && now >= connection.since + options_.hello_patience) {
      log_.warn("fast lane: a client of process {} said nothing in {} ms",
                PeerProcess(connection.socket.get()), options_.hello_patience.count());
      Close(number);
    }
  }
}

void FastLaneServer::SetAccepting(bool accepting) {
  epoll_event event{};
  event.events = accepting ? EPOLLIN : 0u;
  event.data.u64 = kListener;
  (void)epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listener_.descriptor(), &event);
  accepting_ = accepting;
}

void FastLaneServer::HoldBack(const std::string& why) {
  const TimePoint now = clock_.Now();
  accept_again_ = now + kAcceptPause;
  SetAccepting(false);
  if (said_ && now - *said_ < kQuiet) return;
  said_ = now;
  log_.warn("fast lane: connections are held back: {}", why);
}

void FastLaneServer::Accept() {
  for (int i = 0; i < kAcceptsARound; ++i) {
    if (const Status room = CheckDescriptorRoom(listener_.descriptor()); !room) {
      return HoldBack(room.error().message);
    }
    UniqueFd socket(
        accept4(listener_.descriptor(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      if (errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS) return;
      return HoldBack(ErrnoError(errno, "accept").message);
    }
    const auto silent = [](const auto& entry) { return entry.second.stage == Stage::kHello; };
    if (std::ranges::count_if(connections_, silent) >= static_cast<ptrdiff_t>(kMaxSilent)) {
      Close(std::ranges::find_if(connections_, silent)->first);  // numbers rise with age
    }
    const uint64_t number = next_connection_++;
    if (!Watch(epoll_.get(), socket.get(), number)) continue;
    connections_[number] = {.socket = std::move(socket),
                            .stage = Stage::kHello,
                            .since = clock_.Now(),
                            .hello = {},
                            .wanted = nullptr,
                            .ring = nullptr};
  }
}

void FastLaneServer::OnReadable(uint64_t number) {
  const auto found = connections_.find(number);
  if (found == connections_.end()) return;
  Connection& connection = found->second;
  LaneMessage message = ReceiveOnLane(connection.socket.get());
  switch (message.kind) {
    case LaneMessage::Kind::kNone:
      return;
    case LaneMessage::Kind::kEnded:
      return Close(number);
    case LaneMessage::Kind::kMessage:
      break;
  }
  if (connection.stage == Stage::kHello) {
    const Status taken = TakeFirst(number, connection, std::move(message));
    if (!taken) Refuse(number, taken.error());
    return;
  }
  log_.warn("fast lane: a client of process {} sent a second message; its session ends",
            PeerProcess(connection.socket.get()));
  Close(number);
}

void FastLaneServer::Close(uint64_t number) {
  auto node = connections_.extract(number);
  if (node.empty()) return;
  Connection& connection = node.mapped();
  if (connection.wanted != nullptr) connection.wanted->store(false);
  if (connection.ring != nullptr) EndSession(connection.ring);
}

void FastLaneServer::EndSession(const std::shared_ptr<LaneRing>& ring) {
  --sessions_;
  book_.Close(ring->id());
  poller_->Remove(ring);
  core_.SessionEnded(ring->id());
  log_.info("session {} of \"{}\" has ended", Raw(ring->id()), ring->record().client);
  closing_.push_back(ring);
}

void FastLaneServer::EndBroken(SessionId session) {
  for (const auto& [number, connection] : connections_) {
    if (connection.ring == nullptr || connection.ring->id() != session) continue;
    log_.warn("fast lane: session {} rings its doorbell without calls; it is ended", Raw(session));
    return Close(number);
  }
}

// Unmaps here what the executor has let go: it may take milliseconds.
void FastLaneServer::Bury() {
  std::erase_if(closing_,
                [](const std::shared_ptr<LaneRing>& ring) { return ring.use_count() == 1; });
}

void FastLaneServer::Post(std::function<void()> task) {
  {
    const MutexLock lock(mu_);
    tasks_.push_back(std::move(task));
  }
  (void)eventfd_write(wake_.get(), 1);
}

void FastLaneServer::RunTasks() {
  eventfd_t rung = 0;
  (void)eventfd_read(wake_.get(), &rung);
  std::vector<std::function<void()>> tasks;
  {
    const MutexLock lock(mu_);
    tasks.swap(tasks_);
  }
  for (const std::function<void()>& task : tasks) task();
}

}  // namespace moetier
