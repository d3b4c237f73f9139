#ifndef MOETIER_DAEMON_CTL_PROTO_JSON_H_
#define MOETIER_DAEMON_CTL_PROTO_JSON_H_

#include <google/protobuf/message.h>

#include <string>

namespace moetier {

enum class JsonStyle : unsigned char { kPretty, kOneLine };

// The message as proto3 JSON with the proto's own field names, zeros included; ends with a newline.
// As proto3 JSON has it, 64-bit integers are strings.
std::string ProtoJson(const google::protobuf::Message& message,
                      JsonStyle style = JsonStyle::kPretty);

}  // namespace moetier

#endif  // MOETIER_DAEMON_CTL_PROTO_JSON_H_
