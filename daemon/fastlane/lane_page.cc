#include "daemon/fastlane/lane_page.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/text_size.h"

namespace moetier {
namespace {

constexpr uint64_t kLine = 64;    // bytes of a cache line: sides that write apart do not share one
constexpr uint64_t kPage = 4096;  // slots start on pages of their own

}  // namespace

LaneLayout PlanLane(const LaneShape& shape) {
  // At most 2^16 rows of 2^32 values: far below 2^64.
  const uint64_t picks = AlignUp(uint64_t{shape.max_rows} * shape.max_top_k * 4, kLine);
  const uint64_t values = AlignUp(uint64_t{shape.max_rows} * shape.max_hidden * 4, kLine);
  LaneLayout layout;
  layout.slots_offset = kPage;
  layout.experts_offset = sizeof(moetier_wire_slot);
  layout.weights_offset = layout.experts_offset + picks;
  layout.hidden_offset = layout.weights_offset + picks;
  layout.output_offset = layout.hidden_offset + values;
  layout.slot_bytes = AlignUp(layout.output_offset + values, kPage);
  layout.page_bytes = layout.slots_offset + shape.slots * layout.slot_bytes;
  return layout;
}

Result<LanePage> LanePage::Create(const LaneShape& shape) {
  const int fd = memfd_create("moetier-fastlane", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return ErrnoError(errno, "make a session's page: memfd_create");
  LanePage page(shape, UniqueFd(fd));
  page.layout_ = PlanLane(shape);
  const uint64_t bytes = page.layout_.page_bytes;
  const auto failed = [&](const char* step) {
    Error error = ErrnoError(
        errno, fmt::format("make a session's page of {}: {}", FormatSize(Bytes(bytes)), step));
    error.message += "; lower fastlane.max_rows or fastlane.max_in_flight";
    return error;
  };
  if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) return failed("ftruncate");
  // Sealed before it is sent: a client that could shrink it would kill us by SIGBUS.
  if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return failed("seal");
  }
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return failed("mmap");
  page.memory_ = static_cast<std::byte*>(memory);
  moetier_wire_page& head = page.head();
  head.magic = MOETIER_WIRE_MAGIC;
  head.size = sizeof head;
  head.major = MOETIER_WIRE_MAJOR;
  head.minor = MOETIER_WIRE_MINOR;
  head.daemon_sleeps = 1;  // until the executor has seen the session
  return page;
}

LanePage::LanePage(LanePage&& other) noexcept
    : shape_(other.shape_),
      layout_(other.layout_),
      file_(std::move(other.file_)),
      memory_(std::exchange(other.memory_, nullptr)) {}

LanePage::~LanePage() {
  if (memory_ != nullptr) munmap(memory_, layout_.page_bytes);
}

moetier_wire_page& LanePage::head() const { return *reinterpret_cast<moetier_wire_page*>(memory_); }

moetier_wire_slot& LanePage::slot(uint32_t index) const {
  return *reinterpret_cast<moetier_wire_slot*>(section(index, 0));
}

std::byte* LanePage::section(uint32_t slot, uint64_t offset) const {
  return memory_ + layout_.slots_offset + slot * layout_.slot_bytes + offset;
}

}  // namespace moetier
