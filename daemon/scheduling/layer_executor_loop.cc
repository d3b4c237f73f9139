// LayerExecutor's loop: what one turn does, and in which order.

#include <utility>

#include "daemon/scheduling/layer_executor.h"

namespace moetier {
namespace {

Error ShuttingDown() {
  return {ErrorCode::kUnavailable, Reason::kDraining, "the daemon is shutting down"};
}

}  // namespace

void LayerExecutor::Loop() {
  while (true) {
    if (Turn()) continue;
    if (stopping_.load() && accepted_.load() == 0 && Quiet()) break;
    Rest();
  }
  MutexLock lock(lifecycle_mu_);  // whoever sent a message before this is still served
  running_ = false;
  ended_.notify_all();
  TakeMessages();
  desk_.EndCalls(std::nullopt, ShuttingDown());  // those that came since the last turn
  RemoveIdleModels();
}

bool LayerExecutor::Turn() {
  desk_.TellVictims();
  TakeMessages();
  PollSource();
  if (stopping_.load()) desk_.EndCalls(std::nullopt, ShuttingDown());
  desk_.Settle();
  if (IsTimeUp()) Abandon();
  AnswerEarly();
  Admit();
  AdvanceChanged();
  ContinuePreheats();
  SubmitToDevice();
  ReadAhead();
  // What was answered in this turn may have made room for a call that waits.
  if (ComputeSome() || !changed_.empty() || NextCall() != queue_.end()) return true;
  RemoveIdleModels();
  return desk_.HasWork();
}

void LayerExecutor::TakeMessages() {
  mailbox_.Drain(messages_);
  for (Message& message : messages_) {
    if (auto* call = std::get_if<NewCall>(&message)) {
      queue_.push_back(std::move(call->pending));
    } else if (auto* landed = std::get_if<Landed>(&message)) {
      landed_at_ = landed->at;
      OnLanded(std::move(landed->done));
    } else if (const auto* copied = std::get_if<CopyDone>(&message)) {
      OnCopyDone(*copied);
    } else if (const auto* ran = std::get_if<Ran>(&message)) {
      OnRunDone(*ran);
    } else if (const auto* guessed = std::get_if<Guessed>(&message)) {
      OnGuesses(guessed->guesses);
    } else {
      std::get<Control>(message).run();
    }
  }
}

}  // namespace moetier
