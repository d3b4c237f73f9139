#include "daemon/ctl/mistyped.h"

#include <catch2/catch.hpp>
#include <vector>

namespace moetier {
namespace {

// What is said of a command line, its words in order.
std::string TextOf(std::vector<std::string> words) {
  CLI::App app("test", "moetierctl");
  app.require_subcommand(1);
  std::string value;
  CLI::App* const status = app.add_subcommand("status");
  status->add_option("--socket", value);
  CLI::App* const load = app.add_subcommand("load");
  load->add_option("NAME", value)->required();
  load->add_option("--ram", value);
  app.add_subcommand("pin");
  std::reverse(words.begin(), words.end());  // as CLI11 takes a vector
  try {
    app.parse(words);
  } catch (const CLI::ParseError&) {
    return MistypedText(app).value_or("");
  }
  return "understood";
}

}  // namespace

TEST_CASE("MistypedText: names the unknown subcommand and the nearest", "[ctl]") {
  CHECK(TextOf({"pinn", "demo", "0"}) == "pinn is no subcommand; did you mean pin?");
  CHECK(TextOf({"frobnicate"}) == "frobnicate is no subcommand");
  CHECK(TextOf({"pin\nn"}) == "pin?n is no subcommand");
}

TEST_CASE("MistypedText: names the unknown option of the subcommand and the nearest", "[ctl]") {
  CHECK(TextOf({"status", "--sokcet", "x"}) ==
        "--sokcet is no option of status; did you mean --socket?");
  CHECK(TextOf({"status", "--sokcet=x"}) ==
        "--sokcet is no option of status; did you mean --socket?");
  CHECK(TextOf({"load", "--rma", "3GiB"}) == "--rma is no option of load; did you mean --ram?");
  CHECK(TextOf({"load", "demo", "--frobnicate"}) == "--frobnicate is no option of load");
  CHECK(TextOf({"status", "x"}) == "x is one argument too many for status");
}

TEST_CASE("MistypedText: where every word is known, the parser says what is missing", "[ctl]") {
  CHECK(TextOf({}) == "");
  CHECK(TextOf({"load"}) == "");
  CHECK(TextOf({"status"}) == "understood");
}

}  // namespace moetier
