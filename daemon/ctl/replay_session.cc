#include "daemon/ctl/replay_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "daemon/ctl/daemon_channel.h"

namespace moetier {
namespace {

// Lets a writer be at most `limit` calls ahead of the reader.
// Threads: any.
class InFlightWindow {
 public:
  explicit InFlightWindow(uint32_t limit) : limit_(limit) {}

  // Waits for room; false once closed.
  bool Enter() {
    MutexLock lock(mu_);
    while (!closed_ && in_flight_ >= limit_) changed_.wait(mu_);
    if (!closed_) ++in_flight_;
    return !closed_;
  }

  void Leave() {
    MutexLock lock(mu_);
    --in_flight_;
    changed_.notify_one();
  }

  // The stream has ended: nobody will leave any more.
  void Close() {
    MutexLock lock(mu_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  const uint32_t limit_;
  Mutex mu_;
  ConditionVariable changed_;
  uint32_t in_flight_ GUARDED_BY(mu_) = 0;
  bool closed_ GUARDED_BY(mu_) = false;
};

std::string BytesOf(std::span<const float> values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

}  // namespace

ReplaySession::ReplaySession(const std::shared_ptr<grpc::Channel>& channel)
    : stub_(v1::Experts::NewStub(channel)) {}

Result<std::unique_ptr<ReplaySession>> ReplaySession::Attach(
    const std::shared_ptr<grpc::Channel>& channel, const std::string& model) {
  std::unique_ptr<ReplaySession> session(new ReplaySession(channel));
  v1::AttachRequest request;
  request.set_client("moetierctl replay");
  request.set_model(model);
  session->lease_ = session->stub_->Attach(&session->lease_context_, request);
  v1::SessionEvent event;
  if (!session->lease_->Read(&event)) {
    return CallError(std::exchange(session->lease_, nullptr)->Finish(), "attach");
  }
  if (!event.has_grant()) {
    return Error{ErrorCode::kInternal, Reason::kUnspecified,
                 "attach: the daemon's first event is not a grant"};
  }
  session->grant_ = std::move(*event.mutable_grant());
  return session;
}

Status ReplaySession::ForceLane(const std::string& name) {
  std::vector<std::string> names;
  for (const v1::Lane& lane : grant_.lanes()) {
    if (lane.name() == name) {
      forced_lane_ = lane.index() + 1;
      return Ok{};
    }
    names.push_back(lane.name());
  }
  return Error{
      ErrorCode::kInvalidArgument, Reason::kUnspecified,
      fmt::format("the daemon has no lane `{}`; it has: {}", name, fmt::join(names, ", "))};
}

ReplaySession::~ReplaySession() {
  if (lease_ == nullptr) return;
  lease_context_.TryCancel();
  for (v1::SessionEvent event; lease_->Read(&event);) continue;
  lease_->Finish();  // CANCELLED, as asked
}

v1::DecodeRequest ReplaySession::RequestFor(const GoldenRows& rows, const ReplayCall& call,
                                            uint64_t request_id) const {
  v1::DecodeRequest request;
  v1::LayerRequest& layer = *request.mutable_layer();
  layer.set_request_id(request_id);
  layer.set_layer(grant_.model().geometry().layers(static_cast<int>(call.layer)).layer());
  layer.set_rows(call.rows);
  layer.set_top_k(rows.top_k);
  layer.set_hidden_type(v1::DTYPE_F32);
  layer.set_forced_lane(forced_lane_);
  layer.set_phase(call.rows == 1 ? v1::PHASE_DECODE : v1::PHASE_PREFILL);
  std::string& hidden = *layer.mutable_hidden();
  for (uint32_t row = 0; row < call.rows; ++row) {
    const uint32_t token = call.first_token + row;
    hidden += BytesOf(rows.HiddenOf(token, call.layer));
    const auto experts = rows.ExpertsOf(token, call.layer);
    layer.mutable_experts()->Add(experts.begin(), experts.end());
    const auto weights = rows.WeightsOf(token, call.layer);
    layer.mutable_weights()->Add(weights.begin(), weights.end());
  }
  return request;
}

Status ReplaySession::Run(const GoldenRows& rows, std::span<const ReplayCall> calls,
                          const OnReply& on_reply) {
  grpc::ClientContext context;
  const auto stream = stub_->Decode(&context);
  v1::DecodeRequest open;
  open.mutable_open()->set_session(grant_.session());
  open.mutable_open()->set_token(grant_.token());
  stream->Write(open);

  InFlightWindow window(std::max(1u, grant_.limits().max_in_flight()));
  std::vector<bool> answered(calls.size());
  std::optional<uint64_t> stray;  // written by the reader, read after its join
  std::jthread reader([&] {
    for (v1::LayerReply reply; stream->Read(&reply);) {
      const uint64_t index = reply.request_id() - 1;
      if (index >= calls.size() || answered[index]) {
        stray = reply.request_id();
        context.TryCancel();
        break;
      }
      answered[index] = true;
      on_reply(calls[index], reply);
      window.Leave();
    }
    window.Close();
  });
  // A failed write means a broken stream: the reader sees it too, and Finish says why.
  for (size_t i = 0; i < calls.size(); ++i) {
    if (!window.Enter() || !stream->Write(RequestFor(rows, calls[i], i + 1))) break;
  }
  stream->WritesDone();
  reader.join();
  if (stray) {
    return Error{ErrorCode::kInternal, Reason::kUnspecified,
                 fmt::format("the daemon answered request {}, which is not under way", *stray)};
  }
  const grpc::Status status = stream->Finish();
  if (!status.ok()) return CallError(status, "decode");
  const auto missing = std::ranges::count(answered, false);
  if (missing > 0) {
    return Error{ErrorCode::kInternal, Reason::kUnspecified,
                 fmt::format("the daemon ended the stream with {} of {} calls unanswered", missing,
                             calls.size())};
  }
  return Ok();
}

}  // namespace moetier
