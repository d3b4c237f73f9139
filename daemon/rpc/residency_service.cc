#include "daemon/rpc/residency_service.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "daemon/rpc/call_deadline.h"
#include "daemon/rpc/residency_messages.h"
#include "daemon/rpc/residency_validation.h"
#include "daemon/rpc/unary_reply.h"

namespace moetier {
namespace {

using std::chrono::microseconds;
using Leases = std::vector<LeaseOutcome>;

// Ends so long before the call's deadline that the answer can still be read.
microseconds WaitOf(uint32_t wait_us, const grpc::CallbackServerContext& call) {
  constexpr microseconds kLeastMargin{1000};
  constexpr microseconds kMostMargin{50000};
  const microseconds wait = std::min<microseconds>(microseconds(wait_us),  //
                                                   ResidencyService::kLongestWait);
  const std::optional<microseconds> left = TimeLeft(call);
  if (!left) return wait;
  return std::clamp(*left - std::clamp(*left / 8, kLeastMargin, kMostMargin), microseconds(0),
                    wait);
}

std::vector<LeaseId> GivenLeases(const Leases& outcomes) {
  std::vector<LeaseId> given;
  for (const LeaseOutcome& outcome : outcomes) {
    if (const auto* lease = std::get_if<SlotLease>(&outcome)) given.push_back(lease->lease);
  }
  return given;
}

}  // namespace

WaitingReactor& ResidencyService::MayWait(const grpc::CallbackServerContext& call) {
  const CallId id{last_call_.fetch_add(1, std::memory_order_relaxed) + 1};
  return *new WaitingReactor(call, context_.core.residency(), id);  // OnDone deletes it
}

grpc::ServerUnaryReactor* ResidencyService::Acquire(grpc::CallbackServerContext* call,
                                                    const v1::AcquireRequest* request,
                                                    v1::AcquireReply* reply) {
  WaitingReactor& reactor = MayWait(*call);
  const auto start = [=, this, &reactor](const Session& session, const LaterAnswer& answer,
                                         FaultPlace& place) -> Status {
    ResidencyCalls::AcquireRequest asked;
    asked.session = session.id();
    asked.call = reactor.id();
    ASSIGN_OR_RETURN(asked.keys, ValidateKeys(request->keys(), session.model().id,
                                              *session.model().geometry, place));
    if (request->pool().has_pool()) {
      ASSIGN_OR_RETURN(asked.pool, ValidatePool(request->pool().pool(), context_.pools, place));
    }
    asked.wait = WaitOf(request->wait_us(), *call);
    const auto give = [reply, &reactor](const Leases& outcomes) {
      reactor.Give(GivenLeases(outcomes));
      for (const LeaseOutcome& outcome : outcomes) *reply->add_slots() = ToProto(outcome);
    };
    reactor.Begin(asked.session);
    context_.core.residency().Acquire(std::move(asked), answer.Then<Leases>(give));
    return Ok{};
  };
  return AnswerLater(LaterAnswer(context_, reactor), request->session(), start);
}

grpc::ServerUnaryReactor* ResidencyService::Release(grpc::CallbackServerContext* call,
                                                    const v1::ReleaseRequest* request,
                                                    v1::ReleaseReply* reply) {
  const auto start = [=, this](const Session& session, const LaterAnswer& answer,
                               FaultPlace& place) -> Status {
    ASSIGN_OR_RETURN(ResidencyCalls::ReleaseRequest asked,
                     ValidateRelease(*request, session.model().id, *session.model().geometry,
                                     context_.pools, place));
    asked.session = session.id();
    context_.core.residency().Release(
        std::move(asked),
        answer.Then<uint32_t>([reply](uint32_t released) { reply->set_released(released); }));
    return Ok{};
  };
  return AnswerLater(LaterAnswer(context_, *call->DefaultReactor()), request->session(), start);
}

grpc::ServerUnaryReactor* ResidencyService::Fill(grpc::CallbackServerContext* call,
                                                 const v1::TransferRequest* request,
                                                 v1::TransferReply* reply) {
  return Transfer(PoolKind::kRam, *call, *request, *reply);
}

grpc::ServerUnaryReactor* ResidencyService::Push(grpc::CallbackServerContext* call,
                                                 const v1::TransferRequest* request,
                                                 v1::TransferReply* reply) {
  return Transfer(PoolKind::kVram, *call, *request, *reply);
}

grpc::ServerUnaryReactor* ResidencyService::Transfer(PoolKind to, grpc::CallbackServerContext& call,
                                                     const v1::TransferRequest& request,
                                                     v1::TransferReply& reply) {
  const auto start = [&, to, this](const Session& session, const LaterAnswer& answer,
                                   FaultPlace& place) -> Status {
    ResidencyCalls::TransferRequest asked;
    asked.session = session.id();
    ASSIGN_OR_RETURN(asked.to, ValidatePool(request.pool(), to, context_.pools, place));
    ASSIGN_OR_RETURN(asked.keys, ValidateKeys(request.keys(), session.model().id,
                                              *session.model().geometry, place));
    using Outcomes = std::vector<TransferOutcome>;
    context_.core.residency().Transfer(std::move(asked),
                                       answer.Then<Outcomes>([&reply](const Outcomes& outcomes) {
                                         for (const TransferOutcome& outcome : outcomes)
                                           *reply.add_transfers() = ToProto(outcome);
                                       }));
    return Ok{};
  };
  return AnswerLater(LaterAnswer(context_, *call.DefaultReactor()), request.session(), start);
}

grpc::ServerUnaryReactor* ResidencyService::Landed(grpc::CallbackServerContext* call,
                                                   const v1::LandedRequest* request,
                                                   v1::LandedReply* reply) {
  WaitingReactor& reactor = MayWait(*call);
  const auto start = [=, this, &reactor](const Session& session, const LaterAnswer& answer,
                                         FaultPlace& /*place*/) -> Status {
    reactor.Begin(session.id());
    context_.core.residency().Landed(
        {.session = session.id(),
         .call = reactor.id(),
         .after = TransferId{request->after()},
         .wait = WaitOf(request->wait_us(), *call)},
        answer.Then<LandedTransfers>(
            [reply](const LandedTransfers& landed) { FillLanded(landed, *reply); }));
    return Ok{};
  };
  return AnswerLater(LaterAnswer(context_, reactor), request->session(), start);
}

grpc::ServerUnaryReactor* ResidencyService::Fence(grpc::CallbackServerContext* call,
                                                  const v1::PoolRequest* request,
                                                  v1::FenceReply* /*reply*/) {
  return AwaitPool(&ResidencyCalls::Fence, *call, *request);
}

grpc::ServerUnaryReactor* ResidencyService::Drain(grpc::CallbackServerContext* call,
                                                  const v1::PoolRequest* request,
                                                  v1::DrainReply* /*reply*/) {
  return AwaitPool(&ResidencyCalls::Drain, *call, *request);
}

grpc::ServerUnaryReactor* ResidencyService::AwaitPool(PoolCall await,
                                                      const grpc::CallbackServerContext& call,
                                                      const v1::PoolRequest& request) {
  WaitingReactor& reactor = MayWait(call);
  const auto start = [&, this](const Session& session, const LaterAnswer& answer,
                               FaultPlace& place) -> Status {
    ASSIGN_OR_RETURN(const PoolId pool, ValidatePool(request.pool(), context_.pools, place));
    reactor.Begin(session.id());
    (context_.core.residency().*await)(
        {.session = session.id(), .call = reactor.id(), .pool = pool}, answer.Then<Ok>([](Ok) {}));
    return Ok{};
  };
  return AnswerLater(LaterAnswer(context_, reactor), request.session(), start);
}

}  // namespace moetier
