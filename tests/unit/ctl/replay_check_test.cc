#include "daemon/ctl/replay_check.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

namespace moetier {
namespace {

// Two tokens, one layer, two columns; the reference of both.
struct Fixture {
  Fixture() : reference(2, 1, 2) {
    rows.tokens = 2;
    rows.layers = 1;
    rows.hidden_size = 2;
    rows.top_k = 1;
    reference.Put(0, 0, std::vector<float>{1, 2});
    reference.Put(1, 0, std::vector<float>{3, 0.0f});
  }
  static v1::LayerReply ReplyOf(const std::vector<float>& values) {
    v1::LayerReply reply;
    reply.mutable_ok()->set_output(values.data(), values.size() * sizeof(float));
    reply.mutable_ok()->set_hits(2);
    reply.mutable_ok()->set_misses(1);
    return reply;
  }
  GoldenRows rows;
  OutputGrid reference;
  static constexpr ReplayCall kBoth{.layer = 0, .first_token = 0, .rows = 2};
};

}  // namespace

TEST_CASE("ReplayCheck: equal bits are good and counted", "[ctl]") {
  const Fixture fixture;
  ReplayCheck check(fixture.rows, fixture.reference);
  check.Take(Fixture::kBoth, 7, Fixture::ReplyOf({1, 2, 3, 0}));
  const ReplayCounts counts = check.counts();
  CHECK(counts.good());
  CHECK(counts.calls == 1);
  CHECK(counts.rows == 2);
  CHECK(counts.hits == 2);
  CHECK(counts.misses == 1);
  CHECK(check.output().Hash() == fixture.reference.Hash());
}

TEST_CASE("field_63: the smallest difference of a replay is found and named", "[ctl]") {
  const Fixture fixture;
  ReplayCheck check(fixture.rows, fixture.reference);
  check.Take(Fixture::kBoth, 7, Fixture::ReplyOf({1, std::nextafter(2.0f, 3.0f), 3, -0.0f}));
  const ReplayCounts counts = check.counts();
  CHECK(!counts.good());
  CHECK(counts.differing_rows == 2);
  CHECK(counts.first_problem ==
        "blk.7, token 0: column 1 is 2.0000002 (40000001), expected 2 (40000000)");
}

TEST_CASE("ReplayCheck: minus zero is not zero", "[ctl]") {
  const Fixture fixture;
  ReplayCheck check(fixture.rows, fixture.reference);
  check.Take({.layer = 0, .first_token = 1, .rows = 1}, 7, Fixture::ReplyOf({3, -0.0f}));
  CHECK(check.counts().differing_rows == 1);
}

TEST_CASE("ReplayCheck: a fault, a short output and masked picks are not good", "[ctl]") {
  const Fixture fixture;
  ReplayCheck fault(fixture.rows, fixture.reference);
  v1::LayerReply reply;
  reply.mutable_fault()->set_message("the drive\033[2J is gone");
  fault.Take(Fixture::kBoth, 7, reply);
  CHECK(!fault.counts().good());
  CHECK(fault.counts().first_problem == "blk.7, tokens 0 to 1: UNSPECIFIED: the drive?[2J is gone");

  ReplayCheck empty(fixture.rows, fixture.reference);
  empty.Take(Fixture::kBoth, 7, v1::LayerReply());
  CHECK(!empty.counts().good());

  ReplayCheck cut(fixture.rows, fixture.reference);
  cut.Take(Fixture::kBoth, 7, Fixture::ReplyOf({1, 2, 3}));
  CHECK(cut.counts().first_problem == "blk.7: 12 bytes of output for 2 rows of 8");

  ReplayCheck masked(fixture.rows, fixture.reference);
  v1::LayerReply with_mask = Fixture::ReplyOf({1, 2, 3, 0});
  with_mask.mutable_ok()->add_masked();
  masked.Take(Fixture::kBoth, 7, with_mask);
  CHECK(!masked.counts().good());
}

}  // namespace moetier
