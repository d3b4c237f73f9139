#include "adapters/llama_cpp/ggml_library.h"

#include <catch2/catch.hpp>

namespace moetier::ggml {

TEST_CASE("CheckVersion: the compared releases are taken, others refused", "[llama_cpp]") {
  for (const char* known : {"0.9.4", "0.9.7", "0.23.0", "0.25.1"}) {
    INFO(known);
    CHECK(CheckVersion(known, ""));
  }
  for (const char* unknown : {"0.8.9", "0.26.0", "1.0.0", "", "x", "0", "0.", ".9"}) {
    INFO(unknown);
    const Status status = CheckVersion(unknown, "");
    REQUIRE_FALSE(status);
    CHECK(status.error().message.find("ggml 0.9 to 0.25") != std::string::npos);
  }
}

TEST_CASE("CheckVersion: an unknown release is taken if exactly it is vouched for", "[llama_cpp]") {
  CHECK(CheckVersion("0.26.0", "0.26.0"));
  CHECK_FALSE(CheckVersion("0.26.1", "0.26.0"));
}

TEST_CASE("FindLibrary: a process without ggml is told what is missing", "[llama_cpp]") {
  const auto library = FindLibrary(nullptr);
  REQUIRE_FALSE(library);
  CHECK(library.error().message.find("ggml_backend_buffer_init") != std::string::npos);
}

}  // namespace moetier::ggml
