#include "tiers/residency_ledger.h"
#include <algorithm>
#include <deque>
#include <list>
#include <map>
#include "base/check.h"
namespace moetier {
struct ResidencyLedger::Impl {
  struct Slot { enum S { kFree, kLoading, kResident, kDraining } s = kFree; ExpertKey key; uint32_t gen = 0; uint64_t seq = 0; uint32_t holds = 0; uint64_t used = 0; std::vector<std::pair<WaveId,uint32_t>> waiters; };
  struct Wave { std::vector<ExpertKey> keys; Admission adm; bool granted = false; };
  Options o; std::vector<Slot> slots; std::map<ExpertKey, uint32_t> where; std::map<uint64_t, Wave> waves; std::deque<WaveId> fifo; std::map<ExpertKey,bool> quarantine; uint64_t tick = 0, seq = 0; LedgerCounts c;
  bool TryGrant(WaveId id, CommandList& out) {
    Wave& w = waves.at(Raw(id));
    uint32_t need = 0; std::vector<char> mine(slots.size());
    for (auto& k : w.keys) { if (quarantine.count(k)) continue; auto f = where.find(k); if (f == where.end()) ++need; else mine[f->second] = 1; }
    std::vector<uint32_t> cand;
    for (uint32_t i = 0; i < slots.size(); ++i) if (slots[i].s == Slot::kFree || (slots[i].s == Slot::kResident && slots[i].holds == 0 && !mine[i])) cand.push_back(i);
    if (cand.size() < need) return false;
    std::sort(cand.begin(), cand.end(), [&](uint32_t a, uint32_t b) { auto fa = slots[a].s != Slot::kFree, fb = slots[b].s != Slot::kFree; return std::pair(fa, slots[a].used) < std::pair(fb, slots[b].used); });
    size_t next = 0; w.granted = true;
    for (uint32_t i = 0; i < w.keys.size(); ++i) {
      auto& k = w.keys[i];
      if (quarantine.count(k)) { out.push_back(KeyFailed{id, i}); continue; }
      auto f = where.find(k);
      if (f != where.end()) {
        Slot& s = slots[f->second]; ++s.holds; s.used = ++tick;
        if (s.s == Slot::kResident) { ++c.hits; out.push_back(KeyReady{id, i, SlotIndex{f->second}, Resolution::kHit}); } else { ++c.in_flight; s.waiters.push_back({id, i}); }
        continue;
      }
      uint32_t v = cand[next++]; Slot& s = slots[v];
      if (s.s == Slot::kResident) { where.erase(s.key); ++c.evictions; }
      s.s = Slot::kLoading; s.key = k; ++s.gen; s.seq = ++seq; s.holds = 1; s.used = w.adm == Admission::kHot ? ++tick : 0; s.waiters = {{id, i}}; where[k] = v; ++c.misses;
      out.push_back(StartRead{{s.seq, SlotIndex{v}, s.gen}, k});
    }
    return true;
  }
  void Pump(CommandList& out) { while (!fifo.empty() && TryGrant(fifo.front(), out)) fifo.pop_front(); }
};
Result<std::unique_ptr<ResidencyLedger>> ResidencyLedger::Create(Options options) {
  std::unique_ptr<ResidencyLedger> l(new ResidencyLedger); l->impl_ = std::make_shared<Impl>(); l->impl_->o = options; l->impl_->slots.resize(options.slot_count); return l;
}
void ResidencyLedger::Step(const LedgerEvent& e, CommandList& out) {
  Impl& m = *impl_;
  if (auto* r = std::get_if<ReserveWave>(&e)) { m.waves[Raw(r->wave)] = {std::vector<ExpertKey>(r->keys.begin(), r->keys.end()), r->admission}; m.fifo.push_back(r->wave); }
  else if (auto* r2 = std::get_if<ReleaseWave>(&e)) {
    auto n = m.waves.extract(Raw(r2->wave));
    if (!n.mapped().granted) std::erase(m.fifo, r2->wave);
    else for (auto& k : n.mapped().keys) { auto f = m.where.find(k); if (f == m.where.end()) continue; auto& s = m.slots[f->second]; if (s.holds) --s.holds; }
  } else if (auto* l = std::get_if<ReadLanded>(&e)) {
    auto& s = m.slots[Raw(l->ticket.slot)]; MOE_CHECK(s.seq == l->ticket.sequence, "stale"); s.s = Impl::Slot::kResident;
    for (auto [w, i] : s.waiters) out.push_back(KeyReady{w, i, l->ticket.slot, Resolution::kMiss});
    s.waiters.clear();
  } else if (auto* x = std::get_if<ReadEnded>(&e)) {
    auto& s = m.slots[Raw(x->ticket.slot)]; m.quarantine[s.key] = true; for (auto [w, i] : s.waiters) out.push_back(KeyFailed{w, i}); m.where.erase(s.key); s.waiters.clear(); s.s = Impl::Slot::kFree; s.holds = 0;
  } else m.quarantine.erase(std::get<LiftQuarantine>(e).key);
  m.Pump(out);
}
LedgerCounts ResidencyLedger::counts() const {
  LedgerCounts c = impl_->c; for (auto& s : impl_->slots) { if (s.s == Impl::Slot::kResident) ++c.resident; else if (s.s == Impl::Slot::kLoading) ++c.loading; else ++c.free; if (s.holds) ++c.reserved; } return c;
}
}
