#include "daemon/scheduling/guess_book.h"

#include <catch2/catch.hpp>
#include <set>

namespace moetier {
namespace {

constexpr ModelId kModel{1};
constexpr SessionId kFirst{7};
constexpr SessionId kSecond{8};

ExpertKey Key(uint16_t layer, uint16_t expert) {
  return {kModel, LayerIndex{layer}, ExpertIndex{expert}};
}

// A book with what is resident, what it dropped, and what came of what was guessed.
struct Script {
  uint64_t Begin(SessionId session, uint16_t layer, const std::vector<uint16_t>& experts) {
    dropped.clear();
    came.clear();
    return book.Begin(session, kModel, LayerIndex{layer}, experts, dropped, came);
  }
  std::vector<ExpertKey> End(const std::vector<ExpertKey>& taken) const {
    std::vector<ExpertKey> given_up;
    book.End(taken, given_up);
    return given_up;
  }
  uint32_t Add(SessionId session, uint64_t stamp, uint16_t layer,
               const std::vector<uint16_t>& experts, GuessSource source = GuessSource::kRouter,
               uint32_t room = 100) {
    std::vector<ExpertKey> keys;
    for (const uint16_t expert : experts) keys.push_back(Key(layer, expert));
    return book.Add(source, session, stamp, keys, room);
  }
  std::vector<ExpertKey> Wanted() {
    std::vector<ExpertKey> keys;
    while (const auto key = book.TakeWanted()) keys.push_back(*key);
    return keys;
  }
  [[nodiscard]] const SourceCounts& counts(GuessSource source = GuessSource::kRouter) const {
    return book.counts(source);
  }

