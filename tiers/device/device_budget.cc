#include "tiers/device/device_budget.h"

#include "base/check.h"
#include "base/text_size.h"

namespace moetier {

DeviceBudget::~DeviceBudget() {
  MutexLock lock(mu_);
  MOE_CHECK(taken_ == Bytes(), "{} of {} are still in arenas", FormatSize(taken_), device_);
}

Status DeviceBudget::CheckUsable(std::string_view what) const {
  if (!queues_.lost()) return Ok{};
  return Error{ErrorCode::kUnavailable, Reason::kIo,
               fmt::format("{}: device {} is lost", what, device_)};
}

Status DeviceBudget::Take(Bytes bytes, std::string_view what) {
  RETURN_IF_ERROR(CheckUsable(what));
  MutexLock lock(mu_);
  if (bytes > bytes_ - taken_) {
    return Error{ErrorCode::kExhausted, Reason::kNoRoom,
                 fmt::format("{}: {} do not fit in device {}, which has {} left of {}; lower it "
                             "or raise devices[].budget",
                             what, FormatSize(bytes), device_, FormatSize(bytes_ - taken_),
                             FormatSize(bytes_))};
  }
  taken_ += bytes;
  return Ok{};
}

void DeviceBudget::GiveBack(Bytes bytes) {
  MutexLock lock(mu_);
  taken_ -= bytes;
}

Bytes DeviceBudget::free() const {
  MutexLock lock(mu_);
  return bytes_ - taken_;
}

}  // namespace moetier
