#ifndef MOETIER_DAEMON_FASTLANE_LANE_PAGE_H_
#define MOETIER_DAEMON_FASTLANE_LANE_PAGE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "moetier/fastlane_wire.h"

namespace moetier {

// What one session may ask for at once.
struct LaneShape {
  uint32_t slots = 0;  // calls in flight
  uint32_t max_rows = 0;
  uint32_t max_top_k = 0;
  uint32_t max_hidden = 0;
};

// Where everything lies in a page of a shape. Offsets of sections count from their slot's start.
struct LaneLayout {
  uint64_t slots_offset = 0;
  uint64_t slot_bytes = 0;
  uint64_t experts_offset = 0;
  uint64_t weights_offset = 0;
  uint64_t hidden_offset = 0;
  uint64_t output_offset = 0;
  uint64_t page_bytes = 0;
};

// Every section at a multiple of 64, every slot at one of 4096.
LaneLayout PlanLane(const LaneShape& shape);

// Memory shared with one client: it can neither shrink nor grow, its contents are the client's to
// change at any moment. Nothing that stands in it is relied on: offsets and counts come from the
// layout, which is private.
// Threads: as plain memory. Lifetime: unmapped by the destructor.
class LanePage {
 public:
  // What the host says, and what to lower. Memory is taken as the page is touched, not here: the
  // caller bounds the sum of all pages.
  static Result<LanePage> Create(const LaneShape& shape);
  ~LanePage();
  LanePage(LanePage&& other) noexcept;
  LanePage& operator=(LanePage&&) = delete;

  [[nodiscard]] int descriptor() const { return file_.get(); }
  // After the client has got it: the mapping keeps the memory.
  void CloseDescriptor() { file_.Reset(); }

  [[nodiscard]] const LaneLayout& layout() const { return layout_; }
  [[nodiscard]] const LaneShape& shape() const { return shape_; }
  [[nodiscard]] moetier_wire_page& head() const;
  [[nodiscard]] moetier_wire_slot& slot(uint32_t index) const;
  // A section of a slot, by its offset in the layout.
  [[nodiscard]] std::byte* section(uint32_t slot, uint64_t offset) const;

 private:
  LanePage(const LaneShape& shape, UniqueFd file) : shape_(shape), file_(std::move(file)) {}

  LaneShape shape_;
  LaneLayout layout_;
  UniqueFd file_;
  std::byte* memory_ = nullptr;
};

}  // namespace moetier

#endif  // MOETIER_DAEMON_FASTLANE_LANE_PAGE_H_
