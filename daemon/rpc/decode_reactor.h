#ifndef MOETIER_DAEMON_RPC_DECODE_REACTOR_H_
#define MOETIER_DAEMON_RPC_DECODE_REACTOR_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>

#include "base/mutex.h"
#include "daemon/rpc/service_context.h"
#include "daemon/rpc/session.h"
#include "moetier/v1/experts.pb.h"

namespace moetier {

// One Decode stream: reads messages while fewer than max_in_flight are unanswered, submits them in
// order, writes replies as they complete. The semantics stand in experts.proto.
// Threads: any; gRPC operations are started under its lock, which is safe since gRPC 1.51 runs no
//          reaction inside the call that starts an operation. Messages are checked outside it.
// Lifetime: holds itself until gRPC is done with it; unanswered calls hold it beyond that.
class DecodeReactor final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                            public SessionStream,
                            public std::enable_shared_from_this<DecodeReactor> {
 public:
  static DecodeReactor* Start(ServiceContext& context, grpc::CallbackServerContext& call);

  void EndStream(const Error& why) override;
  void DrainStream(const Error& why) override;

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  DecodeReactor(ServiceContext& context, grpc::CallbackServerContext& call)
      : context_(context), call_(call) {}

  // The next message; an error ends the stream.
  Status Handle();
  // The first message; an error ends the stream.
  Status Open();
  // Any later message; an error ends the stream.
  Status Take();
  Status Register(uint64_t request_id, std::shared_ptr<CallControl> control);
  void Submit(const v1::LayerRequest& request, std::shared_ptr<CallControl> control);
  void Cancel(uint64_t request_id);

  void AnswerFault(uint64_t request_id, const Error& error, const FaultPlace& place = {});
  void AnswerResult(uint64_t request_id, uint32_t rows, LayerOutput output);
  void Answer(v1::LayerReply reply);

  // Starts whatever may start now: the next write, the next read, the end.
  void Pump() REQUIRES(mu_);
  void WriteNext() REQUIRES(mu_);
  void CancelCalls() REQUIRES(mu_);
  void FinishWith(const grpc::Status& status) REQUIRES(mu_);

  ServiceContext& context_;
  grpc::CallbackServerContext& call_;  // valid until OnDone
  std::shared_ptr<DecodeReactor> self_;
  std::shared_ptr<Session> session_;  // set once by the first OnReadDone, under mu_
  grpc::ByteBuffer received_;         // owned by gRPC while reading_
  v1::DecodeRequest request_;         // what it says, while OnReadDone runs

  Mutex mu_;
  grpc::ByteBuffer current_;  // owned by gRPC while writing_
  // Calls whose reply has not gone to gRPC yet; a client that has seen the reply may use the id
  // again.
  std::unordered_map<uint64_t, std::shared_ptr<CallControl>> calls_ GUARDED_BY(mu_);
  std::deque<v1::LayerReply> replies_ GUARDED_BY(mu_);
  uint32_t unanswered_ GUARDED_BY(mu_) = 0;  // messages read whose reply is not written yet
  bool reading_ GUARDED_BY(mu_) = false;     // a read is out, or its message is being handled
  bool half_closed_ GUARDED_BY(mu_) = false;
  bool writing_ GUARDED_BY(mu_) = false;
  bool finished_ GUARDED_BY(mu_) = false;
  std::optional<grpc::Status> end_ GUARDED_BY(mu_);    // at once
  std::optional<grpc::Status> drain_ GUARDED_BY(mu_);  // once all is answered
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_DECODE_REACTOR_H_
