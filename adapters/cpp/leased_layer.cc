#include "adapters/cpp/leased_layer.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <utility>

#include "kernels/expert_ffn.h"

namespace moetier {
namespace {

constexpr std::chrono::seconds kWait{10};  // for one group's reads
// An expert may be evicted between its landing and its lease; others lease slots too.
constexpr int kTries = 1000;
constexpr std::chrono::milliseconds kPause{1};

std::vector<uint64_t> LeasesOf(std::span<const v1::SlotLease> slots) {
  std::vector<uint64_t> leases;
  for (const v1::SlotLease& slot : slots) leases.push_back(slot.lease());
  return leases;
}

}  // namespace

Result<std::vector<float>> LeasedLayer::Run(const v1::LayerGeometry& layer,
                                            std::span<const float> hidden,
                                            std::span<const uint32_t> experts,
                                            std::span<const float> weights) {
  ASSIGN_OR_RETURN(const RecordLayer records, ReadRecordLayer(session_.grant().model(), layer));
  row_.Resize(1, records.shape.hidden);
  row_.PutRow(0, hidden);
  ASSIGN_OR_RETURN(const v1::RouteReply routed, session_.Route(layer.layer(), experts));
  std::vector<uint32_t> absent;
  for (const v1::RoutedExpert& expert : routed.experts()) {
    if (expert.residence() == v1::RESIDENCE_ABSENT) absent.push_back(expert.expert());
  }
  const size_t group = GroupSize(layer);
  // All at once when they may be leased at once: the first computes while the others are read.
  if (experts.size() <= group) RETURN_IF_ERROR(FillAbsent(layer.layer(), absent));
  std::vector<std::vector<float>> outputs(experts.size());
  for (size_t first = 0; first < experts.size(); first += group) {
    const size_t count = std::min(group, experts.size() - first);
    RETURN_IF_ERROR(RunGroup(layer.layer(), records, experts.subspan(first, count),
                             std::span(outputs).subspan(first, count)));
  }
  std::vector<float> sum(hidden.size(), 0.0f);
  for (size_t pick = 0; pick < experts.size(); ++pick) {
    kernels::AddWeighted(sum, weights[pick], outputs[pick]);
  }
  kernels::CanonicaliseNan(sum);
  return sum;
}

size_t LeasedLayer::GroupSize(const v1::LayerGeometry& layer) const {
  const v1::Grant& grant = session_.grant();
  const uint64_t slot = grant.model().geometry().slot_bytes(static_cast<int>(layer.size_class()));
  // While an expert is read, its transfer and the lease that waits for it both count.
  return std::max<uint64_t>(1, grant.limits().max_leased_bytes() / std::max<uint64_t>(1, 2 * slot));
}

Status LeasedLayer::RunGroup(uint32_t layer, const RecordLayer& records,
                             std::span<const uint32_t> experts,
                             std::span<std::vector<float>> outputs) {
  ASSIGN_OR_RETURN(const std::vector<v1::SlotLease> slots, Lease(layer, experts));
  ++counts_.groups;
  for (size_t i = 0; i < slots.size(); ++i) {
    RETURN_IF_ERROR(RunExpert(records, slots[i], outputs[i]));
  }
  return session_.Release(LeasesOf(slots));
}

// All or none: what was leased without the others is given back before the next try.
Result<std::vector<v1::SlotLease>> LeasedLayer::Lease(uint32_t layer,
                                                      std::span<const uint32_t> experts) {
  std::string why;
  for (int i = 0; i < kTries; ++i) {
    ASSIGN_OR_RETURN(const v1::AcquireReply reply, session_.Acquire(layer, experts, kWait));
    std::vector<v1::SlotLease> slots;
    std::vector<uint32_t> missing;
    for (size_t key = 0; key < experts.size(); ++key) {
      const v1::AcquiredSlot& slot = reply.slots(static_cast<int>(key));
      if (slot.has_lease()) {
        slots.push_back(slot.lease());
        continue;
      }
      missing.push_back(experts[key]);
      why = v1::NotAcquired::Why_Name(slot.refused().why());
    }
    if (missing.empty()) return slots;
    RETURN_IF_ERROR(session_.Release(LeasesOf(slots)));
    if (i > 0) std::this_thread::sleep_for(kPause);
    RETURN_IF_ERROR(FillAbsent(layer, missing));
  }
  return Error{ErrorCode::kExhausted, Reason::kNoRoom,
               fmt::format("layer {}: {} experts could not be leased in {} tries: {}", layer,
                           experts.size(), kTries, why)};
}

Status LeasedLayer::FillAbsent(uint32_t layer, std::span<const uint32_t> experts) {
  if (experts.empty()) return Ok{};
  ASSIGN_OR_RETURN(const v1::TransferReply reply, session_.Fill(layer, experts));
  for (int i = 0; i < reply.transfers_size(); ++i) {
    const v1::TransferState& state = reply.transfers(i);
    counts_.filled += state.outcome_case() == v1::TransferState::kTransfer ? 1 : 0;
    // Room comes back as others release theirs.
    if (!state.has_fault() || state.fault().reason() == v1::REASON_NO_ROOM) continue;
    return Error{ErrorCode::kFailedPrecondition, static_cast<Reason>(state.fault().reason()),
                 fmt::format("Fill: layer {} expert {}: {}", layer, experts[static_cast<size_t>(i)],
                             state.fault().message())};
  }
  return Ok{};
}

Status LeasedLayer::RunExpert(const RecordLayer& records, const v1::SlotLease& lease,
                              std::vector<float>& output) {
  ASSIGN_OR_RETURN(const std::span<const std::byte> record, session_.Record(lease));
  if (record.size() < records.layout.bytes) {
    return Error{
        ErrorCode::kInternal, Reason::kUnspecified,
        fmt::format("a lease of {} bytes for a record of {}", record.size(), records.layout.bytes)};
  }
  const kernels::ExpertView expert{
      .shape = &records.shape, .layout = &records.layout, .record = record.data()};
  output.resize(records.shape.hidden);
  h_.Resize(1, records.shape.ffn);
  const std::array<kernels::ActivationRow, 1> token = {row_.row(0)};
  for (uint32_t unit = 0; unit < kernels::GateUpUnits(records.shape); ++unit) {
    kernels::RunGateUpUnit(kernels_, expert, token, unit, h_, 0);
  }
  const std::array<kernels::ActivationRow, 1> h = {h_.row(0)};
  const std::array<float*, 1> y = {output.data()};
  for (uint32_t unit = 0; unit < kernels::DownUnits(records.shape); ++unit) {
    kernels::RunDownUnit(kernels_, expert, h, unit, y);
  }
  ++counts_.computed;
  return Ok{};
}

}  // namespace moetier
