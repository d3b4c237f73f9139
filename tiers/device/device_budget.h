#ifndef MOETIER_TIERS_DEVICE_DEVICE_BUDGET_H_
#define MOETIER_TIERS_DEVICE_DEVICE_BUDGET_H_

#include <string>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "base/mutex.h"
#include "base/result.h"
#include "tiers/device/device_queues.h"

namespace moetier {

// What a device's arenas may take of its memory, and have taken.
// Threads:  any.
// Lifetime: the queues, which know of the device's loss, outlive every Take; at its end all that
// was
//           taken has been given back.
class DeviceBudget {
 public:
  // `device` is its name in messages.
  DeviceBudget(std::string device, Bytes bytes, const DeviceQueues& queues)
      : device_(std::move(device)), bytes_(bytes), queues_(queues) {}
  ~DeviceBudget();
  DeviceBudget(const DeviceBudget&) = delete;
  DeviceBudget& operator=(const DeviceBudget&) = delete;

  // kUnavailable when the device is lost.
  [[nodiscard]] Status CheckUsable(std::string_view what) const;
  // kExhausted, kUnavailable as Device::Allocate gives them.
  Status Take(Bytes bytes, std::string_view what) EXCLUDES(mu_);
  void GiveBack(Bytes bytes) EXCLUDES(mu_);
  [[nodiscard]] Bytes free() const EXCLUDES(mu_);

 private:
  const std::string device_;
  const Bytes bytes_;
  const DeviceQueues& queues_;
  mutable Mutex mu_;
  Bytes taken_ GUARDED_BY(mu_);
};

}  // namespace moetier

#endif  // MOETIER_TIERS_DEVICE_DEVICE_BUDGET_H_
