#include "daemon/ctl/reference_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <map>
#include <optional>
#include <thread>

#include "base/file_io.h"
#include "base/regular_file.h"
#include "kernels/reference/reference_expert.h"

namespace moetier {
namespace {

Error DoesNotFit(std::string message) {
  return Error{ErrorCode::kInvalidArgument, Reason::kUnspecified, std::move(message)};
}

// One expert's bytes, read from the shards.
struct ExpertBytes {
  std::array<std::vector<std::byte>, kernels::kPartRoles> parts;
  [[nodiscard]] kernels::SourceExpert View() const {
    kernels::SourceExpert view;
    for (size_t i = 0; i < parts.size(); ++i) view.parts[i] = parts[i];
    return view;
  }
};

// The definition's last step, written again so that the kernels' own is checked too: picks added
// in order from +0 with fused multiply-add, a NaN as one pattern.
void SumPicks(std::span<const float> weights, std::span<const std::vector<float>> picks,
              std::span<float> out) {
  constexpr uint32_t kQuietNan = 0x7FC00000;
  for (size_t column = 0; column < out.size(); ++column) {
    float sum = 0;
    for (size_t pick = 0; pick < weights.size(); ++pick) {
      sum = std::fma(weights[pick], picks[pick][column], sum);
    }
    out[column] = std::isnan(sum) ? std::bit_cast<float>(kQuietNan) : sum;
  }
}

Result<ExpertBytes> ReadExpert(const MoeLayerSource& source, uint32_t expert,
                               std::span<const UniqueFd> files,
                               std::span<const std::string> paths) {
  ExpertBytes bytes;
  for (size_t i = 0; i < source.parts.size(); ++i) {
    const std::optional<PartSource>& part = source.parts[i];
    if (!part) continue;
    bytes.parts[i].resize(part->bytes);  // ReadMoeModel has checked it against the file
    RETURN_IF_ERROR(ReadExactly(files[part->shard].get(), part->offset + expert * part->stride,
                                bytes.parts[i], paths[part->shard]));
  }
  return bytes;
}

}  // namespace

Result<ReferenceModel> ReferenceModel::Open(const std::string& gguf_path) {
  ASSIGN_OR_RETURN(const GgufModel gguf, GgufModel::Open(gguf_path));
  ASSIGN_OR_RETURN(MoeModel model,
                   ReadMoeModel(gguf, {.form = kernels::RecordForm::kSource, .activation = {}}));
  std::vector<std::string> paths(gguf.shard_paths().begin(), gguf.shard_paths().end());
  std::vector<UniqueFd> files;
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(UniqueFd file, OpenRegularFile(path, O_RDONLY));
    files.push_back(std::move(file));
  }
  return ReferenceModel(std::move(model), std::move(paths), std::move(files));
}

Status ReferenceModel::CheckFits(const GoldenRows& rows) const {
  const ModelGeometry& model = model_.geometry;
  if (rows.layers != model.layers.size() || rows.hidden_size != model.hidden) {
    return DoesNotFit(fmt::format(
        "the golden rows have {} layers of {} columns, the model {} MoE layers of {}; give the "
        "rows that were recorded with this model",
        rows.layers, rows.hidden_size, model.layers.size(), model.hidden));
  }
  for (uint32_t layer = 0; layer < rows.layers; ++layer) {
    const LayerGeometry& geometry = model.layers[layer];
    if (!geometry.compute) {
      return DoesNotFit(fmt::format("blk.{} has a weight type without a kernel: nothing to compare",
                                    Raw(geometry.layer)));
    }
    for (uint32_t token = 0; token < rows.tokens; ++token) {
      for (const uint32_t expert : rows.ExpertsOf(token, layer)) {
        if (expert < geometry.experts) continue;
        return DoesNotFit(fmt::format("token {} picks expert {} of blk.{}, which has {}", token,
                                      expert, Raw(geometry.layer), geometry.experts));
      }
    }
  }
  return Ok();
}

Status ReferenceModel::ComputeLayer(const GoldenRows& rows, uint32_t layer, OutputGrid& out) const {
  struct Pick {
    uint32_t token;
    uint32_t index;
  };
  std::map<uint32_t, std::vector<Pick>> picks_of;  // each expert is read once
  for (uint32_t token = 0; token < rows.tokens; ++token) {
    const auto experts = rows.ExpertsOf(token, layer);
    for (uint32_t i = 0; i < rows.top_k; ++i) picks_of[experts[i]].push_back({token, i});
  }
  std::vector<std::vector<float>> results(size_t{rows.tokens} * rows.top_k);
  for (const auto& [expert, picks] : picks_of) {
    ASSIGN_OR_RETURN(const ExpertBytes bytes,
                     ReadExpert(model_.layers[layer], expert, files_, paths_));
    for (const Pick& pick : picks) {
      std::vector<float>& result = results[size_t{pick.token} * rows.top_k + pick.index];
      result.resize(rows.hidden_size);
      kernels::ReferenceExpert(model_.geometry.layers[layer].shape, bytes.View(),
                               rows.HiddenOf(pick.token, layer), result);
    }
  }
  std::vector<float> sum(rows.hidden_size);
  for (uint32_t token = 0; token < rows.tokens; ++token) {
    SumPicks(rows.WeightsOf(token, layer),
             std::span(results).subspan(size_t{token} * rows.top_k, rows.top_k), sum);
    out.Put(token, layer, sum);
  }
  return Ok();
}

Result<OutputGrid> ReferenceModel::Compute(const GoldenRows& rows) const {
  OutputGrid out(rows.tokens, rows.layers, rows.hidden_size);
  const uint32_t cores = std::max(1u, std::thread::hardware_concurrency());
  std::atomic<uint32_t> next_layer = 0;  // hands out layers; the joins order everything else
  std::vector<std::optional<Error>> errors(rows.layers);
  {
    std::vector<std::jthread> threads;
    for (uint32_t i = 0; i < std::min(cores, rows.layers); ++i) {
      threads.emplace_back([&] {
        for (uint32_t layer = next_layer.fetch_add(1, std::memory_order_relaxed);
             layer < rows.layers; layer = next_layer.fetch_add(1, std::memory_order_relaxed)) {
          const Status status = ComputeLayer(rows, layer, out);
          if (!status) errors[layer] = status.error();
        }
      });
    }
  }
  for (std::optional<Error>& error : errors) {
    if (error) return std::move(*error);
  }
  return out;
}

}  // namespace moetier
