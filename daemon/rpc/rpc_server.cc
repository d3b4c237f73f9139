#include "daemon/rpc/rpc_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server_builder.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "daemon/rpc/model_messages.h"

namespace moetier {
namespace {

constexpr const char* kServices[] = {"", "moetier.v1.Experts", "moetier.v1.Residency",
                                     "moetier.v1.Models", "moetier.v1.Operator"};

constexpr const char* kStopping = "the daemon is stopping";

constexpr int kMaxConnectionStreams = 128;   // calls at once, sessions or not: a client's bug
constexpr int kKeepaliveTimeMs = 30'000;     // a lost TCP peer's session ends
constexpr int kKeepaliveTimeoutMs = 10'000;  // after at most the two together

// From connecting to HTTP/2's first frame, TLS included; who says nothing holds a descriptor.
constexpr int kHandshakeTimeoutMs = 10'000;

constexpr auto kFromDescriptor =
    grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD;

std::string HealthName(const ModelInfo& model) { return "moetier.v1.Experts/" + model.name; }

std::vector<PoolKind> PoolKinds(const StatusSnapshot& status) {
  std::vector<PoolKind> kinds;
  for (const PoolSnapshot& pool : status.pools) kinds.push_back(pool.kind);
  return kinds;
}

int MessageLimit(Bytes bytes) {
  return static_cast<int>(
      std::min<uint64_t>(bytes.count(), static_cast<uint64_t>(std::numeric_limits<int>::max())));
}

}  // namespace

RpcServer::RpcServer(DaemonCore& core, const Clock& clock, spdlog::logger& log, SessionBook& book,
                     ReplyCounters& counters, RpcDoor door, Options options)
    : options_(std::move(options)),
      door_(std::move(door)),
      core_(core),
      sessions_(core, clock, book,
                {.max_sessions = options_.max_sessions, .max_streams = options_.max_streams}),
      context_{.core = core,
               .clock = clock,
               .log = log,
               .sessions = sessions_,
               .book = book,
               .counters = counters,
               .admin = admin_,
               .events = events_,
               .limits = options_.limits,
               .lanes = static_cast<uint32_t>(core.Snapshot().lanes.size()),
               .pools = PoolKinds(core.Snapshot()),
               .version = options_.version,
               .fast_lane_address = options_.fast_lane_address,
               .started = clock.Now(),
               .model_roots = options_.model_roots,
               .reload = options_.reload,
               .warnings = [this] { return Warnings(); },
               .model_changed = [this](const ModelInfo& model) { ModelChanged(model); }},
      report_(context_),
      experts_(context_),
      residency_(context_),
      models_(context_),
      operator_(context_) {}

RpcServer::~RpcServer() {
  if (server_ != nullptr) static_cast<void>(Stop(std::chrono::milliseconds(0)));
}

Result<std::unique_ptr<RpcServer>> RpcServer::Start(DaemonCore& core, const Clock& clock,
                                                    spdlog::logger& log, SessionBook& book,
                                                    ReplyCounters& counters, RpcDoor door,
                                                    Options options) {
  std::unique_ptr<RpcServer> server(
      new RpcServer(core, clock, log, book, counters, std::move(door), std::move(options)));
  RETURN_IF_ERROR(server->Serve());
  return server;
}

Status RpcServer::Serve() {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  // Connections are accepted here: a listener of gRPC 1.51 that was once short of descriptors never
  // accepts again.
  unix_entry_ = builder.experimental().AddExternalConnectionAcceptor(
      kFromDescriptor, grpc::InsecureServerCredentials());
  if (door_.credentials) {
    tcp_entry_ = builder.experimental().AddExternalConnectionAcceptor(
        kFromDescriptor, door_.credentials->credentials);
    // A host that vanished closes nothing; over a Unix socket the kernel tells of every end, and a
    // client halted in a debugger keeps its session.
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  }
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeTimeoutMs);
  builder.SetMaxReceiveMessageSize(MessageLimit(options_.limits.max_message_bytes));
  builder.SetMaxSendMessageSize(-1);  // a reply's size follows from its request
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxConnectionStreams);
  for (grpc::Service* service :
       std::initializer_list<grpc::Service*>{&experts_, &residency_, &models_, &operator_}) {
    builder.RegisterService(service);
  }
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) {
    return Error{ErrorCode::kUnavailable, Reason::kIo,
                 "gRPC does not start; its own lines above say more"};
  }
  AnnounceHealth();
  if (const auto warning = door_.Warning()) context_.log.warn("{}", *warning);
  RETURN_IF_ERROR(door_.Listen());
  std::vector<ConnectionAcceptor::Door> doors;
  doors.push_back({door_.unix_socket.descriptor(),
                   [this](int connection) { Enter(*unix_entry_, connection); }});
  for (const UniqueFd& socket : door_.tcp.sockets) {
    doors.push_back({socket.get(), [this](int connection) {
                       const int on = 1;  // replies are whole messages: nothing to wait for
                       (void)setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                       Enter(*tcp_entry_, connection);
                     }});
  }
  ASSIGN_OR_RETURN(acceptor_,
                   ConnectionAcceptor::Start(std::move(doors), context_.clock, context_.log));
  return Ok{};
}

