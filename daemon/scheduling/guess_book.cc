#include "daemon/scheduling/guess_book.h"

#include <algorithm>
#include <iterator>

namespace moetier {
namespace {

constexpr size_t kMostWanted = 1024;  // then the oldest are given up

uint8_t BitOf(size_t source) { return static_cast<uint8_t>(1u << source); }

}  // namespace

uint64_t GuessBook::Begin(SessionId session, ModelId model, LayerIndex layer,
                          std::span<const uint16_t> experts, std::vector<ExpertKey>& dropped,
                          std::vector<ExpertKey>& came) {
  picks_.assign(experts.begin(), experts.end());
  std::sort(picks_.begin(), picks_.end());
  picks_.erase(std::unique(picks_.begin(), picks_.end()), picks_.end());
  Expectation& expectation = expectations_[{session, model, layer}];
  Judge(expectation, picks_);
  // What was right is not dropped yet, so that a read under way is joined.
  std::erase_if(expectation.guesses, [&](const Guess& guess) {
    if (!std::binary_search(picks_.begin(), picks_.end(), Raw(guess.key.expert))) return false;
    if (--expected_by_.at(guess.key) == 0) {
      expected_by_.erase(guess.key);
      came.push_back(guess.key);
    }
    return true;
  });
  Forget(expectation, dropped);
  expectation.begun = ++last_stamp_;
  if (last_stamp_ % (kLongestWait / 4) == 0) GiveUpOld(dropped);
  return last_stamp_;
}

void GuessBook::End(std::span<const ExpertKey> came, std::vector<ExpertKey>& dropped) const {
  for (const ExpertKey& key : came) {
    if (!expected_by_.contains(key)) dropped.push_back(key);
  }
}

// What is left of a session that ended while its last call or hint was on its way goes so too.
void GuessBook::GiveUpOld(std::vector<ExpertKey>& dropped) {
  for (auto it = expectations_.begin(); it != expectations_.end();) {
    Expectation& expectation = it->second;
    if (last_stamp_ - expectation.guessed >= kLongestWait) Forget(expectation, dropped);
    const bool idle =
        expectation.guesses.empty() && last_stamp_ - expectation.begun >= kLongestWait;
    it = idle ? expectations_.erase(it) : std::next(it);
  }
}

bool GuessBook::Knows(SessionId session) const {
  const auto found = expectations_.lower_bound({.session = session, .model = {}, .layer = {}});
  return found != expectations_.end() && found->first.session == session;
}

void GuessBook::Judge(const Expectation& expectation, std::span<const uint16_t> experts) {
  for (size_t source = 0; source < kGuessSources; ++source) {
    SourceCounts& counts = counts_[source];
    const uint64_t before = counts.guesses;
    for (const Guess& guess : expectation.guesses) {
      if ((guess.sources & BitOf(source)) == 0) continue;
      ++counts.guesses;
      if (!std::binary_search(experts.begin(), experts.end(), Raw(guess.key.expert))) continue;
      ++counts.right;
      if (guess.was_there) continue;
      ++counts.absent;
      if (is_resident_(guess.key)) ++counts.in_time;
    }
    if (counts.guesses == before) continue;
    ++counts.calls;
    counts.picks += experts.size();
  }
}

void GuessBook::Forget(Expectation& expectation, std::vector<ExpertKey>& dropped) {
  for (const Guess& guess : expectation.guesses) {
    const auto expected = expected_by_.find(guess.key);
    if (--expected->second > 0) continue;
    expected_by_.erase(expected);
    dropped.push_back(guess.key);
  }
  expectation.guesses.clear();
}

uint32_t GuessBook::Add(GuessSource source, SessionId session, uint64_t stamp,
                        std::span<const ExpertKey> keys, uint32_t room) {
  if (keys.empty()) return 0;
  Expectation& expectation = expectations_[{session, keys.front().model, keys.front().layer}];
  if (expectation.begun > stamp) {
    ++counts_[static_cast<size_t>(source)].stale;
    return 0;
  }
  expectation.guessed = last_stamp_;
  uint32_t taken = 0;
  for (const ExpertKey& key : keys) {
    if (Guess* const known = Find(expectation, key)) {
      known->sources |= BitOf(static_cast<size_t>(source));
      ++taken;
      continue;
    }
    const bool is_new = !expected_by_.contains(key);
    if (expectation.guesses.size() == kMostGuesses || (is_new && room == 0)) break;
    if (is_new) --room;
    ++taken;
    ++expected_by_[key];
    const bool is_there = is_resident_(key);
    expectation.guesses.push_back(
        {.key = key, .sources = BitOf(static_cast<size_t>(source)), .was_there = is_there});
    if (is_there) {
      found_.push_back(key);
    } else if (is_new) {
      wanted_.push_back(key);
    }
  }
  while (wanted_.size() > kMostWanted) wanted_.pop_front();
  return taken;
}

GuessBook::Guess* GuessBook::Find(Expectation& expectation, const ExpertKey& key) {
  const auto found = std::find_if(expectation.guesses.begin(), expectation.guesses.end(),
                                  [&](const Guess& guess) { return guess.key == key; });
  return found == expectation.guesses.end() ? nullptr : &*found;
}

std::optional<ExpertKey> GuessBook::TakeWanted() {
  while (!wanted_.empty()) {
    const ExpertKey key = wanted_.front();
    wanted_.pop_front();
    if (expected_by_.contains(key)) return key;
  }
  return std::nullopt;
}

std::optional<ExpertKey> GuessBook::TakeFound() {
  while (!found_.empty()) {
    const ExpertKey key = found_.back();
    found_.pop_back();
    if (expected_by_.contains(key)) return key;
  }
  return std::nullopt;
}

uint32_t GuessBook::expected(ModelId model) const {
  const auto first = expected_by_.lower_bound({.model = model});
  const auto last = expected_by_.lower_bound({.model = ModelId{Raw(model) + 1}});
  return static_cast<uint32_t>(std::distance(first, last));
}

void GuessBook::EndSession(SessionId session, std::vector<ExpertKey>& dropped) {
  for (auto it = expectations_.lower_bound({.session = session});
       it != expectations_.end() && it->first.session == session; it = expectations_.erase(it)) {
    Forget(it->second, dropped);
  }
}

void GuessBook::ForgetModel(ModelId model) {
  std::erase_if(expectations_, [&](const auto& entry) { return entry.first.model == model; });
  std::erase_if(expected_by_, [&](const auto& entry) { return entry.first.model == model; });
  std::erase_if(wanted_, [&](const ExpertKey& key) { return key.model == model; });
  std::erase_if(found_, [&](const ExpertKey& key) { return key.model == model; });
}

}  // namespace moetier
