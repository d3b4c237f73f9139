#include <fmt/format.h>

#include <filesystem>

#include "daemon/ctl/doctor_report.h"

namespace moetier {

Finding CheckPlugin(const std::string& program) {
  const std::filesystem::path folder = std::filesystem::path(program).parent_path();
  // Installed, or in the build folder; both paths are the build's own (CMakeLists.txt).
  for (const char* const relative : {MOETIER_PLUGIN_INSTALLED, MOETIER_PLUGIN_BUILT}) {
    const std::filesystem::path plugin = (folder / relative).lexically_normal();
    std::error_code error;
    if (!std::filesystem::exists(plugin, error)) continue;
    return {"plug-in", Verdict::kOk,
            fmt::format("for llama.cpp: GGML_BACKEND_PATH={}", plugin.string()), ""};
  }
  return {"plug-in", Verdict::kWarn,
          fmt::format("libggml-moetier.so is not where {} would have it",
                      (folder / MOETIER_PLUGIN_INSTALLED).lexically_normal().string()),
          "install all of moetierd, or name the file of your build in GGML_BACKEND_PATH"};
}

}  // namespace moetier
