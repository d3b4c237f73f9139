#include "daemon/ctl/proto_json.h"

#include <google/protobuf/util/json_util.h>

namespace moetier {

std::string ProtoJson(const google::protobuf::Message& message, JsonStyle style) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = style == JsonStyle::kPretty;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string json;
  // Fails only for an Any of an unknown type; the messages shown have none.
  if (!google::protobuf::util::MessageToJsonString(message, &json, options).ok()) return "{}\n";
  while (!json.empty() && json.back() == '\n') json.pop_back();
  return json + "\n";
}

}  // namespace moetier
