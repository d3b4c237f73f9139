#ifndef MOETIER_TESTS_SUPPORT_RPC_FIXTURE_H_
#define MOETIER_TESTS_SUPPORT_RPC_FIXTURE_H_

#include <grpcpp/grpcpp.h>
#include <spdlog/logger.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/rpc/rpc_server.h"
#include "moetier/v1/experts.grpc.pb.h"
#include "moetier/v1/models.grpc.pb.h"
#include "moetier/v1/operator.grpc.pb.h"
#include "moetier/v1/residency.grpc.pb.h"
#include "tests/support/fake_daemon_core.h"
#include "tests/support/temp_folder.h"

namespace moetier {

// A real server on a Unix socket in a temporary folder, over a fake core.
struct RpcFixture {
  // `prepare` sets up the core before the server starts.
  explicit RpcFixture(RpcServer::Options options = DefaultOptions(), RpcDoor::Options door = {},
                      const std::function<void(FakeDaemonCore&)>& prepare = {});

  // max_rows 8192, max_in_flight 4, messages up to 1 MiB, 4 sessions of 4 streams.
  static RpcServer::Options DefaultOptions();
  // A connection of its own, as another process would have.
  [[nodiscard]] std::shared_ptr<grpc::Channel> Connect() const;

  testing::TempFolder folder;
  FakeDaemonCore core;
  SteadyClock clock;
  spdlog::logger log{"test"};  // no sinks
  SessionBook book;
  ReplyCounters counters;
  std::string socket_path;
  std::unique_ptr<RpcServer> server;
};

// The reason in a status's details; UNSPECIFIED when it has none.
v1::Reason ReasonOf(const grpc::Status& status);

// An attached client: holds the lease until destroyed or Detach.
class AttachedClient {
 public:
  explicit AttachedClient(const std::shared_ptr<grpc::Channel>& channel,
                          const v1::AttachRequest& request = {});
  ~AttachedClient();

  [[nodiscard]] bool attached() const { return attached_; }
  [[nodiscard]] const v1::Grant& grant() const { return grant_; }
  [[nodiscard]] v1::SessionRef ref() const;
  [[nodiscard]] v1::Experts::Stub& stub() { return *stub_; }
  bool NextEvent(v1::SessionEvent& event) { return stream_->Read(&event); }
  grpc::Status Detach();  // cancels the lease; the stream's status
  grpc::Status Finish();  // waits for the server to end it

 private:
  std::unique_ptr<v1::Experts::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::SessionEvent>> stream_;
  v1::Grant grant_;
  bool attached_ = false;
  bool finished_ = false;
};

// A Decode stream that has sent its Open.
class DecodeClient {
 public:
  explicit DecodeClient(AttachedClient& client) : DecodeClient(client.stub(), client.ref()) {}
  DecodeClient(v1::Experts::Stub& stub, const v1::SessionRef& ref);
  ~DecodeClient();

  bool Send(const v1::LayerRequest& layer);
  bool Send(const v1::DecodeRequest& request) { return stream_->Write(request); }
  bool SendCancel(uint64_t request_id);
  bool Read(v1::LayerReply& reply) { return stream_->Read(&reply); }
  v1::LayerReply ReadOne();  // request_id 0 and no outcome when the stream has ended
  void HalfClose() { stream_->WritesDone(); }
  grpc::Status Finish();
  grpc::ClientContext& context() { return context_; }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::DecodeRequest, v1::LayerReply>> stream_;
  bool finished_ = false;
};

std::vector<float> Floats(const std::string& bytes);

}  // namespace moetier

#endif  // MOETIER_TESTS_SUPPORT_RPC_FIXTURE_H_
