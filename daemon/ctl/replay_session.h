#ifndef MOETIER_DAEMON_CTL_REPLAY_SESSION_H_
#define MOETIER_DAEMON_CTL_REPLAY_SESSION_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/sync_stream.h>

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "daemon/ctl/golden_rows.h"
#include "daemon/ctl/replay_plan.h"
#include "moetier/v1/experts.grpc.pb.h"

namespace moetier {

// One attached session and its Decode stream.
// Threads: used by one; Run has a reader thread of its own.
class ReplaySession {
 public:
  // `model` may be empty when the daemon holds exactly one.
  static Result<std::unique_ptr<ReplaySession>> Attach(
      const std::shared_ptr<grpc::Channel>& channel, const std::string& model);
  ~ReplaySession();  // gives the lease back
  ReplaySession(const ReplaySession&) = delete;
  ReplaySession& operator=(const ReplaySession&) = delete;

  [[nodiscard]] const v1::Grant& grant() const { return grant_; }

  // All calls run on the lane of this name from now on. An error names the lanes there are.
  Status ForceLane(const std::string& name);

  // Called for each reply, on the reader thread, one at a time.
  using OnReply = std::function<void(const ReplayCall& call, const v1::LayerReply& reply)>;

  // Sends all calls over one stream, at most the grant's max_in_flight unanswered, and waits for
  // every reply. An error when the stream breaks, or when a reply names no call under way.
  Status Run(const GoldenRows& rows, std::span<const ReplayCall> calls, const OnReply& on_reply);

 private:
  explicit ReplaySession(const std::shared_ptr<grpc::Channel>& channel);

  [[nodiscard]] v1::DecodeRequest RequestFor(const GoldenRows& rows, const ReplayCall& call,
                                             uint64_t request_id) const;

  std::unique_ptr<v1::Experts::Stub> stub_;
  grpc::ClientContext lease_context_;
  std::unique_ptr<grpc::ClientReader<v1::SessionEvent>> lease_;  // the session lives as long
  v1::Grant grant_;
  uint32_t forced_lane_ = 0;  // as LayerRequest has it
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_CTL_REPLAY_SESSION_H_
