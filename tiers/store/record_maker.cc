#include "tiers/store/record_maker.h"

#include <algorithm>
#include <array>

#include "tiers/store/indexed_store.h"

namespace moetier {

Result<RecordMaker> RecordMaker::Open(const ImportPlan& plan) {
  ASSIGN_OR_RETURN(ExpertSource source, ExpertSource::Open(plan.ShardPaths()));
  return RecordMaker(plan, std::move(source));
}

Result<RecordMaker::Record> RecordMaker::Make(size_t layer, uint32_t expert) {
  Record record;
  ASSIGN_OR_RETURN(record.source, source_.Read(plan_->model.layers[layer], expert));
  if (plan_->index.in_place) {
    std::array<std::span<const std::byte>, kernels::kPartRoles> pieces;
    const auto end = std::copy_if(record.source.parts.begin(), record.source.parts.end(),
                                  pieces.begin(), [](const auto& part) { return !part.empty(); });
    record.xxh3 = ChecksumOf(std::span(pieces.begin(), end));
    return record;
  }
  const kernels::RecordLayout& layout = plan_->model.geometry.layers[layer].record;
  buffer_.assign(AlignUp(layout.bytes, kRecordAlignment), std::byte{0});
  const std::span<std::byte> packed = std::span(buffer_).first(layout.bytes);
  kernels::PackRecord(layout, record.source, packed);
  const std::array<std::span<const std::byte>, 1> whole{packed};
  record.xxh3 = ChecksumOf(whole);
  record.bytes = buffer_;
  return record;
}

}  // namespace moetier
