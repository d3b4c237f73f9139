#include "adapters/cpp/mapped_slot.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "base/unique_fd.h"

namespace moetier {
namespace {

constexpr uint64_t kTimeoutUs = 10'000'000;
// gRPC's numbers, as moetier_error has them.
constexpr uint32_t kNotFound = 5;
constexpr uint32_t kPermissionDenied = 7;

Error Refused(const moetier_error& error) {
  ErrorCode code = ErrorCode::kFailedPrecondition;
  if (error.code == kNotFound) code = ErrorCode::kNotFound;
  if (error.code == kPermissionDenied) code = ErrorCode::kPermissionDenied;
  return {code, static_cast<Reason>(error.reason), error.text};
}

// The descriptors of a slot, closed at the end: mappings stay.
struct OpenSlot {
  ~OpenSlot() { moetier_close_slot(&slot); }
  moetier_device_slot slot{};
};

}  // namespace

Result<MappedSlot> MappedSlot::Map(const moetier_map& session, uint64_t lease) {
  OpenSlot open;
  moetier_error error{};
  if (moetier_open_slot(&session, lease, kTimeoutUs, &open.slot, &error) != MOETIER_OK) {
    return Refused(error);
  }
  if (open.slot.memory != MOETIER_MEMORY_HOST) {
    return Error{
        ErrorCode::kUnimplemented, Reason::kNotYet,
        fmt::format("the slot is in the memory of {}, which is mapped by CUDA", open.slot.device)};
  }
  MappedSlot mapped;
  RETURN_IF_ERROR(mapped.MapGranules(open.slot));
  return mapped;
}

Status MappedSlot::MapGranules(const moetier_device_slot& slot) {
  const size_t granule = slot.granule;
  void* const addresses = mmap(nullptr, granule * slot.granules, PROT_NONE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (addresses == MAP_FAILED) return ErrnoError(errno, "addresses for a slot");
  memory_ = addresses;
  bytes_ = granule * slot.granules;
  auto* const begin = static_cast<std::byte*>(addresses);
  for (uint32_t i = 0; i < slot.granules; ++i) {
    struct stat file {};
    if (fstat(slot.files[i], &file) != 0 || static_cast<uint64_t>(file.st_size) < granule) {
      return Error{
          ErrorCode::kInternal, Reason::kUnspecified,
          fmt::format("granule {} of a slot has {} bytes, not {}", i, file.st_size, granule)};
    }
    if (mmap(begin + i * granule, granule, PROT_READ, MAP_SHARED | MAP_FIXED, slot.files[i], 0) ==
        MAP_FAILED) {
      return ErrnoError(errno, "map a granule of a slot");
    }
  }
  record_ = {begin + slot.offset, slot.bytes};
  return Ok{};
}

MappedSlot::MappedSlot(MappedSlot&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)),
      bytes_(other.bytes_),
      record_(std::exchange(other.record_, {})) {}

MappedSlot::~MappedSlot() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

}  // namespace moetier
