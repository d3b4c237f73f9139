#include "adapters/cpp/residency_session.h"

#include <fmt/core.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace moetier {
namespace {

constexpr uint64_t kMapTimeoutUs = 10'000'000;
constexpr std::chrono::seconds kPatience{60};  // of one call, waits included

Error Failed(std::string_view call, const grpc::Status& status) {
  ErrorCode code = ErrorCode::kFailedPrecondition;
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE) code = ErrorCode::kUnavailable;
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    code = ErrorCode::kDeadlineExceeded;
  }
  return {code, Reason::kUnspecified, fmt::format("{}: {}", call, status.error_message())};
}

template <typename Stub, typename Request, typename Reply>
Result<Reply> Call(std::string_view name, Stub& stub,
                   grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                   const Request& request) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  Reply reply;
  const grpc::Status status = (stub.*method)(&context, request, &reply);
  if (!status.ok()) return Failed(name, status);
  return reply;
}

template <typename Request>
void AddKeys(uint32_t layer, std::span<const uint32_t> experts, Request& request) {
  for (const uint32_t expert : experts) {
    v1::ExpertKey& key = *request.add_keys();
    key.set_layer(layer);
    key.set_expert(expert);
  }
}

// A reply that does not answer each key would have us read past its end.
Status CheckCount(std::string_view call, int got, size_t asked) {
  if (static_cast<size_t>(got) == asked) return Ok{};
  return Error{ErrorCode::kInternal, Reason::kUnspecified,
               fmt::format("{}: {} outcomes for {} keys", call, got, asked)};
}

}  // namespace

ResidencySession::ResidencySession(std::string socket) : socket_(std::move(socket)) {
  const auto channel = grpc::CreateChannel("unix:" + socket_, grpc::InsecureChannelCredentials());
  experts_ = v1::Experts::NewStub(channel);
  residency_ = v1::Residency::NewStub(channel);
}

Result<std::unique_ptr<ResidencySession>> ResidencySession::Attach(const Options& options) {
  std::unique_ptr<ResidencySession> session(new ResidencySession(options.socket));
  RETURN_IF_ERROR(session->AwaitGrant(options));
  RETURN_IF_ERROR(session->MapArena());
  return session;
}

ResidencySession::~ResidencySession() {
  attached_.TryCancel();
  if (events_ != nullptr) (void)events_->Finish();
  moetier_unmap_arena(&arena_);
}

Status ResidencySession::AwaitGrant(const Options& options) {
  v1::AttachRequest request;
  request.set_client(options.client);
  request.set_model(options.model);
  events_ = experts_->Attach(&attached_, request);
  v1::SessionEvent first;
  if (!events_->Read(&first)) {
    const grpc::Status status = events_->Finish();
    events_ = nullptr;
    return Failed("attach to " + options.socket, status);
  }
  grant_ = std::move(*first.mutable_grant());
  if (grant_.limits().max_leased_bytes() == 0) {
    return Error{ErrorCode::kUnimplemented, Reason::kNotYet,
                 fmt::format("moetierd {} grants no leases", grant_.daemon_version())};
  }
  ASSIGN_OR_RETURN(pool_, PoolOf(v1::POOL_KIND_RAM));
  return Ok{};
}

Result<uint32_t> ResidencySession::PoolOf(v1::PoolKind kind) const {
  const auto found = std::ranges::find(grant_.pools(), kind, &v1::Pool::kind);
  if (found != grant_.pools().end()) return found->index();
  return Error{ErrorCode::kUnimplemented, Reason::kBadPool,
               fmt::format("moetierd {} has no pool of {}", grant_.daemon_version(),
                           v1::PoolKind_Name(kind))};
}

moetier_map ResidencySession::Shown() const {
  moetier_map map{};
  map.size = sizeof map;
  map.socket = socket_.c_str();
  map.session = grant_.session();
  map.token = reinterpret_cast<const uint8_t*>(grant_.token().data());
  map.token_bytes = static_cast<uint32_t>(grant_.token().size());
  map.pool = pool_;
  return map;
}

Status ResidencySession::MapArena() {
  const moetier_map map = Shown();
  moetier_error error{};
  if (moetier_map_arena(&map, kMapTimeoutUs, &arena_, &error) == MOETIER_OK) return Ok{};
  return Error{ErrorCode::kFailedPrecondition, static_cast<Reason>(error.reason), error.text};
}

void ResidencySession::Name(v1::SessionRef& session) const {
  session.set_session(grant_.session());
  session.set_token(grant_.token());
}

Result<v1::RouteReply> ResidencySession::Route(uint32_t layer, std::span<const uint32_t> experts) {
  v1::RouteRequest request;
  Name(*request.mutable_session());
  request.set_layer(layer);
  request.set_rows(1);
  request.set_top_k(static_cast<uint32_t>(experts.size()));
  request.mutable_experts()->Add(experts.begin(), experts.end());
  return Call("Route", *experts_, &v1::Experts::Stub::Route, request);
}

