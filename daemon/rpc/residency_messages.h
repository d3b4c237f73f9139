#ifndef MOETIER_DAEMON_RPC_RESIDENCY_MESSAGES_H_
#define MOETIER_DAEMON_RPC_RESIDENCY_MESSAGES_H_

#include "daemon/scheduling/residency_calls.h"
#include "moetier/v1/experts.pb.h"
#include "moetier/v1/residency.pb.h"

namespace moetier {

v1::AcquiredSlot ToProto(const LeaseOutcome& outcome);
v1::TransferState ToProto(const TransferOutcome& outcome);
v1::RoutedExpert ToProto(const RoutedExpert& expert);
v1::TransferDone ToProto(const EndedTransfer& transfer);
v1::Victim ToProto(const Victim& victim);
v1::LeasesLost ToProto(const LostLeases& lost);

// Writes into an empty reply.
void FillLanded(const LandedTransfers& landed, v1::LandedReply& reply);

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_RESIDENCY_MESSAGES_H_
