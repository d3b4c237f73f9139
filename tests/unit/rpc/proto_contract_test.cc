#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/rpc/status_map.h"
#include "moetier/v1/experts.pb.h"
#include "moetier/v1/models.pb.h"
#include "moetier/v1/operator.pb.h"
#include "moetier/v1/residency.pb.h"

namespace moetier {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::DescriptorProto;
using google::protobuf::EnumDescriptorProto;
using google::protobuf::FieldDescriptorProto;
using google::protobuf::FileDescriptorProto;
using google::protobuf::FileDescriptorSet;
using google::protobuf::ServiceDescriptorProto;

// What `old_set` promised and `new_set` no longer keeps, one line each.
class Comparison {
 public:
  std::vector<std::string> Compare(const FileDescriptorSet& old_set,
                                   const FileDescriptorSet& new_set) {
    for (const FileDescriptorProto& old_file : old_set.file()) {
      const auto* file = Find(new_set.file(), old_file.name());
      if (file == nullptr) {
        Note("file " + old_file.name() + " is gone");
        continue;
      }
      CompareAll(old_file.message_type(), file->message_type(), old_file.package(),
                 &Comparison::CompareMessage);
      CompareAll(old_file.enum_type(), file->enum_type(), old_file.package(),
                 &Comparison::CompareEnum);
      CompareAll(old_file.service(), file->service(), old_file.package(),
                 &Comparison::CompareService);
    }
    return notes_;
  }

 private:
  void Note(std::string text) { notes_.push_back(std::move(text)); }

  template <typename List>
  static const typename List::value_type* Find(const List& list, const std::string& name) {
    for (const auto& entry : list) {
      if (entry.name() == name) return &entry;
    }
    return nullptr;
  }

  template <typename List>
  void CompareAll(const List& old_list, const List& new_list, const std::string& scope,
                  void (Comparison::*compare)(const typename List::value_type&,
                                              const typename List::value_type&,
                                              const std::string&)) {
    for (const auto& old_entry : old_list) {
      const std::string name = scope + "." + old_entry.name();
      if (const auto* entry = Find(new_list, old_entry.name())) {
        (this->*compare)(old_entry, *entry, name);
      } else {
        Note(name + " is gone");
      }
    }
  }

  void CompareMessage(const DescriptorProto& old_message, const DescriptorProto& message,
                      const std::string& name) {
    CompareAll(old_message.field(), message.field(), name, &Comparison::CompareField);
    CompareAll(old_message.nested_type(), message.nested_type(), name, &Comparison::CompareMessage);
    CompareAll(old_message.enum_type(), message.enum_type(), name, &Comparison::CompareEnum);
  }

  void CompareField(const FieldDescriptorProto& old_field, const FieldDescriptorProto& field,
                    const std::string& name) {
    const bool same = old_field.number() == field.number() && old_field.type() == field.type() &&
                      old_field.label() == field.label() &&
                      old_field.type_name() == field.type_name() &&
                      old_field.has_oneof_index() == field.has_oneof_index();
    if (!same) Note(name + " was " + old_field.ShortDebugString());
  }

  void CompareEnum(const EnumDescriptorProto& old_enum, const EnumDescriptorProto& current,
                   const std::string& name) {
    for (const auto& old_value : old_enum.value()) {
      const auto* value = Find(current.value(), old_value.name());
      if (value == nullptr || value->number() != old_value.number()) {
        Note(name + "." + old_value.name() + " was " + std::to_string(old_value.number()));
      }
    }
  }

  void CompareService(const ServiceDescriptorProto& old_service,
                      const ServiceDescriptorProto& service, const std::string& name) {
    for (const auto& old_method : old_service.method()) {
      const auto* method = Find(service.method(), old_method.name());
      if (method == nullptr || method->SerializeAsString() != old_method.SerializeAsString()) {
        Note(name + "." + old_method.name() + " was " + old_method.ShortDebugString());
      }
    }
  }

  std::vector<std::string> notes_;
};

FileDescriptorSet Committed() {
  std::ifstream file(MOETIER_PROTO_DESCRIPTORS, std::ios::binary);
  FileDescriptorSet set;
  REQUIRE(set.ParseFromIstream(&file));
  return set;
}

// The protos that this program was compiled with.
FileDescriptorSet Current() {
  FileDescriptorSet set;
  for (const auto* file :
       {v1::Fault::descriptor()->file(), v1::Grant::descriptor()->file(),
        v1::Model::descriptor()->file(), v1::StatusReply::descriptor()->file(),
        v1::SlotLease::descriptor()->file(), google::protobuf::Any::descriptor()->file()}) {
    file->CopyTo(set.add_file());
  }
  return set;
}

std::string Lines(const std::vector<std::string>& notes) {
  std::ostringstream text;
  for (const std::string& note : notes) text << note << "\n";
  return text.str();
}

FileDescriptorProto& ExpertsFile(FileDescriptorSet& set) {
  for (FileDescriptorProto& file : *set.mutable_file()) {
    if (file.name() == "moetier/v1/experts.proto") return file;
  }
  FAIL("no experts.proto");
  return *set.mutable_file(0);
}

}  // namespace

TEST_CASE("Proto: nothing of the committed contract was removed, renumbered or retyped", "[rpc]") {
  CHECK(Lines(Comparison().Compare(Committed(), Current())) == "");
}

TEST_CASE("Proto: what was added is committed too (ninja update_proto_descriptors)", "[rpc]") {
  CHECK(Lines(Comparison().Compare(Current(), Committed())) == "");
}

