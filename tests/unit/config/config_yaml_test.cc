#include <catch2/catch.hpp>
#include <string>

#include "config/config.h"
#include "config/config_node.h"

namespace moetier {
namespace {

std::string RefusalOf(const std::string& text) {
  const Result<ConfigNode> node = ReadYaml(text, "f.yaml");
  REQUIRE(!node.has_value());
  return node.error().message;
}

}  // namespace

TEST_CASE("ReadYaml: values keep their lines and text", "[config]") {
  const ConfigNode root = ReadYaml("a: 1\nb:\n  - x\n  -\n", "f.yaml").value();
  REQUIRE(root.keys == std::vector<std::string>{"a", "b"});
  CHECK(root.items[0].text == "1");
  CHECK(root.items[0].line == 1);
  REQUIRE(root.items[1].items.size() == 2);
  CHECK(root.items[1].items[0].text == "x");
  CHECK(root.items[1].items[0].line == 3);
  CHECK(root.items[1].items[1].kind == ConfigNode::Kind::kNull);
}

TEST_CASE("ReadYaml: a key given twice is refused with both lines", "[config]") {
  CHECK(RefusalOf("a: 1\nb: 2\na: 3\n") == "f.yaml:3: a: given twice; first on line 1");
  CHECK(RefusalOf("s: {a: 1, a: 1}") == "f.yaml:1: a: given twice; first on line 1");
}

TEST_CASE("ReadYaml: an alias bomb is refused at its first anchor", "[config]") {
  std::string bomb = "a0: &a0 [x, x]\n";
  for (int i = 1; i < 30; ++i) bomb += fmt::format("a{}: &a{} [*a{}, *a{}]\n", i, i, i - 1, i - 1);
  CHECK(RefusalOf(bomb) == "f.yaml:1: anchors (&name) are not allowed; write the value out");
}

TEST_CASE("ReadYaml: deep nesting is refused before it can exhaust the stack", "[config]") {
  CHECK(RefusalOf(std::string(100000, '[')).starts_with("f.yaml:1: "));
  std::string maps = "a: ";
  for (int i = 0; i < 50000; ++i) maps += "{a: ";
  CHECK(RefusalOf(maps) == "f.yaml:1: nested deeper than 16 levels");
  std::string blocks;
  for (size_t i = 0; i < 100; ++i) blocks += std::string(i, ' ') + "a:\n";
  CHECK(RefusalOf(blocks) == "f.yaml:17: nested deeper than 16 levels");
}

TEST_CASE("ReadYaml: exactly the allowed depth is read", "[config]") {
  const std::string open(kMaxConfigDepth, '[');
  const std::string close(kMaxConfigDepth, ']');
  CHECK(ReadYaml(open + close, "f.yaml").has_value());
  CHECK(!ReadYaml("[" + open + close + "]", "f.yaml").has_value());
}

TEST_CASE("ReadYaml: too many values and too large a text are refused", "[config]") {
  std::string many = "[";
  for (uint32_t i = 0; i < kMaxConfigNodes + 1; ++i) many += "1,";
  CHECK(RefusalOf(many + "]") == "f.yaml:1: more than 10000 values");
  CHECK(RefusalOf(std::string(kMaxConfigBytes.count() + 1, ' ')) ==
        "f.yaml:1: 262145 bytes; a config has at most 262144");
}

TEST_CASE("ReadYaml: what is not one plain YAML document is refused", "[config]") {
  CHECK(RefusalOf("a: [1\n").starts_with("f.yaml:"));
  CHECK(RefusalOf("a: [1\n").find("not valid YAML") != std::string::npos);
  CHECK(RefusalOf("a: 1\n---\nb: 2\n") ==
        "f.yaml:3: a second document; a config is one YAML document");
  CHECK(RefusalOf("? [a]\n: 1\n") == "f.yaml:1: a key must be plain text");
  CHECK(RefusalOf("a: *nowhere\n").starts_with("f.yaml:1: "));
  CHECK(RefusalOf("a: \t\t- b\n\t c: d").starts_with("f.yaml:"));
}

}  // namespace moetier
