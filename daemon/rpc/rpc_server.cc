#include "daemon/rpc/rpc_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server_builder.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "daemon/rpc/model_messages.h"

namespace moetier {
namespace {

constexpr const char* kServices[] = {"", "moetier.v1.Experts", "moetier.v1.Residency",
                                     "moetier.v1.Models", "moetier.v1.Operator"};

constexpr const char* kStopping = "the daemon is stopping";

constexpr int kMaxConnectionStreams = 128;   // calls at once, sessions or not: a client's bug
constexpr int kKeepaliveTimeMs = 30'000;     // a lost TCP peer's session ends
constexpr int kKeepaliveTimeoutMs = 10'000;  // after at most the two together

std::string HealthName(const ModelInfo& model) { return "moetier.v1.Experts/" + model.name; }

int MessageLimit(Bytes bytes) {
  return static_cast<int>(
      std::min<uint64_t>(bytes.count(), static_cast<uint64_t>(std::numeric_limits<int>::max())));
}

}  // namespace

RpcServer::RpcServer(DaemonCore& core, const Clock& clock, spdlog::logger& log, SessionBook& book,
                     ReplyCounters& counters, Options options)
    : options_(std::move(options)),
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
               .limits = options_.limits,
               .lanes = static_cast<uint32_t>(core.Snapshot().lanes.size()),
               .version = options_.version,
               .fast_lane_address = options_.fast_lane_address,
               .started = clock.Now(),
               .model_roots = options_.model_roots,
               .reload = options_.reload,
               .model_changed = [this](const ModelInfo& model) { ModelChanged(model); }},
      report_(context_),
      experts_(context_),
      residency_(context_),
      models_(context_),
      operator_(context_) {}

RpcServer::~RpcServer() {
  if (server_ != nullptr) Stop(std::chrono::milliseconds(0));
}

Result<std::unique_ptr<RpcServer>> RpcServer::Start(DaemonCore& core, const Clock& clock,
                                                    spdlog::logger& log, SessionBook& book,
                                                    ReplyCounters& counters, Options options) {
  std::unique_ptr<RpcServer> server(
      new RpcServer(core, clock, log, book, counters, std::move(options)));
  RETURN_IF_ERROR(server->Listen());
  server->AnnounceHealth();
  return server;
}

Status RpcServer::Listen() {
  RETURN_IF_ERROR(PrepareUnixSocket(options_.socket));
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  builder.AddListeningPort("unix:" + options_.socket.path, grpc::InsecureServerCredentials());
  if (options_.tcp) {
    ASSIGN_OR_RETURN(const auto credentials, MakeTcpCredentials(*options_.tcp));
    builder.AddListeningPort(options_.tcp->address, credentials, &tcp_port_);
  }
  builder.SetMaxReceiveMessageSize(MessageLimit(options_.limits.max_message_bytes));
  builder.SetMaxSendMessageSize(-1);  // a reply's size follows from its request
  // Two daemons must never share a TCP port; the Unix path is guarded by the StateLock.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxConnectionStreams);
  if (options_.tcp) {
    // A host that vanished closes nothing; over a Unix socket the kernel tells of every end, and a
    // client halted in a debugger keeps its session.
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  }
  for (grpc::Service* service :
       std::initializer_list<grpc::Service*>{&experts_, &residency_, &models_, &operator_}) {
    builder.RegisterService(service);
  }
  {
    const ScopedUmask owner_only(0177);
    server_ = builder.BuildAndStart();
  }
  if (server_ == nullptr || (options_.tcp && tcp_port_ == 0)) {
    return Error{ErrorCode::kUnavailable, Reason::kIo,
                 fmt::format("cannot listen on {}{}{}: is the address in use, or the certificate "
                             "not PEM? gRPC's own lines above say more",
                             options_.socket.path, options_.tcp ? " and " : "",
                             options_.tcp ? options_.tcp->address : "")};
  }
  return OpenUnixSocket(options_.socket);
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

void RpcServer::Stop(std::chrono::milliseconds grace) {
  const Error draining{ErrorCode::kUnavailable, Reason::kDraining, kStopping};
  BeginDrain();
  core_.Drain();
  admin_.Stop();
  sessions_.DrainStreams(draining);
  server_->Shutdown(std::chrono::system_clock::now() + grace);
  server_->Wait();
  server_.reset();
  unlink(options_.socket.path.c_str());  // gRPC has done so already when it closed the listener
}

}  // namespace moetier