TEST_CASE("Proto: the comparison finds a removed, a renumbered and a retyped field", "[rpc]") {
  const std::vector<std::function<void(FileDescriptorProto&)>> breakages = {
      [](FileDescriptorProto& file) { file.mutable_message_type()->DeleteSubrange(0, 1); },
      [](FileDescriptorProto& file) {
        file.mutable_message_type(0)->mutable_field()->DeleteSubrange(0, 1);
      },
      [](FileDescriptorProto& file) {
        file.mutable_message_type(0)->mutable_field(0)->set_number(99);
      },
      [](FileDescriptorProto& file) {
        file.mutable_message_type(0)->mutable_field(0)->set_type(FieldDescriptorProto::TYPE_BYTES);
      },
      [](FileDescriptorProto& file) {
        file.mutable_message_type(0)->mutable_field(0)->set_label(
            FieldDescriptorProto::LABEL_REPEATED);
      },
      [](FileDescriptorProto& file) { file.mutable_enum_type(0)->mutable_value(1)->set_number(9); },
      [](FileDescriptorProto& file) {
        file.mutable_service(0)->mutable_method(0)->set_server_streaming(false);
      },
  };
  for (const auto& breakage : breakages) {
    FileDescriptorSet changed = Current();
    breakage(ExpertsFile(changed));
    CHECK_FALSE(Comparison().Compare(Committed(), changed).empty());
  }
}

TEST_CASE("Proto: Reason has the names and numbers of base/reason.h", "[rpc]") {
  const auto* values = v1::Reason_descriptor();
  for (int i = 0; i < values->value_count(); ++i) {
    const auto* value = values->value(i);
    const auto reason = static_cast<Reason>(value->number());
    CHECK(value->name() == "REASON_" + std::string(ReasonName(reason)));
  }
  // And none of base/reason.h is missing here: unknown numbers have no name of their own there.
  for (int number = 0; number < 256; ++number) {
    const bool in_proto = v1::Reason_IsValid(number);
    const bool in_base =
        number == 0 || ReasonName(static_cast<Reason>(number)) != ReasonName(Reason::kUnspecified);
    INFO(number);
    CHECK(in_proto == in_base);
  }
}

TEST_CASE("Status map: a status carries its fault through the details", "[rpc]") {
  const grpc::Status status =
      ToGrpcStatus({ErrorCode::kDataLoss, Reason::kChecksum, "records.0: offset 4096"},
                   {.field = "experts", .row = 2, .expert = 7});
  CHECK(status.error_code() == grpc::StatusCode::DATA_LOSS);
  CHECK(status.error_message() == "records.0: offset 4096");
  const std::optional<v1::Fault> fault = FaultOf(status);
  REQUIRE(fault.has_value());
  CHECK(fault->code() == 15);
  CHECK(fault->reason() == v1::REASON_CHECKSUM);
  CHECK(fault->field() == "experts");
  CHECK(fault->row() == 2);
  CHECK(fault->expert() == 7);
}

TEST_CASE("Status map: a status without our details has no fault", "[rpc]") {
  CHECK_FALSE(FaultOf(grpc::Status::OK).has_value());
  CHECK_FALSE(FaultOf(grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone")).has_value());
  CHECK_FALSE(FaultOf(grpc::Status(grpc::StatusCode::INTERNAL, "x", "\xFF junk")).has_value());
}

TEST_CASE("Status map: every error code has its own gRPC code", "[rpc]") {
  const std::vector<std::pair<ErrorCode, int>> codes = {
      {ErrorCode::kInvalidArgument, 3}, {ErrorCode::kNotFound, 5},
      {ErrorCode::kAlreadyExists, 6},   {ErrorCode::kFailedPrecondition, 9},
      {ErrorCode::kExhausted, 8},       {ErrorCode::kDataLoss, 15},
      {ErrorCode::kUnavailable, 14},    {ErrorCode::kDeadlineExceeded, 4},
      {ErrorCode::kCancelled, 1},       {ErrorCode::kPermissionDenied, 7},
      {ErrorCode::kUnimplemented, 12},  {ErrorCode::kInternal, 13}};
  for (const auto& [code, number] : codes) {
    CHECK(ToGrpcStatus({code, Reason::kIo, ""}).error_code() == number);
  }
}

TEST_CASE("StatusNumber: every error code has the number that gRPC gives its name", "[rpc]") {
  for (int number = 0; number <= static_cast<int>(ErrorCode::kInternal); ++number) {
    const auto code = static_cast<ErrorCode>(number);
    INFO(ErrorCodeName(code));
    const grpc::Status status = ToGrpcStatus({code, Reason::kIo, "x"});
    const std::map<std::string_view, grpc::StatusCode> known = {
        {"INVALID_ARGUMENT", grpc::StatusCode::INVALID_ARGUMENT},
        {"NOT_FOUND", grpc::StatusCode::NOT_FOUND},
        {"ALREADY_EXISTS", grpc::StatusCode::ALREADY_EXISTS},
        {"FAILED_PRECONDITION", grpc::StatusCode::FAILED_PRECONDITION},
        {"RESOURCE_EXHAUSTED", grpc::StatusCode::RESOURCE_EXHAUSTED},
        {"DATA_LOSS", grpc::StatusCode::DATA_LOSS},
        {"UNAVAILABLE", grpc::StatusCode::UNAVAILABLE},
        {"DEADLINE_EXCEEDED", grpc::StatusCode::DEADLINE_EXCEEDED},
        {"CANCELLED", grpc::StatusCode::CANCELLED},
        {"PERMISSION_DENIED", grpc::StatusCode::PERMISSION_DENIED},
        {"UNIMPLEMENTED", grpc::StatusCode::UNIMPLEMENTED},
        {"INTERNAL", grpc::StatusCode::INTERNAL}};
    CHECK(status.error_code() == known.at(ErrorCodeName(code)));
  }
}

}  // namespace moetier
