#include "daemon/scheduling/layer_batch.h"

#include <catch2/catch.hpp>

#include "tests/support/synthetic_model.h"

namespace moetier {
namespace {

using testing::SyntheticModel;

// A call's record by way of the model's file, as a slot would hold it.
const std::byte* Record(SyntheticModel& model, const ExpertKey& key) {
  return model.file().data() + model.Locate(key.layer, key.expert).offset;
}

// Runs every piece of a batch, its experts in reverse when asked.
void RunAll(SyntheticModel& model, CpuLane& lane, LayerBatch& batch, bool reversed) {
  while (batch.NextPiece()) {
    const auto count = static_cast<uint32_t>(batch.experts().size());
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t index = reversed ? count - 1 - i : i;
      const LaneTask task = batch.Task(index, Record(model, batch.experts()[index].key));
      lane.Run({&task, 1});
    }
    batch.CombinePiece();
  }
}

class Batches {
 public:
  SyntheticModel model{{.experts = 8, .hidden = 64, .ffn = 64}};
  kernels::ExpertKernels kernels =
      kernels::ExpertKernels::Create(kernels::InstructionSet::kScalar).value();
  CpuLane lane{{.workers = 2}, kernels};

  LayerBatch Make(std::vector<LayerCall> calls) {
    std::vector<PendingCall> pending;
    const LayerGeometry* layer = model.geometry().Find(calls.front().layer);
    for (LayerCall& call : calls) pending.push_back({std::move(call), {}, {}, {}});
    return LayerBatch(std::move(pending), *layer);
  }
};

}  // namespace

TEST_CASE("LayerBatch: merged calls get the bits that each would get alone", "[scheduling]") {
  Batches batches;
  // 70 rows are two pieces; top_k differs between the calls.
  const std::vector<LayerCall> calls = {batches.model.MakeCall(LayerIndex{2}, 3, 2, 1),
                                        batches.model.MakeCall(LayerIndex{2}, 70, 4, 2),
                                        batches.model.MakeCall(LayerIndex{2}, 1, 8, 3)};
  for (const bool reversed : {false, true}) {
    LayerBatch merged = batches.Make(calls);
    RunAll(batches.model, batches.lane, merged, reversed);
    for (size_t i = 0; i < calls.size(); ++i) {
      INFO("call " << i << (reversed ? ", experts in reverse" : ""));
      CHECK(merged.calls()[i].output.output == batches.model.Reference(calls[i]));
    }
  }
}

TEST_CASE("LayerBatch: an expert that several rows picked stands once in a piece", "[scheduling]") {
  Batches batches;
  LayerBatch batch = batches.Make({batches.model.MakeCall(LayerIndex{1}, 20, 8, 5)});
  REQUIRE(batch.NextPiece());
  CHECK(batch.experts().size() == 8);
  for (const LayerBatch::PickedExpert& expert : batch.experts()) CHECK(expert.use_count == 20);
}

TEST_CASE("LayerBatch: a call adds one token's heat, however many rows it has", "[scheduling]") {
  Batches batches;
  LayerBatch batch = batches.Make({batches.model.MakeCall(LayerIndex{2}, 70, 4, 1),
                                   batches.model.MakeCall(LayerIndex{2}, 1, 2, 2),
                                   batches.model.MakeCall(LayerIndex{2}, 8, 3, 3)});
  float heat = 0;
  while (batch.NextPiece()) {
    for (const LayerBatch::PickedExpert& expert : batch.experts()) heat += expert.heat;
  }
  CHECK(heat == Approx(4 + 2 + 3));
}

TEST_CASE("LayerBatch: what a small call picked is admitted hot, whatever large one it runs with",
          "[scheduling]") {
  Batches batches;
  const LayerCall small = batches.model.MakeCall(LayerIndex{2}, 1, 2, 2);
  // Together 21 rows in 13 calls, of which one is large.
  std::vector<LayerCall> calls(12, small);
  calls.insert(calls.begin(), batches.model.MakeCall(LayerIndex{2}, 9, 8, 1));
  LayerBatch batch = batches.Make(calls);
  REQUIRE(batch.NextPiece());
  REQUIRE(batch.experts().size() == 8);
  for (size_t i = 0; i < 8; ++i) {
    CHECK((batch.experts()[i].admission == Admission::kHot) == (i < 2));
  }
  for (size_t i = 0; i < 2; ++i) CHECK(Raw(batch.experts()[i].key.expert) == small.experts[i]);
}

TEST_CASE("LayerBatch: a lost expert fails the calls that picked it and no other", "[scheduling]") {
  Batches batches;
  LayerCall with = batches.model.MakeCall(LayerIndex{1}, 1, 2, 1);
  LayerCall without = with;
  with.experts = {3, 4};
  without.experts = {4, 5};
  LayerBatch batch = batches.Make({with, without});
  REQUIRE(batch.NextPiece());
  for (uint32_t i = 0; i < batch.experts().size(); ++i) {
    if (batch.experts()[i].key.expert == ExpertIndex{3}) {
      batch.Fail(i, Error{ErrorCode::kDataLoss, Reason::kChecksum, "bad"});
    } else {
      const LaneTask task = batch.Task(i, Record(batches.model, batch.experts()[i].key));
      batches.lane.Run({&task, 1});
    }
  }
  batch.CombinePiece();
  REQUIRE(batch.calls()[0].fault);
  CHECK(batch.calls()[0].fault->reason == Reason::kChecksum);
  CHECK(!batch.calls()[1].fault);
  CHECK(batch.calls()[1].output.output == batches.model.Reference(without));
}

}  // namespace moetier
