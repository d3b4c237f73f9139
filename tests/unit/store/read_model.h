#ifndef MOETIER_TESTS_UNIT_STORE_READ_MODEL_H_
#define MOETIER_TESTS_UNIT_STORE_READ_MODEL_H_

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "tests/support/gguf_builder.h"
#include "tiers/store/moe_model.h"

// Reads models that GgufBuilder made; each helper fails the running test case if its name does not
// hold.

namespace moetier::testing {

Result<MoeModel> Read(const GgufBuilder& gguf, const MoeModelOptions& options = {});
MoeModel MustRead(const GgufBuilder& gguf, const MoeModelOptions& options = {});
Error MustRefuse(const GgufBuilder& gguf, const MoeModelOptions& options = {});

// Where a part of layer number `layer` of the model's list lies.
const PartSource& Part(const MoeModel& model, size_t layer, kernels::PartRole role);

// Keys of a model of hidden 64, ffn 32 and 4 experts, and the tensors of blk.0 whose suffix is not
// in `without`.
GgufBuilder OneLayer(const std::set<std::string>& without = {});

}  // namespace moetier::testing

#endif  // MOETIER_TESTS_UNIT_STORE_READ_MODEL_H_
