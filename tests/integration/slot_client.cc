// An engine in a process of its own that maps slots of a GPU: leases experts in RAM and on the
// device, maps both and compares their bytes. Refusals are its error, with their reason. usage:
// slot_client SOCKET [--hold]: with --hold it says "held" with one slot mapped, and waits to be
// killed.

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "adapters/cpp/mapped_slot.h"
#include "adapters/cpp/residency_session.h"

namespace moetier {
namespace {

constexpr std::chrono::microseconds kWait{20'000'000};
constexpr int kMostTries = 100;
constexpr uint32_t kExpertsALayer = 8;  // of those that the model has

// Another engine may have taken it elsewhere between the transfer and the lease: then again.
Result<v1::SlotLease> Lease(ResidencySession& session, uint32_t layer, uint32_t expert,
                            v1::PoolKind where) {
  const std::vector<uint32_t> experts = {expert};
  v1::NotAcquired::Why why{};
  for (int i = 0; i < kMostTries; ++i) {
    ASSIGN_OR_RETURN(const v1::TransferReply coming, where == v1::POOL_KIND_RAM
                                                         ? session.Fill(layer, experts)
                                                         : session.Push(layer, experts));
    if (coming.transfers(0).has_fault()) {
      return Error{ErrorCode::kFailedPrecondition, Reason::kUnspecified,
                   coming.transfers(0).fault().message()};
    }
    ASSIGN_OR_RETURN(const v1::AcquireReply reply, session.Acquire(layer, experts, kWait, where));
    if (reply.slots(0).has_lease()) return reply.slots(0).lease();
    why = reply.slots(0).refused().why();
  }
  return Error{ErrorCode::kFailedPrecondition, Reason::kUnspecified,
               fmt::format("expert {} of layer {} is not leased in {}: {}", expert, layer,
                           v1::PoolKind_Name(where), v1::NotAcquired::Why_Name(why))};
}

// Gives the bytes that were compared.
Result<size_t> CompareOne(ResidencySession& session, uint32_t layer, uint32_t expert, bool hold) {
  // First in RAM, whose lease keeps the record there while it is on the device too.
  ASSIGN_OR_RETURN(const v1::SlotLease ram, Lease(session, layer, expert, v1::POOL_KIND_RAM));
  ASSIGN_OR_RETURN(const auto record, session.Record(ram));
  ASSIGN_OR_RETURN(const v1::SlotLease vram, Lease(session, layer, expert, v1::POOL_KIND_VRAM));
  {
    ASSIGN_OR_RETURN(const MappedSlot slot, MappedSlot::Map(session.Shown(), vram.lease()));
    if (!std::ranges::equal(record, slot.record())) {
      return Error{
          ErrorCode::kInternal, Reason::kChecksum,
          fmt::format("expert {} of layer {}: other bytes in the slot than in RAM", expert, layer)};
    }
    if (hold) {
      fmt::print("held\n");
      std::fflush(stdout);
      pause();
    }
  }
  RETURN_IF_ERROR(session.Release({ram.lease(), vram.lease()}));
  // The lease has ended, and its number with it.
  const Result<MappedSlot> again = MappedSlot::Map(session.Shown(), vram.lease());
  if (again || again.error().reason != Reason::kUnknownLease) {
    return Error{ErrorCode::kInternal, Reason::kUnspecified,
                 again ? "a slot is mapped without a lease" : again.error().message};
  }
  return record.size();
}

Status Run(const char* socket, bool hold) {
  ASSIGN_OR_RETURN(const auto session,
                   ResidencySession::Attach({.socket = socket, .model = {}, .client = "slots"}));
  size_t slots = 0;
  size_t bytes = 0;
  for (const v1::LayerGeometry& layer : session->grant().model().geometry().layers()) {
    for (uint32_t expert = 0; expert < std::min(layer.experts(), kExpertsALayer); ++expert) {
      ASSIGN_OR_RETURN(const size_t compared, CompareOne(*session, layer.layer(), expert, hold));
      ++slots;
      bytes += compared;
    }
  }
  fmt::print("{} slots mapped: their {} bytes are those in RAM\n", slots, bytes);
  return Ok{};
}

}  // namespace
}  // namespace moetier

int main(int argc, char** argv) {
  const bool hold = argc == 3 && std::string_view(argv[2]) == "--hold";
  if (argc != 2 && !hold) {
    fmt::print(stderr, "usage: slot_client SOCKET [--hold]\n");
    return 2;
  }
  const moetier::Status status = moetier::Run(argv[1], hold);
  if (status) return 0;
  fmt::print(stderr, "slot_client: {}: {}: {}\n", moetier::ErrorCodeName(status.error().code),
             moetier::ReasonName(status.error().reason), status.error().message);
  return 1;
}
