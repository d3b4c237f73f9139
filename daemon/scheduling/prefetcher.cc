#include "daemon/scheduling/prefetcher.h"

#include <algorithm>
#include <array>
#include <utility>

namespace moetier {
namespace {

// The layer with experts that is `ahead` places behind `layer`.
std::optional<LayerIndex> LayerAhead(const ModelGeometry& geometry, LayerIndex layer,
                                     uint32_t ahead) {
  const auto found = std::ranges::lower_bound(geometry.layers, layer, {}, &LayerGeometry::layer);
  const auto left = static_cast<size_t>(geometry.layers.end() - found);
  if (left <= ahead) return std::nullopt;
  return (found + ahead)->layer;
}

// RAM and VRAM hold no fewer experts than there are. Some may be in both.
bool MayAllBeResident(const LoadedModel& model) {
  uint64_t resident = 0;
  for (const auto& ledger : model.ledgers) resident += ledger->counts().resident;
  for (size_t i = 0; model.vram != nullptr && i < model.vram->class_count(); ++i) {
    resident += model.vram->ledger(SizeClass{static_cast<uint8_t>(i)}).counts().resident;
  }
  return resident >= model.geometry->TotalExperts();
}

// Every expert of the layer is in RAM or in VRAM.
bool HasAllOf(const LoadedModel& model, LayerIndex layer) {
  const LayerGeometry& geometry = *model.geometry->Find(layer);
  const ResidencyLedger& ram = *model.ledgers[Raw(geometry.size_class)];
  for (uint16_t expert = 0; expert < geometry.experts; ++expert) {
    const ExpertKey key{model.id, layer, ExpertIndex{expert}};
    if (ram.StateOf(key) == SlotState::kResident) continue;
    if (model.vram == nullptr || !model.vram->IsResident(geometry.size_class, key)) return false;
  }
  return true;
}

// What is wanted of the layer may be absent: guessing is worth while. Looks at the single experts
// only where hardly any can be.
bool MayLack(const LoadedModel& model, LayerIndex layer) {
  return !MayAllBeResident(model) || !HasAllOf(model, layer);
}

}  // namespace

Prefetcher::Prefetcher(const PrefetchOptions& options,
                       std::function<bool(const ExpertKey&)> is_resident,
                       std::function<void(LayerGuesses)> deliver)
    : options_(options), book_(std::move(is_resident)) {
  if (options.enabled && options.router)
    thread_ = std::make_unique<GuessThread>(std::move(deliver));
}

void Prefetcher::CallBegins(const LoadedModel& model, const LayerCall& call,
                            std::vector<ExpertKey>& dropped, std::vector<ExpertKey>& came) {
  if (!options_.enabled) return;
  const uint64_t stamp =
      book_.Begin(call.session, model.id, call.layer, call.experts, dropped, came);
  if (options_.hints) TakeHints(model, call.session, stamp, call.hints);
  if (call.rows > GuessThread::kMostRows) return;
  if (thread_ && model.router) AskRouter(model, call, stamp);
  if (options_.history && !model.router) AskHistory(model, call, stamp);
}

void Prefetcher::AskRouter(const LoadedModel& model, const LayerCall& call, uint64_t stamp) {
  std::array<LayerIndex, GuessThread::kMostTargets> targets{};
  uint32_t count = 0;
  for (uint32_t ahead = 1; ahead <= options_.depth; ++ahead) {
    const auto target = LayerAhead(*model.geometry, call.layer, ahead);
    if (target && model.router->Knows(*target) && MayLack(model, *target)) {
      targets[count++] = *target;
    }
  }
  if (count == 0) return;
  thread_->Ask({.router = model.router,
                .model = model.id,
                .session = call.session,
                .stamp = stamp,
                .targets = std::span(targets).first(count),
                .guesses = GuessesFor(model),
                .rows = call.hidden});
}

void Prefetcher::AskHistory(const LoadedModel& model, const LayerCall& call, uint64_t stamp) {
  PickHistory* const history = HistoryOf(model);
  if (history == nullptr || call.rows != 1) return;
  LastCall& last = last_calls_[call.session];
  if (last.model == model.id && LayerAhead(*model.geometry, last.layer, 1) == call.layer) {
    history->Learn(last.layer, last.experts, call.experts);
  }
  last = {.model = model.id, .layer = call.layer, .experts = call.experts};
  const auto next = LayerAhead(*model.geometry, call.layer, 1);
  if (!next || !MayLack(model, *next)) return;
  history->Guess(call.layer, call.experts, GuessesFor(model), followers_);
  keys_.clear();
  for (const ExpertIndex expert : followers_) keys_.push_back({model.id, *next, expert});
  book_.Add(GuessSource::kHistory, call.session, stamp, keys_, Room(model));
}

PickHistory* Prefetcher::HistoryOf(const LoadedModel& model) {
  const auto found = histories_.find(model.id);
  if (found != histories_.end()) return found->second.get();
  return histories_.emplace(model.id, PickHistory::Create(*model.geometry)).first->second.get();
}

void Prefetcher::Take(const LoadedModel& model, const LayerGuesses& guesses) {
  if (!book_.Knows(guesses.session)) return;  // it has ended meanwhile
  book_.Add(GuessSource::kRouter, guesses.session, guesses.stamp, guesses.experts, Room(model));
}

uint32_t Prefetcher::Hint(const LoadedModel& model, SessionId session,
                          std::span<const ExpertKey> experts) {
  if (!options_.enabled || !options_.hints) return 0;
  return TakeHints(model, session, book_.last_stamp(), experts);
}

// Hints may name several layers; those of one stand together.
uint32_t Prefetcher::TakeHints(const LoadedModel& model, SessionId session, uint64_t stamp,
                               std::span<const ExpertKey> hints) {
  uint32_t taken = 0;
  while (!hints.empty()) {
    size_t count = 1;
    while (count < hints.size() && hints[count].layer == hints[0].layer) ++count;
    keys_.assign(hints.begin(), hints.begin() + static_cast<std::ptrdiff_t>(count));
    for (ExpertKey& key : keys_) key.model = model.id;
    taken += book_.Add(GuessSource::kHint, session, stamp, keys_, Room(model));
    hints = hints.subspan(count);
  }
  return taken;
}

// What is expected at one time takes at most half of a model's slots.
uint32_t Prefetcher::Room(const LoadedModel& model) const {
  uint32_t slots = 0;
  for (const auto& ledger : model.ledgers) slots += ledger->slot_count();
  const uint32_t expected = book_.expected(model.id);
  return slots / 2 - std::min(slots / 2, expected);
}

uint32_t Prefetcher::GuessesFor(const LoadedModel& model) const {
  return options_.guesses != 0 ? options_.guesses : model.geometry->top_k;
}

void Prefetcher::EndSession(SessionId session, std::vector<ExpertKey>& dropped) {
  last_calls_.erase(session);
  book_.EndSession(session, dropped);
}

void Prefetcher::ForgetModel(ModelId model) {
  histories_.erase(model);
  book_.ForgetModel(model);
}

}  // namespace moetier
