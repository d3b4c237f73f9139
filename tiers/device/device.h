#ifndef MOETIER_TIERS_DEVICE_DEVICE_H_
#define MOETIER_TIERS_DEVICE_DEVICE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/result.h"
#include "kernels/activation_rows.h"
#include "kernels/expert_shape.h"
#include "kernels/layout.h"
#include "tiers/arena_plan.h"
#include "tiers/device/exported_slot.h"
#include "tiers/slot_memory.h"

namespace moetier {

// A place in a device's memory, which only the device can read and write.
enum class DeviceAddress : uint64_t {};

enum class CopyId : uint64_t {};
enum class RunId : uint64_t {};

// How a piece of a device's work ended. kFailed: the destination holds anything.
enum class DeviceOutcome : uint8_t { kDone, kCancelled, kFailed };

// One record from RAM into a slot, or from a slot into RAM. What it reads stays as it is, and what
// it writes is the device's, until its completion.
struct CopyIn {
  std::span<const std::byte> from;
  DeviceAddress to{};
};
struct CopyOut {
  DeviceAddress from{};
  std::span<std::byte> to;
};
using DeviceCopy = std::variant<CopyIn, CopyOut>;

// One expert over the rows that picked it, as LaneTask: y[i] receives the expert's output for
// tokens[i], [hidden] f32 with room for whole units of 32, without the router weight. The record
// lies in a slot of the device, or in RAM that it reads over its link (zero-copy). All that is
// pointed to lives and stays as it is until the run's completion.
struct DeviceTask {
  const kernels::ExpertShape* shape = nullptr;
  const kernels::RecordLayout* layout = nullptr;
  std::variant<DeviceAddress, const std::byte*> record;
  std::span<const kernels::ActivationRow> tokens;
  std::span<float* const> y;
};

// Where the record of a task lies.
enum class RecordPlace : uint8_t { kSlot, kRam };
inline constexpr size_t kRecordPlaces = 2;
inline RecordPlace PlaceOf(const DeviceTask& task) {
  return std::holds_alternative<DeviceAddress>(task.record) ? RecordPlace::kSlot
                                                            : RecordPlace::kRam;
}

struct CopyDone {
  CopyId id{};
  DeviceOutcome outcome = DeviceOutcome::kDone;
};
struct RunDone {
  RunId id{};
  DeviceOutcome outcome = DeviceOutcome::kDone;
  std::chrono::nanoseconds busy{0};  // what the run took on the device, without waiting for others
};

// Called on the device's own threads, several at a time; must not block.
class DeviceListener {
 public:
  virtual ~DeviceListener() = default;
  virtual void OnCopy(const CopyDone& done) = 0;
  virtual void OnRun(const RunDone& done) = 0;
  // The device does not come back, and its memory is gone. Once; all that is unfinished or comes
  // later ends with kFailed, some of it perhaps before this is called.
  virtual void OnDeviceLost(const Error& why) = 0;
};

// What is fixed about a device. Rates are bytes a second.
struct DeviceDescription {
  std::string name;                 // the configuration's
  std::string what;                 // "emulated", or the hardware by name
  Bytes budget;                     // of its memory, for experts
  Bytes granule{kRecordAlignment};  // its memory is taken and given back in whole ones: 2^n bytes
  double memory_rate = 0;
  double link_rate = 0;
  std::chrono::nanoseconds copy_latency{0};
  std::chrono::nanoseconds hand_off{0};  // from Run to the start of a run
};

// The slots of one model in a device's memory: a region a size class, each beginning at a granule,
// with addresses for a slot a record and memory for those of the plan. Memory is given back and
// taken slot by slot while other slots are in use, in granules: one is there as long as it holds a
// byte of a slot with memory (tiers/device/slot_granules.h counts them). Slots of the plan have
// memory at first: those from 0 on in each class.
// Threads:  any may ask; GiveBack and Take are one thread's at a time, beside copies and runs of
//           other slots. Who may use a slot's bytes is the ledger's matter.
// Lifetime: its device outlives it; the destructor gives the memory back, and no copy or run may
//           touch it any more.
class DeviceArena : public SlotMemory {
 public:
  // Slots that have addresses, with or without memory: a slot a record of the class, or those of
  // the plan where there are no more addresses to be had.
  [[nodiscard]] uint32_t Places(SizeClass size_class) const override = 0;
  // The same address for all of the arena's life, whether there is memory behind it or not.
  [[nodiscard]] virtual DeviceAddress Slot(SizeClass size_class, SlotIndex slot) const = 0;
  // Of the slot's first byte, from the arena's start.
  [[nodiscard]] virtual uint64_t Offset(SizeClass size_class, SlotIndex slot) const {
    return Raw(Slot(size_class, slot)) - Raw(Slot(SizeClass{0}, SlotIndex{0}));
  }
  // The slot, which has memory, loses it: nobody has its bytes, every copy and run that touched it
  // has completed, and nobody uses it before it is taken again. Its granules that no other slot
  // needs go back to the device's budget; the others follow with the last slot that needs them.
  // Does not fail, on a lost device neither. May block for as long as the device's driver takes.
  void GiveBack(SizeClass size_class, SlotIndex slot) override = 0;
  // Memory for `count` slots from `first` on, which have none; their bytes are anything. kExhausted
  // with kNoRoom when the device's budget has too little left, with kMemoryLimit when the driver or
  // host refuses; kUnavailable when the device is lost. In each case nothing is taken.
  Status Take(SizeClass size_class, SlotIndex first, uint32_t count) override = 0;
  // The slot's memory, which it has and keeps until this returns: as long as the device's driver
  // takes. kUnimplemented, kTooLarge when it lies in more than `most_granules`, of which none is
  // exported then; kFailedPrecondition, kUnimplemented, with the reason, when the device gives none
  // away; kUnavailable when it is lost.
  [[nodiscard]] virtual Result<ExportedSlot> Export(SizeClass /*size_class*/, SlotIndex /*slot*/,
                                                    uint32_t /*most_granules*/) const {
    return Error{ErrorCode::kUnimplemented, Reason::kNotYet,
                 "the memory of such a device cannot be mapped by others"};
  }
  // What it has of the device's budget at this moment, in whole granules.
  [[nodiscard]] virtual Bytes size() const = 0;
};

// A processor with memory of its own: holds experts in slots, has records copied in and out, and
// computes experts. Every copy and run completes exactly once. It has three queues: copies, runs
// over slots, runs over RAM. Each goes on in its order; between them there is no order, and whoever
// needs one waits for completions.
// Threads:  every method from any thread, the listener's included; Start and Stop from the owner's.
// Lifetime: between Start and Stop it may call the listener; arenas go before it.
class Device {
 public:
  virtual ~Device() = default;