  std::set<ExpertKey> resident;
  std::vector<ExpertKey> dropped;
  std::vector<ExpertKey> came;
  GuessBook book{[this](const ExpertKey& key) { return resident.contains(key); }};
};

using Keys = std::vector<ExpertKey>;

}  // namespace

TEST_CASE("GuessBook: what is guessed and absent is wanted once, in the order of the guesses",
          "[scheduling]") {
  Script script;
  script.resident = {Key(1, 5)};
  const uint64_t stamp = script.Begin(kFirst, 0, {1, 2});
  CHECK(script.Add(kFirst, stamp, 1, {9, 5, 3}) == 3);
  CHECK(script.Wanted() == Keys{Key(1, 9), Key(1, 3)});
  CHECK(script.book.TakeFound() == Key(1, 5));
  CHECK(script.Add(kFirst, stamp, 1, {9}, GuessSource::kHint) == 1);
  CHECK(script.Wanted().empty());
}

TEST_CASE(
    "GuessBook: what came as guessed is given up at the call's end, unless it is expected again",
    "[scheduling]") {
  Script script;
  script.Add(kFirst, script.Begin(kFirst, 0, {1}), 1, {4, 5, 6});
  script.Add(kSecond, script.Begin(kSecond, 0, {1}), 1, {6});
  script.Begin(kFirst, 1, {4, 5, 6});
  const Keys came = script.came;
  CHECK(came == Keys{Key(1, 4), Key(1, 5)});
  script.Add(kSecond, script.Begin(kSecond, 0, {1}), 1, {5});
  CHECK(script.End(came) == Keys{Key(1, 4)});
}

TEST_CASE("GuessBook: when the call begins, wrong guesses are dropped and right ones are not",
          "[scheduling]") {
  Script script;
  script.Add(kFirst, script.Begin(kFirst, 0, {1}), 1, {4, 5, 6});
  script.Begin(kFirst, 1, {5, 9});
  CHECK(script.dropped == Keys{Key(1, 4), Key(1, 6)});
  CHECK(script.book.expected(kModel) == 0);
  CHECK(script.Wanted().empty());  // nobody expects them any more
}

TEST_CASE("GuessBook: what another session expects too is not dropped", "[scheduling]") {
  Script script;
  script.Add(kFirst, script.Begin(kFirst, 0, {1}), 1, {4, 5});
  script.Add(kSecond, script.Begin(kSecond, 0, {1}), 1, {4});
  script.Begin(kFirst, 1, {9});
  CHECK(script.dropped == Keys{Key(1, 5)});
  script.Begin(kSecond, 1, {9});
  CHECK(script.dropped == Keys{Key(1, 4)});
}

TEST_CASE("GuessBook: guesses that come after their call has begun are not taken", "[scheduling]") {
  Script script;
  const uint64_t stamp = script.Begin(kFirst, 0, {1});
  script.Begin(kFirst, 1, {4});
  CHECK(script.Add(kFirst, stamp, 1, {4, 5}) == 0);
  CHECK(script.Wanted().empty());
  CHECK(script.counts().stale == 1);
  CHECK(script.Add(kFirst, script.book.last_stamp(), 1, {4, 5}) == 2);  // of the next token
}

TEST_CASE("GuessBook: recall, precision and in-time share are counted per source", "[scheduling]") {
  Script script;
  script.resident = {Key(1, 1)};
  const uint64_t stamp = script.Begin(kFirst, 0, {1});
  script.Add(kFirst, stamp, 1, {1, 2, 3, 4});
  script.Add(kFirst, stamp, 1, {3, 8}, GuessSource::kHint);
  script.resident.insert(Key(1, 2));  // landed; 3 has not
  script.Begin(kFirst, 1, {1, 2, 3, 7, 7});
  const SourceCounts& router = script.counts();
  CHECK(router.calls == 1);
  CHECK(router.picks == 4);
  CHECK(router.guesses == 4);
  CHECK(router.right == 3);
  CHECK(router.absent == 2);
  CHECK(router.in_time == 1);
  const SourceCounts& hint = script.counts(GuessSource::kHint);
  CHECK(hint.guesses == 2);
  CHECK(hint.right == 1);
  CHECK(hint.in_time == 0);
  CHECK(script.counts(GuessSource::kHistory).calls == 0);
}

TEST_CASE("GuessBook: no more is taken than there is room for", "[scheduling]") {
  Script script;
  const uint64_t stamp = script.Begin(kFirst, 0, {1});
  CHECK(script.Add(kFirst, stamp, 1, {1, 2, 3}, GuessSource::kRouter, 2) == 2);
  CHECK(script.Add(kFirst, stamp, 1, {1, 4}, GuessSource::kHint, 0) == 1);  // 1 is expected already
  CHECK(script.book.expected(kModel) == 2);
  std::vector<uint16_t> many(100);
  for (uint16_t i = 0; i < 100; ++i) many[i] = i;
  CHECK(script.Add(kFirst, stamp, 2, many) == GuessBook::kMostGuesses);
}

TEST_CASE("GuessBook: the end of a session drops what it alone expected", "[scheduling]") {
  Script script;
  script.Add(kFirst, script.Begin(kFirst, 0, {1}), 1, {4, 5});
  script.Add(kSecond, script.Begin(kSecond, 0, {1}), 1, {4});
  script.dropped.clear();
  script.book.EndSession(kFirst, script.dropped);
  CHECK(script.dropped == Keys{Key(1, 5)});
  CHECK(script.Wanted() == Keys{Key(1, 4)});
}

TEST_CASE("GuessBook: a session is known from its first call or hint to its end", "[scheduling]") {
  Script script;
  CHECK_FALSE(script.book.Knows(kFirst));
  script.Add(kSecond, 0, 1, {4}, GuessSource::kHint);
  CHECK(script.book.Knows(kSecond));
  CHECK_FALSE(script.book.Knows(kFirst));
  script.Begin(kFirst, 0, {1});
  CHECK(script.book.Knows(kFirst));
  script.book.EndSession(kFirst, script.dropped);
  CHECK_FALSE(script.book.Knows(kFirst));
}

TEST_CASE("GuessBook: a guess whose call never comes is given up", "[scheduling]") {
  Script script;
  script.Add(kSecond, 0, 1, {4}, GuessSource::kHint);
  uint64_t calls = 0;
  while (script.dropped.empty() && calls < 2 * GuessBook::kLongestWait) {
    script.Begin(kFirst, 0, {1});
    ++calls;
  }
  CHECK(script.dropped == Keys{Key(1, 4)});
  CHECK(calls >= GuessBook::kLongestWait);
  CHECK(script.book.expected(kModel) == 0);
}

TEST_CASE("GuessBook: a session that ended before its last hint came is forgotten in time",
          "[scheduling]") {
  Script script;
  script.book.EndSession(kSecond, script.dropped);
  script.Add(kSecond, 0, 1, {4}, GuessSource::kHint);
  CHECK(script.book.Knows(kSecond));
  for (uint64_t call = 0; call < 2 * GuessBook::kLongestWait; ++call) script.Begin(kFirst, 0, {1});
  CHECK_FALSE(script.book.Knows(kSecond));
  CHECK(script.book.Knows(kFirst));
}

TEST_CASE("GuessBook: what was found there and is expected no more is not told", "[scheduling]") {
  Script script;
  script.resident = {Key(1, 4)};
  script.Add(kFirst, script.Begin(kFirst, 0, {1}), 1, {4});
  script.book.EndSession(kFirst, script.dropped);
  CHECK(script.dropped == Keys{Key(1, 4)});
  CHECK_FALSE(script.book.TakeFound().has_value());
}

TEST_CASE("GuessBook: nothing of a model that is forgotten is wanted", "[scheduling]") {
  Script script;
  script.Add(kFirst, script.Begin(kFirst, 0, {1}), 1, {4});
  script.book.ForgetModel(kModel);
  CHECK(script.Wanted().empty());
  CHECK(script.book.expected(kModel) == 0);
  script.Begin(kFirst, 1, {9});
  CHECK(script.dropped.empty());
}

}  // namespace moetier
