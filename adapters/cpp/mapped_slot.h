#ifndef MOETIER_ADAPTERS_CPP_MAPPED_SLOT_H_
#define MOETIER_ADAPTERS_CPP_MAPPED_SLOT_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "moetier/fastlane.h"

namespace moetier {

// A slot that a session has leased on an emulated device, mapped to read. On a GPU the descriptors
// are CUDA's: cuMemImportFromShareableHandle, cuMemMap and cuMemSetAccess stand where mmap does
// here, in the context of `device`. Lifetime: the bytes are the record's until the lease ends:
// destroy this first, then release.
class MappedSlot {
 public:
  // `session` shows the session, as to map an arena. In the daemon's words, with its reason, where
  // it refuses: kPermissionDenied for users that it does not trust, kNotFound for what is no lease
  // on a device, else kFailedPrecondition. kUnimplemented for a GPU's memory.
  static Result<MappedSlot> Map(const moetier_map& session, uint64_t lease);
  ~MappedSlot();
  MappedSlot(MappedSlot&& other) noexcept;
  MappedSlot& operator=(MappedSlot&&) = delete;

  [[nodiscard]] std::span<const std::byte> record() const { return record_; }

 private:
  MappedSlot() = default;
  Status MapGranules(const moetier_device_slot& slot);

  void* memory_ = nullptr;  // addresses for all granules; null: none
  size_t bytes_ = 0;
  std::span<const std::byte> record_;
};

}  // namespace moetier

#endif  // MOETIER_ADAPTERS_CPP_MAPPED_SLOT_H_
