#include "tests/sim/sim_calls.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

namespace moetier {
namespace {

constexpr uint32_t kPieceRows = LayerBatch::kPieceRows;

}  // namespace

SimCalls::SimCalls(SimMachine& machine, ExecutorAuditor& auditor, Random& random,
                   ExecutorCanary canary, SimTrace& trace, MissRule misses)
    : machine_(machine),
      auditor_(auditor),
      random_(random),
      canary_(canary),
      trace_(trace),
      misses_(misses) {
  const uint32_t sessions = random.Between(1, 4);
  while (sessions_.size() < sessions) sessions_.push_back(SessionId{++last_session_});
  favourite_ = machine.sim_model.geometry().layers.front().layer;
  if (const Status set = machine.executor.SetSource(source_); !set.has_value()) {
    auditor.Report(set.error().message);
  }
}

LayerIndex SimCalls::DrawLayer() {
  const auto& layers = machine_.sim_model.geometry().layers;
  if (random_.Percent(30)) favourite_ = layers[random_.Below(layers.size())].layer;
  return favourite_;
}

uint32_t SimCalls::DrawRows() {
  const uint32_t choice = random_.Below(100);
  if (choice < 60) return random_.Between(1, 2);
  if (choice < 85) return random_.Between(3, 8);
  if (choice < 98) return random_.Between(9, 16);
  return random_.Between(kPieceRows - 2, kPieceRows + 10);
}

std::vector<ExpertKey> SimCalls::DrawExperts(LayerIndex layer, uint32_t most) {
  std::vector<ExpertKey> keys;
  const uint32_t experts = machine_.sim_model.geometry().Find(layer)->experts;
  const uint32_t count = random_.Between(1, std::min(most, experts));
  while (keys.size() < count) {
    // The lesser of two draws: low numbers are hot, as experts are.
    const auto expert =
        static_cast<uint16_t>(std::min(random_.Below(experts), random_.Below(experts)));
    const ExpertKey key{kSimModel, layer, ExpertIndex{expert}};
    if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
  }
  return keys;
}

void SimCalls::DrawPicks(LayerCall& call) {
  for (uint32_t row = 0; row < call.rows; ++row) {
    std::vector<ExpertKey> picks;
    while (picks.size() < call.top_k) {
      picks = DrawExperts(call.layer, 2 * call.top_k);
    }
    for (uint32_t pick = 0; pick < call.top_k; ++pick) {
      call.experts.push_back(Raw(picks[pick].expert));
      call.weights.push_back(static_cast<float>(random_.Between(1, 16)) / 8.0f - 1.0f);
    }
  }
}

LayerCall SimCalls::Draw(std::vector<uint32_t>& rows) {
  LayerCall call;
  call.model = kSimModel;
  call.session = sessions_[random_.Below(sessions_.size())];
  call.layer = DrawLayer();
  call.rows = DrawRows();
  // A quarter of 4 picks or more may be masked.
  call.top_k = misses_ == MissRule::kMask ? random_.Between(3, 8) : random_.Between(1, 4);
  for (uint32_t row = 0; row < call.rows; ++row) {
    rows.push_back(random_.Below(SimModel::kRows));
    const std::span<const float> values = machine_.sim_model.Row(rows.back());
    call.hidden.insert(call.hidden.end(), values.begin(), values.end());
  }
  DrawPicks(call);
  if (machine_.device() != nullptr && random_.Percent(35)) {
    call.forced_lane = random_.Below(kLaneKinds);
  }
  if (random_.Percent(20)) call.hints = DrawExperts(DrawLayer(), 4);
  call.received = machine_.clock.at();
  if (random_.Percent(10)) {
    call.deadline = call.received + std::chrono::microseconds(random_.Below(2000));
  }
  call.control = std::make_shared<CallControl>();
  return call;
}

void SimCalls::Submit() {
  std::vector<uint32_t> rows;
  LayerCall call = Draw(rows);
  std::vector<uint16_t> experts = call.experts;
  std::ranges::sort(experts);
  experts.erase(std::unique(experts.begin(), experts.end()), experts.end());
  const size_t index = calls_.size();
  trace_.Say("call {} of session {}: blk.{}, {} rows, experts {}{}", index, Raw(call.session),
             Raw(call.layer), call.rows, fmt::join(experts, " "),
             call.forced_lane ? fmt::format(", lane {}", *call.forced_lane) : "");
  calls_.push_back({.session = call.session,
                    .layer = call.layer,
                    .rows = call.rows,
                    .top_k = call.top_k,
                    .experts = std::move(experts),
                    .asked = call,
                    .inputs = std::move(rows),
                    .deadline = call.deadline,
                    .control = call.control});
  LayerDone done = [this, index](Result<LayerOutput> result) {
    OnAnswer(index, std::move(result));
  };
  if (random_.Percent(25)) {
    return source_.Put(std::move(call), std::move(done),
                       [this, index](const Error& why) { OnRefused(index, why); });
  }
  const Status taken = machine_.executor.Submit(std::move(call), std::move(done));
  if (!taken.has_value()) OnRefused(index, taken.error());
}

void SimCalls::OnRefused(size_t call, const Error& why) {
  trace_.Say("call {} is refused: {}", call, why.message);
  if (++calls_[call].answers > 1) auditor_.Report(fmt::format("call {} is refused late", call));
  const bool gone = why.reason == Reason::kDraining || why.reason == Reason::kUnknownModel;
  const bool closed = why.reason == Reason::kCancelled && calls_[call].may_be_cancelled;
  if (why.reason == Reason::kQuota || closed || (gone && machine_.stopping)) return;
  auditor_.Report(fmt::format("a call is refused: {}", why.message));
}

void SimCalls::CancelOne() {
  if (calls_.empty()) return;
  Call& call = calls_[calls_.size() - 1 - random_.Below(std::min<size_t>(calls_.size(), 6))];
  call.may_be_cancelled = true;
  call.control->cancelled.store(true);
}

void SimCalls::EndSession() {
  SessionId& session = sessions_[random_.Below(sessions_.size())];
  trace_.Say("session {} ends", Raw(session));
  for (Call& call : calls_) {
    if (call.session == session) call.may_be_cancelled = true;
  }
  source_.Close(session);
  machine_.executor.EndSession(session);
  session = SessionId{++last_session_};
}

void SimCalls::EndAllSessions() {
  for (const SessionId session : sessions_) machine_.executor.EndSession(session);
}

void SimCalls::Hint() {
  const SessionId session = sessions_[random_.Below(sessions_.size())];
  const std::vector<ExpertKey> keys = DrawExperts(DrawLayer(), 5);
  const uint32_t taken = machine_.executor.Hint(session, keys);
  trace_.Say("session {} hints {} experts of blk.{}, {} are taken", Raw(session), keys.size(),
             Raw(keys.front().layer), taken);
}

// What a router makes of a call comes early or late, for a layer after it.
void SimCalls::Guess() {
  LayerGuesses guesses;
  guesses.session = SessionId{random_.Between(1, static_cast<uint32_t>(last_session_))};
  guesses.stamp = random_.Below(calls_.size() + 2);
  guesses.experts = DrawExperts(DrawLayer(), 4);
  trace_.Say("a router guesses {} experts of blk.{} for session {}", guesses.experts.size(),
             Raw(guesses.experts.front().layer), Raw(guesses.session));
  machine_.stepped.Guess(std::move(guesses));
}

void SimCalls::OnAnswer(size_t call, Result<LayerOutput> result) {
  if (canary_ == ExecutorCanary::kAnsweredTwice && random_.Percent(2)) Take(call, result);
  if (canary_ == ExecutorCanary::kAnswersSwapped && result.has_value()) {
    if (!kept_) {
      kept_ = {.call = call, .output = std::move(result).value()};
      return;
    }
    KeptAnswer kept = *std::exchange(kept_, std::nullopt);
    const bool alike = calls_[kept.call].layer == calls_[call].layer &&
                       calls_[kept.call].rows == calls_[call].rows;
    if (alike) std::swap(kept.output.output, result->output);
    Take(kept.call, std::move(kept.output));
  }
  Take(call, result);
}

void SimCalls::Take(size_t index, const Result<LayerOutput>& result) {
  Call& call = calls_[index];
  if (++call.answers > 1) auditor_.Report(fmt::format("call {} is answered twice", index));
  if (result.has_value()) {
    trace_.Say("call {} is answered", index);
    return CheckOutput(index, *result);
  }
  trace_.Say("call {} fails: {}", index, result.error().message);
  if (!IsExplained(call, result.error())) {
    auditor_.Report(fmt::format("call {} fails: {}", index, result.error().message));
  }
}

bool SimCalls::IsExplained(const Call& call, const Error& error) const {
  switch (error.code) {
    case ErrorCode::kCancelled:
      return call.may_be_cancelled;
    case ErrorCode::kDeadlineExceeded:
      return call.deadline && *call.deadline <= machine_.clock.at();
    case ErrorCode::kUnavailable:
      return machine_.stopping;
    default:
      return std::ranges::any_of(call.experts, [&](uint16_t expert) {
        return machine_.drive().Spoilt({kSimModel, call.layer, ExpertIndex{expert}});
      });
  }
}

void SimCalls::CheckOutput(size_t index, const LayerOutput& given) {
  const Call& call = calls_[index];
  LayerOutput output = given;
  Spoil(index, output);
  CheckMasked(index, output.masked);
  LayerCall summed = call.asked;
  std::set<uint16_t> masked;
  for (const MaskedPick& each : output.masked) {
    const size_t pick = size_t{each.row} * call.top_k + each.pick;
    summed.weights[pick] = 0;
    masked.insert(summed.experts[pick]);
  }
  const std::vector<float> expected = machine_.sim_model.Expected(summed, call.inputs);
  const bool same =
      output.output.size() == expected.size() &&
      std::memcmp(output.output.data(), expected.data(), expected.size() * sizeof(float)) == 0;
  if (!same) auditor_.Report(fmt::format("call {} is answered with other bits", index));
  if (call.rows > kPieceRows) return;  // its pieces are counted each
  uint32_t computed = 0;
  for (const LaneCount& lane : output.lanes) computed += lane.experts;
  const uint32_t stood = output.hits + output.in_flight + output.misses;
  if (stood + masked.size() == call.experts.size() && computed == stood) return;
  auditor_.Report(fmt::format(
      "call {} of {} experts: {} hits, {} in flight, {} misses, {} computed, {} masked", index,
      call.experts.size(), output.hits, output.in_flight, output.misses, computed, masked.size()));
}

// At most a quarter of a row's picks, of decodes alone, and each is named once.
void SimCalls::CheckMasked(size_t index, const std::vector<MaskedPick>& masked) {
  const Call& call = calls_[index];
  if (masked.empty()) return;
  trace_.Say("call {} leaves {} picks out", index, masked.size());
  std::vector<uint32_t> by_row(call.rows);
  std::set<std::pair<uint32_t, uint32_t>> named;
  bool right = misses_ == MissRule::kMask && call.rows <= LayerBatch::kDecodeRows;
  for (const MaskedPick& each : masked) {
    right = right && each.row < call.rows && each.pick < call.top_k &&
            named.emplace(each.row, each.pick).second &&
            ++by_row[each.row] <= call.top_k / LayerBatch::kMaskedShare;
  }
  if (right) return;
  auditor_.Report(fmt::format("call {} of {} rows and {} picks each leaves {} picks out", index,
                              call.rows, call.top_k, masked.size()));
}

// The faults of canaries in what is masked.
void SimCalls::Spoil(size_t index, LayerOutput& output) {
  const Call& call = calls_[index];
  if (output.masked.empty()) return;
  if (canary_ == ExecutorCanary::kMaskedPickUnnamed) output.masked.pop_back();
  if (canary_ != ExecutorCanary::kMaskedTooMany) return;
  output.masked.clear();
  LayerCall summed = call.asked;
  for (uint32_t pick = 0; pick <= call.top_k / LayerBatch::kMaskedShare; ++pick) {
    output.masked.push_back({.row = 0, .pick = pick});
    summed.weights[pick] = 0;
  }
  output.output = machine_.sim_model.Expected(summed, call.inputs);
}

void SimCalls::CheckAllAnswered() {
  if (kept_) Take(kept_->call, std::move(std::exchange(kept_, std::nullopt)->output));
  for (size_t i = 0; i < calls_.size(); ++i) {
    if (calls_[i].answers == 0) auditor_.Report(fmt::format("call {} is never answered", i));
  }
}

}  // namespace moetier
