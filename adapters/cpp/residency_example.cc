// An engine with kernels of its own: moetierd keeps the experts, this program computes them in the
// daemon's memory, and compares each result with the daemon's own, bit by bit.
// usage: moetier_residency_example --golden DIRECTORY [--socket PATH] [--model NAME]

#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <cstdlib>
#include <string>

#include "adapters/cpp/leased_layer.h"
#include "adapters/cpp/residency_session.h"
#include "daemon/ctl/npy.h"
#include "kernels/expert_kernels.h"

namespace moetier {
namespace {

constexpr Bytes kMostGolden = 256_MiB;  // of one file

// Recorded rows of a model's MoE layers: [tokens, layers, hidden or picks].
struct Rows {
  NpyArray<float> hidden;
  NpyArray<int32_t> experts;
  NpyArray<float> weights;
  size_t tokens = 0;
  size_t layers = 0;
};

Result<Rows> ReadRows(const std::string& directory) {
  Rows rows;
  ASSIGN_OR_RETURN(rows.hidden, ReadNpyF32(directory + "/hidden.npy", kMostGolden));
  ASSIGN_OR_RETURN(rows.experts, ReadNpyI32(directory + "/experts.npy", kMostGolden));
  ASSIGN_OR_RETURN(rows.weights, ReadNpyF32(directory + "/weights.npy", kMostGolden));
  const auto& shape = rows.hidden.shape;
  const auto& picks = rows.experts.shape;
  if (shape.size() != 3 || picks.size() != 3 || picks[0] != shape[0] || picks[1] != shape[1] ||
      rows.weights.shape != picks) {
    return Error{ErrorCode::kInvalidArgument, Reason::kBadShape,
                 fmt::format("{}: hidden, experts and weights are not [tokens, layers, ...] of one "
                             "model",
                             directory)};
  }
  rows.tokens = shape[0];
  rows.layers = shape[1];
  return rows;
}

template <typename T>
std::span<const T> RowOf(const NpyArray<T>& array, size_t row) {
  return std::span(array.values).subspan(row * array.shape[2], array.shape[2]);
}

Status Run(const std::string& directory, const ResidencySession::Options& options) {
  ASSIGN_OR_RETURN(const Rows rows, ReadRows(directory));
  ASSIGN_OR_RETURN(const auto kernels,
                   kernels::ExpertKernels::Create(kernels::BestInstructionSet()));
  ASSIGN_OR_RETURN(const auto session, ResidencySession::Attach(options));
  const v1::Geometry& geometry = session->grant().model().geometry();
  if (rows.layers != static_cast<size_t>(geometry.layers_size()) ||
      rows.hidden.shape[2] != geometry.hidden()) {
    return Error{
        ErrorCode::kInvalidArgument, Reason::kBadShape,
        fmt::format("{}: rows of {} layers and {} values; the model has {} and {}", directory,
                    rows.layers, rows.hidden.shape[2], geometry.layers_size(), geometry.hidden())};
  }
  LeasedLayer engine(*session, kernels);
  for (size_t row = 0; row < rows.tokens * rows.layers; ++row) {
    const v1::LayerGeometry& layer = geometry.layers(static_cast<int>(row % rows.layers));
    const std::span<const float> hidden = RowOf(rows.hidden, row);
    const std::span<const int32_t> picks = RowOf(rows.experts, row);
    const std::vector<uint32_t> experts(picks.begin(), picks.end());
    const std::span<const float> weights = RowOf(rows.weights, row);
    ASSIGN_OR_RETURN(const std::vector<float> ours, engine.Run(layer, hidden, experts, weights));
    ASSIGN_OR_RETURN(const std::vector<float> theirs,
                     session->Compute(layer.layer(), hidden, experts, weights));
    const auto same = [](float a, float b) {
      return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
    };
    const auto [at, other] = std::ranges::mismatch(ours, theirs, same);
    if (at != ours.end()) {
      return Error{ErrorCode::kInternal, Reason::kUnspecified,
                   fmt::format("token {}, layer {}, value {}: {} here, {} of the daemon",
                               row / rows.layers, layer.layer(), at - ours.begin(), *at, *other)};
    }
  }
  const LeasedLayer::Counts& counts = engine.counts();
  fmt::print(
      "{} layer calls: {} experts computed in the daemon's memory by {} kernels, in {} groups "
      "of leases, after {} reads; every bit is the daemon's\n",
      rows.tokens * rows.layers, counts.computed,
      kernels::InstructionSetName(kernels.instruction_set()), counts.groups, counts.filled);
  return Ok{};
}

// As the other clients (moetier/fastlane.h): of a person's own daemon only if it is there.
std::string SocketFromEnvironment() {
  const char* const named = std::getenv("MOETIER_SOCKET");
  if (named != nullptr && *named != '\0') return named;
  const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && *runtime != '\0') {
    const std::string own = std::string(runtime) + "/moetierd/moetierd.sock";
    if (access(own.c_str(), F_OK) == 0) return own;
  }
  return "/run/moetierd/moetierd.sock";
}

}  // namespace
}  // namespace moetier

int main(int argc, char** argv) {
  CLI::App app{"moetier_residency_example: computes experts in moetierd's memory"};
  moetier::ResidencySession::Options options{
      .socket = moetier::SocketFromEnvironment(), .model = {}, .client = "residency example"};
  std::string golden;
  app.add_option("--golden", golden, "hidden.npy, experts.npy, weights.npy")->required();
  app.add_option("--socket", options.socket, "The daemon's")->capture_default_str();
  app.add_option("--model", options.model, "A loaded model; default: the only one");
  CLI11_PARSE(app, argc, argv);
  const moetier::Status status = moetier::Run(golden, options);
  if (status) return 0;
  fmt::print(stderr, "moetier_residency_example: {}\n", status.error().message);
  return 1;
}