  virtual void Start(DeviceListener& listener) = 0;
  // Ends what is unfinished with kCancelled and returns after the last completion. Idempotent.
  virtual void Stop() = 0;

  [[nodiscard]] virtual const DeviceDescription& description() const = 0;
  // Of the budget, not taken by arenas at this moment.
  [[nodiscard]] virtual Bytes free() const = 0;
  // What stands behind it: itself alone, or the devices that it makes one of.
  [[nodiscard]] virtual std::vector<const Device*> cards() const { return {this}; }
  // Makes ready to compute such experts. kFailedPrecondition, kUnsupportedType where it cannot;
  // kExhausted where it lacks memory for it.
  virtual Status Admit(const kernels::ExpertShape& shape, const kernels::RecordLayout& layout) = 0;
  // Lets runs read this memory of the host, page-aligned, until it is hidden; copies are faster for
  // it. An error: they cannot, with the reason. No copy or run may touch it when it is hidden. Does
  // nothing, and well, on a lost device, which runs nothing: the host's memory comes and goes on.
  // HideHost does nothing about what was not shown.
  virtual Status ShowHost(std::span<std::byte> memory) = 0;
  virtual void HideHost(std::span<std::byte> memory) = 0;
  // Takes DeviceMemory(plan, granule) of the budget. kExhausted when it has no room, kUnavailable
  // when the device is lost. `what` is the budget's name in messages, of the arena's later ones
  // too.
  virtual Result<std::unique_ptr<DeviceArena>> Allocate(const ArenaPlan& plan,
                                                        std::string_view what) = 0;

  // `id` is the caller's, unique among its unfinished copies.
  virtual void Copy(CopyId id, const DeviceCopy& copy) = 0;
  // Asks for an early end; the completion still comes, kDone, kCancelled, or kFailed with the loss.
  virtual void CancelCopy(CopyId id) = 0;
  // At least one task; all of one shape and layout, their records in one kind of place. `id` is the
  // caller's, unique among its unfinished runs.
  virtual void Run(RunId id, std::vector<DeviceTask> tasks) = 0;
};

}  // namespace moetier

#endif  // MOETIER_TIERS_DEVICE_DEVICE_H_