void RpcServer::Enter(grpc::experimental::ExternalConnectionAcceptor& entry, int connection) {
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
  parameters.fd = connection;  // gRPC closes it
  entry.HandleNewConnection(&parameters);
}

std::vector<std::string> RpcServer::Warnings() const {
  std::vector<std::string> warnings;
  if (auto certificate = door_.Warning()) warnings.push_back(*std::move(certificate));
  if (acceptor_ == nullptr) return warnings;
  if (const auto why = acceptor_->held_back()) {
    warnings.push_back("connections are held back: " + *why);
  }
  return warnings;
}

bool RpcServer::Answers(std::chrono::milliseconds patience) const {
  // Held back, new clients wait, and those that are in are served.
  return acceptor_->held_back() || GreetsClients(door_.unix_socket.path(), patience);
}

Result<ModelInfo> RpcServer::FindSession(uint64_t session, const std::string& token) const {
  v1::SessionRef ref;
  ref.set_session(session);
  ref.set_token(token);
  ASSIGN_OR_RETURN(const std::shared_ptr<Session> found, sessions_.Find(ref));
  return found->model();
}

void RpcServer::AnnounceHealth() {
  for (const char* service : kServices) {
    server_->GetHealthCheckService()->SetServingStatus(service, true);
  }
  for (const ModelInfo& model : core_.ListModels()) ModelChanged(model);
}

void RpcServer::ModelChanged(const ModelInfo& model) {
  server_->GetHealthCheckService()->SetServingStatus(HealthName(model),
                                                     model.state == ModelState::kReady);
  v1::SessionEvent event;
  event.mutable_model_changed()->set_model(model.name);
  event.mutable_model_changed()->set_state(ToProto(model.state));
  sessions_.SendToAll(event);
}

void RpcServer::BeginDrain() {
  server_->GetHealthCheckService()->SetServingStatus(false);
  sessions_.BeginDrain(kStopping);
}

Status RpcServer::Stop(std::chrono::milliseconds grace) {
  const Error draining{ErrorCode::kUnavailable, Reason::kDraining, kStopping};
  const TimePoint start = context_.clock.Now();
  BeginDrain();
  admin_.BeginStop();
  const Status drained = core_.Drain(start + grace * 3 / 4);
  if (!drained) {
    sessions_.DrainStreams(draining);
    return drained;
  }
  admin_.Stop();
  sessions_.DrainStreams(draining);
  if (acceptor_ != nullptr) acceptor_->Stop();  // before gRPC's end: it would lose what comes then
  door_.unix_socket.Close();
  const auto left = grace - (context_.clock.Now() - start);
  server_->Shutdown(std::chrono::system_clock::now() +
                    std::chrono::duration_cast<std::chrono::system_clock::duration>(left));
  server_->Wait();
  server_.reset();
  events_.Stop();  // only now: streams end once they are written
  return Ok{};
}

}  // namespace moetier
