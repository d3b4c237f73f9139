#include "tests/support/rpc_fixture.h"

#include <cstring>
#include <utility>

#include "daemon/rpc/status_map.h"

namespace moetier {

RpcServer::Options RpcFixture::DefaultOptions() {
  RpcServer::Options options;
  options.limits = {.max_rows = 8192, .max_in_flight = 4, .max_message_bytes = 1_MiB};
  options.max_sessions = 4;
  options.max_streams = 4;
  options.version = "test 1";
  options.reload = [] {
    return ReloadReport{.changed = {"log.level: info -> debug"}, .needs_restart = {"cpu.workers"}};
  };
  return options;
}

v1::Reason ReasonOf(const grpc::Status& status) {
  const std::optional<v1::Fault> fault = FaultOf(status);
  return fault ? fault->reason() : v1::REASON_UNSPECIFIED;
}

RpcFixture::RpcFixture(RpcServer::Options options, RpcDoor::Options door,
                       const std::function<void(FakeDaemonCore&)>& prepare)
    : socket_path(folder.path() + "/run/socket") {
  if (prepare) prepare(core);
  door.socket.path = socket_path;
  auto opened = RpcDoor::Open(door);
  MOE_CHECK(opened.has_value(), "{}", opened.error().message);
  auto started =
      RpcServer::Start(core, clock, log, book, counters, *std::move(opened), std::move(options));
  MOE_CHECK(started.has_value(), "{}", started.error().message);
  server = *std::move(started);
}

std::shared_ptr<grpc::Channel> RpcFixture::Connect() const {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel("unix:" + socket_path, grpc::InsecureChannelCredentials(),
                                   arguments);
}

AttachedClient::AttachedClient(const std::shared_ptr<grpc::Channel>& channel,
                               const v1::AttachRequest& request)
    : stub_(v1::Experts::NewStub(channel)), stream_(stub_->Attach(&context_, request)) {
  v1::SessionEvent event;
  attached_ = stream_->Read(&event) && event.has_grant();
  if (attached_) grant_ = event.grant();
}

AttachedClient::~AttachedClient() {
  if (!finished_) (void)Detach();
}

v1::SessionRef AttachedClient::ref() const {
  v1::SessionRef ref;
  ref.set_session(grant_.session());
  ref.set_token(grant_.token());
  return ref;
}

grpc::Status AttachedClient::Detach() {
  context_.TryCancel();
  return Finish();
}

grpc::Status AttachedClient::Finish() {
  finished_ = true;
  v1::SessionEvent event;
  while (stream_->Read(&event)) {
  }
  return stream_->Finish();
}

DecodeClient::DecodeClient(v1::Experts::Stub& stub, const v1::SessionRef& ref)
    : stream_(stub.Decode(&context_)) {
  v1::DecodeRequest open;
  *open.mutable_open() = ref;
  stream_->Write(open);
}

DecodeClient::~DecodeClient() {
  if (finished_) return;
  context_.TryCancel();
  (void)Finish();
}

bool DecodeClient::Send(const v1::LayerRequest& layer) {
  v1::DecodeRequest request;
  *request.mutable_layer() = layer;
  return stream_->Write(request);
}

bool DecodeClient::SendCancel(uint64_t request_id) {
  v1::DecodeRequest request;
  request.set_cancel_request_id(request_id);
  return stream_->Write(request);
}

v1::LayerReply DecodeClient::ReadOne() {
  v1::LayerReply reply;
  stream_->Read(&reply);
  return reply;
}

grpc::Status DecodeClient::Finish() {
  finished_ = true;
  v1::LayerReply reply;
  while (stream_->Read(&reply)) {
  }
  return stream_->Finish();
}

std::vector<float> Floats(const std::string& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

}  // namespace moetier
