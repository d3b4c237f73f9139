#include "base/one_line.h"

#include <catch2/catch.hpp>

#include "base/model_name.h"

namespace moetier {

TEST_CASE("OneLine: plain text and letters of any script stay", "[base]") {
  CHECK(OneLine("vllm worker 3: \"ä\" \xE6\xA8\xA1") == "vllm worker 3: \"ä\" \xE6\xA8\xA1");
}

TEST_CASE("OneLine: nothing begins a line or steers a terminal", "[base]") {
  CHECK(OneLine("a\n[error] forged\r\tb") == "a\\n[error] forged\\x0d\\tb");
  CHECK(OneLine("\x1B[2J\x7F") == "\\x1b[2J\\x7f");
  CHECK(OneLine("\xC2\x9B"
                "2J") == "\\xc2\\x9b2J");  // C1's CSI
  CHECK(OneLine("\xE2\x80\xAE"
                "txt") == "\\xe2\\x80\\xaetxt");        // right to left
  CHECK(OneLine("\xE2\x80\xA8") == "\\xe2\\x80\\xa8");  // line separator
  CHECK(OneLine("\x9B"
                "2J\xFF") == "\\x9b2J\\xff");
}

TEST_CASE("Model names: letters, digits and three marks, 64 at most", "[base]") {
  CHECK(IsModelName("Qwen3-30B.Q4_K"));
  CHECK(IsModelName(std::string(64, 'x')));
  for (const std::string& bad : {std::string(), std::string(65, 'x'), std::string("a b"),
                                 std::string("a/b"), std::string("a\n"), std::string("ä")}) {
    CHECK_FALSE(IsModelName(bad));
  }
}

}  // namespace moetier
