#ifndef MOETIER_TESTS_SUPPORT_RAW_CALL_H_
#define MOETIER_TESTS_SUPPORT_RAW_CALL_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace moetier {

// The first message and the status of a call made with raw bytes.
struct RawReply {
  std::string message;
  grpc::Status status;
};

// Calls "/package.Service/Method" with one message of `bytes`, which need be no message, and
// half-closes. Works for unary and streaming methods.
RawReply RawCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                 const std::string& bytes);

// The same with several messages of one stream.
RawReply RawStream(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                   const std::vector<std::string>& messages);

enum class Health : uint8_t { kServing, kNotServing, kUnknown };

// What grpc.health.v1.Health/Check says of a service; kUnknown for one without an entry.
Health HealthOf(const std::shared_ptr<grpc::Channel>& channel, const std::string& service);

}  // namespace moetier

#endif  // MOETIER_TESTS_SUPPORT_RAW_CALL_H_
