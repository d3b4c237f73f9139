#ifndef MOETIER_ADAPTERS_CPP_RESIDENCY_SESSION_H_
#define MOETIER_ADAPTERS_CPP_RESIDENCY_SESSION_H_

#include <grpcpp/client_context.h>
#include <grpcpp/support/sync_stream.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "moetier/fastlane.h"
#include "moetier/v1/experts.grpc.pb.h"
#include "moetier/v1/residency.grpc.pb.h"

namespace moetier {

// A session of moetierd whose leased experts can be read: attached over gRPC, the RAM pool's arena
// mapped. Leases are the caller's to release; the session's end releases what is left.
// Threads: one. Errors: in the daemon's own words; kUnavailable when it does not answer,
//          kDeadlineExceeded when it does not answer a call in time, kFailedPrecondition when it
//          refuses, without its reason but for a mapping's, kInternal when its answer does not fit
//          the call.
class ResidencySession {
 public:
  struct Options {
    std::string socket;  // the daemon's gRPC socket, a path
    std::string model;   // name of a loaded model; empty: the only one
    std::string client;  // for people
  };
  static Result<std::unique_ptr<ResidencySession>> Attach(const Options& options);
  ~ResidencySession();
  ResidencySession(const ResidencySession&) = delete;
  ResidencySession& operator=(const ResidencySession&) = delete;

  [[nodiscard]] const v1::Grant& grant() const { return grant_; }

  // Where each distinct expert is; counts as an access, once for what is computed afterwards.
  Result<v1::RouteReply> Route(uint32_t layer, std::span<const uint32_t> experts);
  // Has experts read into RAM; does not wait. One outcome each, in order.
  Result<v1::TransferReply> Fill(uint32_t layer, std::span<const uint32_t> experts);
  // Has them copied to the device, likewise. kUnimplemented where the daemon has none.
  Result<v1::TransferReply> Push(uint32_t layer, std::span<const uint32_t> experts);
  // Leases slots of RAM or of the device, waiting for what is on its way there. One outcome each,
  // in order. Where the call ends without its reply, all leases on the experts in that pool are
  // given back: nothing else may hold one.
  Result<v1::AcquireReply> Acquire(uint32_t layer, std::span<const uint32_t> experts,
                                   std::chrono::microseconds wait,
                                   v1::PoolKind where = v1::POOL_KIND_RAM);
  Status Release(const std::vector<uint64_t>& leases);
  // All leases of the session on these experts in the pool, for whose numbers there was no reply.
  // Gives how many.
  Result<uint32_t> ReleaseAll(uint32_t layer, std::span<const uint32_t> experts,
                              v1::PoolKind where = v1::POOL_KIND_RAM);
  // The daemon's own computation of one row.
  Result<std::vector<float>> Compute(uint32_t layer, std::span<const float> hidden,
                                     std::span<const uint32_t> experts,
                                     std::span<const float> weights);

  // What shows the session to map its memory (moetier/fastlane.h); good as long as the session.
  [[nodiscard]] moetier_map Shown() const;

  // A record leased in RAM, where the daemon has it. kInternal when it does not lie in the arena.
  [[nodiscard]] Result<std::span<const std::byte>> Record(const v1::SlotLease& lease) const;

 private:
  explicit ResidencySession(std::string socket);
  Status AwaitGrant(const Options& options);
  Status MapArena();
  [[nodiscard]] Result<uint32_t> PoolOf(v1::PoolKind kind) const;
  using TransferMethod = grpc::Status (v1::Residency::Stub::*)(grpc::ClientContext*,
                                                               const v1::TransferRequest&,
                                                               v1::TransferReply*);
  Result<v1::TransferReply> Transfer(std::string_view call, TransferMethod method, uint32_t pool,
                                     uint32_t layer, std::span<const uint32_t> experts);
  void Name(v1::SessionRef& session) const;

  const std::string socket_;
  std::unique_ptr<v1::Experts::Stub> experts_;
  std::unique_ptr<v1::Residency::Stub> residency_;
  grpc::ClientContext attached_;
  std::unique_ptr<grpc::ClientReader<v1::SessionEvent>> events_;  // the session lives as long
  v1::Grant grant_;
  uint32_t pool_ = 0;  // of RAM
  moetier_arena arena_{};
};

}  // namespace moetier

#endif  // MOETIER_ADAPTERS_CPP_RESIDENCY_SESSION_H_
