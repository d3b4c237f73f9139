#include "daemon/ctl/replay_check.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "daemon/ctl/reason_text.h"
#include "daemon/ctl/text_table.h"

namespace moetier {
namespace {

// "column 3 is 1.5 (3fc00000), expected 1.25 (3fa00000)" for the first differing column; empty when
// all bits are equal.
std::string Difference(std::span<const float> row, std::span<const float> expected) {
  for (size_t column = 0; column < row.size(); ++column) {
    const auto bits = std::bit_cast<uint32_t>(row[column]);
    const auto expected_bits = std::bit_cast<uint32_t>(expected[column]);
    if (bits == expected_bits) continue;
    return fmt::format("column {} is {} ({:08x}), expected {} ({:08x})", column, row[column], bits,
                       expected[column], expected_bits);
  }
  return "";
}

}  // namespace

ReplayCheck::ReplayCheck(const GoldenRows& rows, const OutputGrid& reference)
    : rows_(rows), reference_(reference), output_(rows.tokens, rows.layers, rows.hidden_size) {}

void ReplayCheck::Problem(std::string text) {
  if (counts_.first_problem.empty()) counts_.first_problem = std::move(text);
}

void ReplayCheck::Take(const ReplayCall& call, uint32_t block, const v1::LayerReply& reply) {
  const std::string& bytes = reply.ok().output();
  const size_t row_bytes = size_t{rows_.hidden_size} * sizeof(float);
  MutexLock lock(mu_);
  ++counts_.calls;
  if (!reply.has_ok()) {
    ++counts_.faults;
    Problem(fmt::format("blk.{}, tokens {} to {}: {}: {}", block, call.first_token,
                        call.first_token + call.rows - 1, ReasonText(reply.fault().reason()),
                        WithoutControls(reply.fault().message())));
    return;
  }
  if (bytes.size() != call.rows * row_bytes) {
    ++counts_.faults;
    Problem(fmt::format("blk.{}: {} bytes of output for {} rows of {}", block, bytes.size(),
                        call.rows, row_bytes));
    return;
  }
  counts_.rows += call.rows;
  counts_.hits += reply.ok().hits();
  counts_.in_flight += reply.ok().in_flight();
  counts_.misses += reply.ok().misses();
  counts_.masked_picks += static_cast<uint64_t>(reply.ok().masked_size());
  if (reply.ok().masked_size() > 0) Problem(fmt::format("blk.{}: picks were masked", block));
  std::vector<float> row(rows_.hidden_size);
  for (uint32_t i = 0; i < call.rows; ++i) {
    const uint32_t token = call.first_token + i;
    std::memcpy(row.data(), bytes.data() + i * row_bytes, row_bytes);
    output_.Put(token, call.layer, row);
    const std::string difference = Difference(row, reference_.Row(token, call.layer));
    if (difference.empty()) continue;
    ++counts_.differing_rows;
    Problem(fmt::format("blk.{}, token {}: {}", block, token, difference));
  }
}

ReplayCounts ReplayCheck::counts() const {
  MutexLock lock(mu_);
  return counts_;
}

}  // namespace moetier
