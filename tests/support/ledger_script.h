#ifndef MOETIER_TESTS_SUPPORT_LEDGER_SCRIPT_H_
#define MOETIER_TESTS_SUPPORT_LEDGER_SCRIPT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tiers/residency_ledger.h"

namespace moetier {

// Expert `number` of a test model with 32 experts a layer: 40 is expert 8 of blk.1.
ExpertKey TestKey(uint32_t number);
std::vector<ExpertKey> TestKeys(uint32_t count);

// Feeds events to a ledger and keeps what it commands, so that a test reads as a story.
class LedgerScript {
 public:
  struct Options {
    uint32_t slot_count = 1;
    uint32_t place_count = 0;  // 0: slot_count
    Retiring retiring = Retiring::kVictims;
    std::string policy = "lru";
    uint32_t key_count = 64;
    std::vector<ExpertKey> hot_keys = {};
  };
  struct WaveOptions {
    Admission admission = Admission::kHot;
    Tenure tenure = Tenure::kCall;
    std::vector<float> heat = {};
  };

  explicit LedgerScript(const Options& options);

  // Each returns after one step; the queries below speak of it and of all before.
  WaveId Reserve(const std::vector<uint32_t>& keys, const WaveOptions& options);
  WaveId Reserve(const std::vector<uint32_t>& keys) { return Reserve(keys, WaveOptions{}); }
  void Release(WaveId wave);
  void Land(const Ticket& ticket);
  void End(const Ticket& ticket, ReadEnded::Why why);
  void Fail(const Ticket& ticket) { End(ticket, ReadEnded::Why::kFailed); }
  void Lift(uint32_t key);
  void Limit(uint32_t slots);
  void Restore(SlotIndex first, uint32_t count);
  void Guess(uint32_t key, PrefetchRoom room = PrefetchRoom::kEvict);
  void StopGuessing(uint32_t key);
  void Hold(uint32_t key, Tenure tenure = Tenure::kCall);
  void Unhold(uint32_t key, Tenure tenure = Tenure::kCall);
  void Touch(const std::vector<uint32_t>& keys, Admission admission = Admission::kHot);
  void Drop(uint32_t key);
  void Keep(uint32_t key);

  // Reserves the key alone, lands it if it has to be read, and releases it: one use.
  Resolution Use(uint32_t key, Admission admission = Admission::kHot);

  // The newest read of the key; there must have been one.
  [[nodiscard]] Ticket ReadOf(uint32_t key) const;
  [[nodiscard]] size_t reads_started() const { return started_; }
  [[nodiscard]] const CommandList& last_commands() const { return commands_; }
  [[nodiscard]] bool WasCancelled(const Ticket& ticket) const;
  [[nodiscard]] bool WasPromoted(const Ticket& ticket) const;
  // How the wave's key was answered; empty while it was not.
  [[nodiscard]] std::optional<KeyReady> Ready(WaveId wave, uint32_t index) const;
  [[nodiscard]] bool Failed(WaveId wave, uint32_t index) const;
  [[nodiscard]] bool IsResident(uint32_t key) const;
  // In the order of their retirement, restored or not.
  [[nodiscard]] const std::vector<SlotIndex>& retired() const { return retired_; }
  // In the order of their eviction.
  [[nodiscard]] const std::vector<KeyEvicted>& evicted() const { return evicted_; }
  [[nodiscard]] LedgerCounts counts() const { return ledger_->counts(); }
  [[nodiscard]] ResidencyLedger& ledger() { return *ledger_; }

 private:
  void Step(const LedgerEvent& event);

  std::unique_ptr<ResidencyLedger> ledger_;
  CommandList commands_;
  uint64_t last_wave_ = 0;
  size_t started_ = 0;
  std::map<ExpertKey, Ticket> reads_;
  std::vector<Ticket> promoted_;
  std::vector<Ticket> cancelled_;
  std::vector<SlotIndex> retired_;
  std::vector<KeyEvicted> evicted_;
  std::map<std::pair<WaveId, uint32_t>, KeyReady> ready_;
  std::vector<std::pair<WaveId, uint32_t>> failed_;
};

}  // namespace moetier

#endif  // MOETIER_TESTS_SUPPORT_LEDGER_SCRIPT_H_
