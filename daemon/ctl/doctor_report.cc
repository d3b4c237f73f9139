#include "daemon/ctl/doctor_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "daemon/ctl/text_table.h"

namespace moetier {

std::string_view VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "ok";
    case Verdict::kWarn:
      return "warn";
    case Verdict::kFail:
      return "fail";
  }
  return "?";
}

std::string FindingsText(std::span<const Finding> findings) {
  size_t width = 0;
  for (const Finding& finding : findings) width = std::max(width, finding.name.size());
  std::string text;
  for (const Finding& finding : findings) {
    text += fmt::format("{:<4}  {:<{}}  {}\n", VerdictName(finding.verdict), finding.name, width,
                        WithoutControls(finding.what));
    if (finding.advice.empty()) continue;
    text += fmt::format("      {:<{}}  -> {}\n", "", width, WithoutControls(finding.advice));
  }
  return text;
}

std::string FindingsJson(std::span<const Finding> findings) {
  nlohmann::json list = nlohmann::json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"name", finding.name},
                    {"verdict", VerdictName(finding.verdict)},
                    {"what", finding.what},
                    {"advice", finding.advice}});
  }
  return nlohmann::json{{"worst", VerdictName(Worst(findings))}, {"findings", std::move(list)}}
             .dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
         "\n";
}

Verdict Worst(std::span<const Finding> findings) {
  Verdict worst = Verdict::kOk;
  for (const Finding& finding : findings) worst = std::max(worst, finding.verdict);
  return worst;
}

}  // namespace moetier
