#include "daemon/rpc/residency_messages.h"

#include "daemon/rpc/status_map.h"

namespace moetier {
namespace {

v1::NotAcquired::Why ToProto(NotLeasedWhy why) {
  switch (why) {
    case NotLeasedWhy::kAbsent:
      return v1::NotAcquired::WHY_ABSENT;
    case NotLeasedWhy::kLoading:
      return v1::NotAcquired::WHY_LOADING;
    case NotLeasedWhy::kNoRoom:
      return v1::NotAcquired::WHY_NO_ROOM;
    case NotLeasedWhy::kQuarantined:
      return v1::NotAcquired::WHY_QUARANTINED;
  }
  return v1::NotAcquired::WHY_UNSPECIFIED;
}

v1::Residence ToProto(Residence residence) {
  switch (residence) {
    case Residence::kAbsent:
      return v1::RESIDENCE_ABSENT;
    case Residence::kLoading:
      return v1::RESIDENCE_LOADING;
    case Residence::kResident:
      return v1::RESIDENCE_RESIDENT;
    case Residence::kQuarantined:
      return v1::RESIDENCE_QUARANTINED;
  }
  return v1::RESIDENCE_UNSPECIFIED;
}

v1::ExpertKey ToProto(const ExpertKey& key) {
  v1::ExpertKey message;
  message.set_layer(Raw(key.layer));
  message.set_expert(Raw(key.expert));
  return message;
}

}  // namespace

v1::AcquiredSlot ToProto(const LeaseOutcome& outcome) {
  v1::AcquiredSlot message;
  if (const auto* lease = std::get_if<SlotLease>(&outcome)) {
    v1::SlotLease& entry = *message.mutable_lease();
    entry.set_lease(Raw(lease->lease));
    entry.set_pool(Raw(lease->pool));
    entry.set_slot(Raw(lease->slot));
    entry.set_generation(lease->generation);
    entry.set_offset(lease->offset);
    entry.set_bytes(lease->bytes);
    return message;
  }
  const auto& refused = std::get<NotLeased>(outcome);
  message.mutable_refused()->set_why(ToProto(refused.why));
  if (refused.transfer) message.mutable_refused()->set_transfer(Raw(*refused.transfer));
  return message;
}

v1::TransferState ToProto(const TransferOutcome& outcome) {
  v1::TransferState message;
  if (const auto* there = std::get_if<InPlace>(&outcome)) {
    message.set_landed_generation(there->generation);
  } else if (const auto* transfer = std::get_if<TransferId>(&outcome)) {
    message.set_transfer(Raw(*transfer));
  } else {
    *message.mutable_fault() = ToFault(std::get<Error>(outcome));
  }
  return message;
}

v1::RoutedExpert ToProto(const RoutedExpert& expert) {
  v1::RoutedExpert message;
  message.set_expert(Raw(expert.expert));
  message.set_residence(ToProto(expert.residence));
  message.set_pool(Raw(expert.pool));
  message.set_lane(expert.lane);
  return message;
}

v1::TransferDone ToProto(const EndedTransfer& transfer) {
  v1::TransferDone message;
  message.set_transfer(Raw(transfer.transfer));
  *message.mutable_key() = ToProto(transfer.key);
  if (transfer.failed) *message.mutable_fault() = ToFault(*transfer.failed);
  return message;
}

v1::Victim ToProto(const Victim& victim) {
  v1::Victim message;
  *message.mutable_key() = ToProto(victim.key);
  message.set_pool(Raw(victim.pool));
  message.set_generation(victim.generation);
  return message;
}

v1::LeasesLost ToProto(const LostLeases& lost) {
  v1::LeasesLost message;
  for (const LeaseId lease : lost.leases) message.add_leases(Raw(lease));
  message.set_pool(Raw(lost.pool));
  *message.mutable_fault() = ToFault(lost.why);
  return message;
}

void FillLanded(const LandedTransfers& landed, v1::LandedReply& reply) {
  reply.set_all_done_below(Raw(landed.all_done_below));
  for (const TransferId transfer : landed.done_above) reply.add_done_above(Raw(transfer));
  for (const EndedTransfer& transfer : landed.failed) {
    if (!transfer.failed) continue;
    v1::FailedTransfer& entry = *reply.add_failed();
    entry.set_transfer(Raw(transfer.transfer));
    *entry.mutable_fault() = ToFault(*transfer.failed);
  }
}

}  // namespace moetier
