#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "config/config.h"

// Any bytes as a config: no crash, no leak, and an error that names the file.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const moetier::Result<moetier::DaemonConfig> config = moetier::ParseConfig(text, "fuzz.yaml");
  if (!config) MOE_CHECK(config.error().message.starts_with("fuzz.yaml:"), "no file in the error");
  return 0;
}
