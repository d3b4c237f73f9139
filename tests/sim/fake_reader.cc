#include "tests/sim/fake_reader.h"

namespace moetier {

FakeReader::FakeReader(const PerClass<uint32_t>& slot_counts) {
  for (size_t i = 0; i < kSimClasses; ++i) memory_[i].resize(slot_counts[i]);
}

FakeReader::Read* FakeReader::Find(SizeClass size_class, const Ticket& ticket) {
  for (Read& read : reads_) {
    if (read.size_class == size_class && read.ticket == ticket) return &read;
  }
  return nullptr;
}

bool FakeReader::Promote(SizeClass size_class, const Ticket& ticket) {
  Read* const read = Find(size_class, ticket);
  if (read == nullptr || read->urgency == Urgency::kDemand) return false;
  read->urgency = Urgency::kDemand;
  return true;
}

bool FakeReader::Cancel(SizeClass size_class, const Ticket& ticket) {
  Read* const read = Find(size_class, ticket);
  if (read == nullptr) return false;
  read->cancelled = true;
  return true;
}

std::optional<FakeReader::Completion> FakeReader::Advance(const Faults& faults, Random& random) {
  if (reads_.empty()) return std::nullopt;
  const size_t index = random.Below(reads_.size());
  const Read read = reads_[index];
  if (random.Percent(faults.retry_percent)) {
    memory_[Raw(read.size_class)][Raw(read.ticket.slot)] = {.key = read.key, .whole = false};
    return std::nullopt;
  }
  reads_.erase(reads_.begin() + static_cast<std::ptrdiff_t>(index));
  Completion completion{.read = read, .event = End(read, faults, random)};
  const auto* ended = std::get_if<ReadEnded>(&completion.event);
  completion.failed = ended != nullptr && ended->why == ReadEnded::Why::kFailed;
  return completion;
}

LedgerEvent FakeReader::End(const Read& read, const Faults& faults, Random& random) {
  Stamp& memory = memory_[Raw(read.size_class)][Raw(read.ticket.slot)];
  const bool obeys_cancel = read.cancelled && !random.Percent(faults.late_percent);
  if (obeys_cancel || random.Percent(faults.spurious_cancel_percent)) {
    // The cancel may come before the first byte or after some.
    if (random.Percent(50)) memory = {.key = read.key, .whole = false};
    return ReadEnded{.ticket = read.ticket, .why = ReadEnded::Why::kCancelled};
  }
  if (random.Percent(faults.fail_percent)) {
    memory = {.key = read.key, .whole = false};
    return ReadEnded{.ticket = read.ticket, .why = ReadEnded::Why::kFailed};
  }
  memory = {.key = read.key, .whole = true};
  return ReadLanded{.ticket = read.ticket};
}

}  // namespace moetier
