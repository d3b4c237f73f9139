#ifndef MOETIER_DAEMON_RPC_UNARY_REPLY_H_
#define MOETIER_DAEMON_RPC_UNARY_REPLY_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "daemon/rpc/service_context.h"
#include "daemon/rpc/session.h"

namespace moetier {

// Ends a unary call whose answer is known when it arrives.
inline grpc::ServerUnaryReactor* FinishNow(grpc::CallbackServerContext& call,
                                           const grpc::Status& status) {
  grpc::ServerUnaryReactor* reactor = call.DefaultReactor();
  reactor->Finish(status);
  return reactor;
}

// Runs `work`, which gives the call's status, on the worker; a refused task ends it at once.
template <typename Work>
grpc::ServerUnaryReactor* FinishOn(AdminWorker& worker, ServiceContext& context,
                                   grpc::CallbackServerContext& call, Work work) {
  grpc::ServerUnaryReactor* reactor = call.DefaultReactor();
  const Status queued = worker.Run([&context, reactor, work = std::move(work)](const Status& go) {
    reactor->Finish(go ? work() : context.Refuse(go.error()));
  });
  if (!queued) reactor->Finish(context.Refuse(queued.error()));
  return reactor;
}

// A unary call that the core answers later, once, on any thread. A client's cancel does not end
// it: the core's answer does, and finds no reader; a reactor may have the core answer sooner. A
// value; copies are the same call.
class LaterAnswer {
 public:
  LaterAnswer(ServiceContext& context, grpc::ServerUnaryReactor& reactor)
      : context_(&context), reactor_(&reactor) {}

  // For the core's `done`: ends the call with its error, or with OK after `write`, which puts the
  // value into the reply.
  template <typename T, typename Write>
  [[nodiscard]] std::function<void(Result<T>)> Then(Write write) const {
    return [*this, write = std::move(write)](Result<T> value) {
      if (!value) return Refuse(value.error());
      write(*value);
      reactor_->Finish(grpc::Status::OK);
    };
  }
  void Refuse(const Error& error, const FaultPlace& place = {}) const {
    reactor_->Finish(context_->Refuse(error, place));
  }

  [[nodiscard]] ServiceContext& context() const { return *context_; }
  [[nodiscard]] grpc::ServerUnaryReactor* reactor() const { return reactor_; }

 private:
  ServiceContext* context_;
  grpc::ServerUnaryReactor* reactor_;  // gRPC's or its own; it ends after Finish
};

// Runs `start` with the session that `ref` names; it either has the core answer later or gives the
// refusal, with its place.
template <typename Start>
grpc::ServerUnaryReactor* AnswerLater(const LaterAnswer& answer, const v1::SessionRef& ref,
                                      Start start) {
  grpc::ServerUnaryReactor* const reactor = answer.reactor();
  const Result<std::shared_ptr<Session>> session = answer.context().sessions.Find(ref);
  if (!session) {
    answer.Refuse(session.error(), {.field = "session"});
    return reactor;
  }
  FaultPlace place;
  const Status started = start(**session, answer, place);
  if (!started) answer.Refuse(started.error(), place);
  return reactor;
}

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_UNARY_REPLY_H_
