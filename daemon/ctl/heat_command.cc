// moetierctl heat: shows, exports and imports how hot a loaded model's experts are.

#include <fmt/format.h>
#include <grpcpp/client_context.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/file_io.h"
#include "base/unique_fd.h"
#include "daemon/ctl/command.h"
#include "daemon/ctl/daemon_channel.h"
#include "daemon/ctl/heat_map.h"
#include "daemon/ctl/text_table.h"
#include "moetier/v1/operator.grpc.pb.h"

namespace moetier {
namespace {

struct HeatArguments {
  std::string socket;
  std::string model;
  std::string file;
  bool json = false;
};

using HeatTable = std::map<uint32_t, std::vector<float>>;

Result<v1::Heat> FetchHeat(v1::Operator::Stub& daemon, const std::string& model) {
  grpc::ClientContext context;
  v1::GetHeatRequest request;
  request.set_model(model);
  v1::Heat heat;
  const grpc::Status status = daemon.GetHeat(&context, request, &heat);
  if (!status.ok()) return CallError(status, "heat of " + model);
  return heat;
}

HeatTable TableOf(const v1::Heat& heat) {
  HeatTable table;
  for (const v1::LayerHeat& layer : heat.layers()) {
    table[layer.layer()].assign(layer.heat().begin(), layer.heat().end());
  }
  return table;
}

std::string ExportText(const v1::Heat& heat) {
  return HeatMapText(TableOf(heat), heat.fingerprint(), heat.model());
}

// How few experts of a layer make up that share of its uses.
size_t ExpertsFor(double share, const std::vector<float>& hottest_first) {
  const double sum = std::reduce(hottest_first.begin(), hottest_first.end(), 0.0);
  double covered = 0;
  size_t count = 0;
  while (count < hottest_first.size() && covered < share * sum) covered += hottest_first[count++];
  return count;
}

std::string HottestText(const std::vector<float>& heats) {
  constexpr size_t kShown = 8;
  std::vector<size_t> order(heats.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return heats[a] > heats[b]; });
  std::string text;
  for (size_t i = 0; i < std::min(kShown, order.size()) && heats[order[i]] > 0; ++i) {
    text += fmt::format("{}{}", text.empty() ? "" : " ", order[i]);
  }
  return text;
}

std::string HeatView(const v1::Heat& heat) {
  using enum Align;
  TextTable table({{"layer", kRight},
                   {"experts", kRight},
                   {"used", kRight},
                   {"50 % of uses", kRight},
                   {"90 %", kRight},
                   {"hottest first", kLeft}});
  for (const auto& [layer, heats] : TableOf(heat)) {
    std::vector<float> sorted = heats;
    std::sort(sorted.rbegin(), sorted.rend());
    const auto used = std::count_if(heats.begin(), heats.end(), [](float h) { return h > 0; });
    table.AddRow({std::to_string(layer), std::to_string(heats.size()), std::to_string(used),
                  std::to_string(ExpertsFor(0.5, sorted)), std::to_string(ExpertsFor(0.9, sorted)),
                  HottestText(heats)});
  }
  return fmt::format("model {}, fingerprint {}\n{}", WithoutControls(heat.model()),
                     FingerprintText(heat.fingerprint()), table.Render());
}

ExitCode RunShow(const HeatArguments& arguments) {
  const auto channel = ConnectToDaemon(arguments.socket);
  if (!channel) return ReportError(channel.error());
  const auto daemon = v1::Operator::NewStub(*channel);
  const Result<v1::Heat> heat = FetchHeat(*daemon, arguments.model);
  if (!heat) return ReportError(heat.error());
  return Print(arguments.json ? ExportText(*heat) : HeatView(*heat));
}

Status WriteText(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text << std::flush;
  if (file) return Ok{};
  return ErrnoError(errno, fmt::format("write {}", path));
}

ExitCode RunExport(const HeatArguments& arguments) {
  const auto channel = ConnectToDaemon(arguments.socket);
  if (!channel) return ReportError(channel.error());
  const auto daemon = v1::Operator::NewStub(*channel);
  const Result<v1::Heat> heat = FetchHeat(*daemon, arguments.model);
  if (!heat) return ReportError(heat.error());
  const std::string text = ExportText(*heat);
  if (arguments.file == "-") return Print(text);
  if (const Status written = WriteText(arguments.file, text); !written) {
    return ReportError(written.error());
  }
  return Print(arguments.json ? fmt::format("{{\"layers\": {}}}\n", heat->layers_size())
                              : fmt::format("exported the heat of {} layers of {} to {}\n",
                                            heat->layers_size(), WithoutControls(heat->model()),
                                            WithoutControls(arguments.file)));
}

Result<v1::Heat> FitTo(const v1::Heat& present, const HeatMap& map) {
  ExpertCounts counts;
  for (const v1::LayerHeat& layer : present.layers()) {
    counts[layer.layer()] = static_cast<uint32_t>(layer.heat_size());
  }
  ASSIGN_OR_RETURN(const HeatTable heats, FitHeatMap(map, counts, present.fingerprint()));
  v1::Heat fitted;
  fitted.set_model(present.model());
  fitted.set_fingerprint(present.fingerprint());
  for (const auto& [layer, values] : heats) {
    v1::LayerHeat& out = *fitted.add_layers();
    out.set_layer(layer);
    out.mutable_heat()->Add(values.begin(), values.end());
  }
  return fitted;
}

ExitCode RunImport(const HeatArguments& arguments) {
  const Result<std::string> text = ReadTextFile(arguments.file, kMaxHeatMapBytes);
  if (!text) return ReportError(text.error());
  const Result<HeatMap> map = ParseHeatMap(*text, arguments.file);
  if (!map) return ReportError(map.error());
  const auto channel = ConnectToDaemon(arguments.socket);
  if (!channel) return ReportError(channel.error());
  const auto daemon = v1::Operator::NewStub(*channel);
  const Result<v1::Heat> present = FetchHeat(*daemon, arguments.model);
  if (!present) return ReportError(present.error());
  const Result<v1::Heat> fitted = FitTo(*present, *map);
  if (!fitted) return ReportError(fitted.error());
  for (const std::string& row : map->suspect) {
    fmt::print(stderr,
               "moetierctl: suspect: {}; the router that this came from may have been broken\n",
               row);
  }
  grpc::ClientContext context;
  v1::SetHeatReply reply;
  const grpc::Status status = daemon->SetHeat(&context, *fitted, &reply);
  if (!status.ok()) return ReportError(CallError(status, "heat import to " + arguments.model));
  return Print(arguments.json
                   ? fmt::format("{{\"layers\": {}, \"suspect\": {}}}\n", fitted->layers_size(),
                                 map->suspect.size())
                   : fmt::format("imported {}: the heat of {} layers of {}{}\n", map->shape,
                                 fitted->layers_size(), WithoutControls(fitted->model()),
                                 map->suspect.empty()
                                     ? ""
                                     : fmt::format(", {} of them suspect", map->suspect.size())));
}

using Run = ExitCode (*)(const HeatArguments& arguments);

CLI::App* AddHeatCommand(CLI::App& heat, ExitCode& exit_code, const std::string& name,
                         const std::string& description, Run run, const char* file) {
  const auto arguments = std::make_shared<HeatArguments>();
  CLI::App* const command = AddCommand(heat, name, description);
  AddSocketOption(*command, arguments->socket);
  command->add_option("MODEL", arguments->model, "The loaded model")->required();
  if (file != nullptr) command->add_option("FILE", arguments->file, file)->required();
  AddJsonFlag(*command, arguments->json);
  command->callback([arguments, run, &exit_code] { exit_code = run(*arguments); });
  return command;
}

}  // namespace

void AddHeatCommands(CLI::App& app, ExitCode& exit_code) {
  CLI::App* const heat =
      AddCommand(app, "heat", "Show, export or import how much a model's experts are used.");
  heat->require_subcommand(1);
  AddHeatCommand(*heat, exit_code, "show", "The hottest experts of each layer.", RunShow, nullptr);
  AddHeatCommand(*heat, exit_code, "export", "Write the heat of a loaded model as JSON.", RunExport,
                 "Where to; - is standard output");
  AddHeatCommand(
      *heat, exit_code, "import",
      "Replace the heat of a loaded model, and load the hottest experts into free memory.",
      RunImport, "An export, or a map of topics to ranked experts (\"domains\")");
}

}  // namespace moetier