Result<v1::TransferReply> ResidencySession::Fill(uint32_t layer,
                                                 std::span<const uint32_t> experts) {
  return Transfer("Fill", &v1::Residency::Stub::Fill, pool_, layer, experts);
}

Result<v1::TransferReply> ResidencySession::Push(uint32_t layer,
                                                 std::span<const uint32_t> experts) {
  ASSIGN_OR_RETURN(const uint32_t device, PoolOf(v1::POOL_KIND_VRAM));
  return Transfer("Push", &v1::Residency::Stub::Push, device, layer, experts);
}

Result<v1::TransferReply> ResidencySession::Transfer(std::string_view call, TransferMethod method,
                                                     uint32_t pool, uint32_t layer,
                                                     std::span<const uint32_t> experts) {
  v1::TransferRequest request;
  Name(*request.mutable_session());
  AddKeys(layer, experts, request);
  request.set_pool(pool);
  ASSIGN_OR_RETURN(v1::TransferReply reply, Call(call, *residency_, method, request));
  RETURN_IF_ERROR(CheckCount(call, reply.transfers_size(), experts.size()));
  return reply;
}

Result<v1::AcquireReply> ResidencySession::Acquire(uint32_t layer,
                                                   std::span<const uint32_t> experts,
                                                   std::chrono::microseconds wait,
                                                   v1::PoolKind where) {
  ASSIGN_OR_RETURN(const uint32_t pool, PoolOf(where));
  v1::AcquireRequest request;
  Name(*request.mutable_session());
  AddKeys(layer, experts, request);
  request.mutable_pool()->set_pool(pool);
  request.set_wait_us(static_cast<uint32_t>(wait.count()));
  Result<v1::AcquireReply> reply =
      Call("Acquire", *residency_, &v1::Residency::Stub::Acquire, request);
  if (!reply && reply.error().code == ErrorCode::kDeadlineExceeded) {
    RETURN_IF_ERROR(ReleaseAll(layer, experts, where));
  }
  if (!reply) return reply;
  RETURN_IF_ERROR(CheckCount("Acquire", reply->slots_size(), experts.size()));
  return reply;
}

Status ResidencySession::Release(const std::vector<uint64_t>& leases) {
  if (leases.empty()) return Ok{};
  v1::ReleaseRequest request;
  Name(*request.mutable_session());
  request.mutable_leases()->Add(leases.begin(), leases.end());
  ASSIGN_OR_RETURN(const v1::ReleaseReply reply,
                   Call("Release", *residency_, &v1::Residency::Stub::Release, request));
  if (reply.released() == leases.size()) return Ok{};
  return Error{ErrorCode::kInternal, Reason::kUnspecified,
               fmt::format("Release: {} of {} leases were ours", reply.released(), leases.size())};
}

Result<uint32_t> ResidencySession::ReleaseAll(uint32_t layer, std::span<const uint32_t> experts,
                                              v1::PoolKind where) {
  ASSIGN_OR_RETURN(const uint32_t pool, PoolOf(where));
  v1::ReleaseRequest request;
  Name(*request.mutable_session());
  AddKeys(layer, experts, request);
  request.mutable_pool()->set_pool(pool);
  ASSIGN_OR_RETURN(const v1::ReleaseReply reply,
                   Call("Release", *residency_, &v1::Residency::Stub::Release, request));
  return reply.released();
}

Result<std::vector<float>> ResidencySession::Compute(uint32_t layer, std::span<const float> hidden,
                                                     std::span<const uint32_t> experts,
                                                     std::span<const float> weights) {
  v1::LayerRequest request;
  Name(*request.mutable_session());
  request.set_layer(layer);
  request.set_rows(1);
  request.set_top_k(static_cast<uint32_t>(experts.size()));
  request.set_hidden_type(v1::DTYPE_F32);
  request.set_hidden(hidden.data(), hidden.size_bytes());
  request.mutable_experts()->Add(experts.begin(), experts.end());
  request.mutable_weights()->Add(weights.begin(), weights.end());
  ASSIGN_OR_RETURN(const v1::LayerReply reply,
                   Call("Compute", *experts_, &v1::Experts::Stub::Compute, request));
  const std::string& bytes = reply.ok().output();
  std::vector<float> output(hidden.size());
  if (bytes.size() != hidden.size_bytes()) {
    return Error{ErrorCode::kInternal, Reason::kUnspecified,
                 fmt::format("Compute: {} bytes for {} values", bytes.size(), hidden.size())};
  }
  std::memcpy(output.data(), bytes.data(), bytes.size());
  return output;
}

Result<std::span<const std::byte>> ResidencySession::Record(const v1::SlotLease& lease) const {
  if (lease.offset() > arena_.bytes || lease.bytes() > arena_.bytes - lease.offset()) {
    return Error{ErrorCode::kInternal, Reason::kUnspecified,
                 fmt::format("a lease of {} bytes at {} lies beyond the arena's {}", lease.bytes(),
                             lease.offset(), arena_.bytes)};
  }
  return std::span(static_cast<const std::byte*>(arena_.memory) + lease.offset(), lease.bytes());
}

}  // namespace moetier
