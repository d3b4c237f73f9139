#include "daemon/rpc/status_map.h"

#include "daemon/transport/status_number.h"
#include "daemon/transport/wire_text.h"

namespace moetier {
namespace {

grpc::StatusCode ToGrpcCode(ErrorCode code) {
  return static_cast<grpc::StatusCode>(StatusNumber(code));  // a test compares the numbers
}

}  // namespace

v1::Reason ToProto(Reason reason) {
  return static_cast<v1::Reason>(reason);  // equal numbers; proto_contract_test compares them
}

v1::Fault ToFault(const Error& error, const FaultPlace& place) {
  v1::Fault fault;
  fault.set_code(StatusNumber(error.code));
  fault.set_reason(ToProto(error.reason));
  fault.set_message(WireText(error.message));
  fault.set_field(place.field);
  if (place.row) fault.set_row(*place.row);
  if (place.expert) fault.set_expert(*place.expert);
  return fault;
}

grpc::Status ToGrpcStatus(const Error& error, const FaultPlace& place) {
  const v1::Fault fault = ToFault(error, place);
  v1::StatusDetails details;
  details.set_code(static_cast<int32_t>(fault.code()));
  details.set_message(fault.message());
  details.add_details()->PackFrom(fault);
  return {ToGrpcCode(error.code), fault.message(), details.SerializeAsString()};
}

std::optional<v1::Fault> FaultOf(const grpc::Status& status) {
  v1::StatusDetails details;
  v1::Fault fault;
  if (status.ok() || !details.ParseFromString(status.error_details())) return std::nullopt;
  if (details.details().empty() || !details.details(0).UnpackTo(&fault)) return std::nullopt;
  return fault;
}

}  // namespace moetier
