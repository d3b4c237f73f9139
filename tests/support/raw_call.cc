#include "tests/support/raw_call.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>

#include <chrono>
#include <vector>

#include "base/check.h"

namespace moetier {
namespace {

void* Tag(uintptr_t number) { return reinterpret_cast<void*>(number); }

// Waits for one operation; true when it succeeded.
bool Next(grpc::CompletionQueue& queue) {
  void* tag = nullptr;
  bool ok = false;
  const auto deadline = std::chrono::system_clock::now() + std::chrono::seconds(10);
  MOE_CHECK(queue.AsyncNext(&tag, &ok, deadline) == grpc::CompletionQueue::GOT_EVENT,
            "a raw call hangs");
  return ok;
}

std::string Text(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string text;
  if (!buffer.Dump(&slices).ok()) return text;
  for (const grpc::Slice& slice : slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return text;
}

}  // namespace

RawReply RawCall(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                 const std::string& bytes) {
  return RawStream(channel, method, {bytes});
}

RawReply RawStream(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                   const std::vector<std::string>& messages) {
  grpc::CompletionQueue queue;
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  const auto call = stub.PrepareCall(&context, method, &queue);
  RawReply reply;
  call->StartCall(Tag(1));
  Next(queue);
  for (const std::string& bytes : messages) {
    const grpc::Slice slice(bytes);
    call->Write(grpc::ByteBuffer(&slice, 1), Tag(2));
    if (!Next(queue)) break;  // the server has ended it
  }
  call->WritesDone(Tag(5));
  Next(queue);
  grpc::ByteBuffer received;
  call->Read(&received, Tag(3));
  if (Next(queue)) reply.message = Text(received);
  call->Finish(&reply.status, Tag(4));
  Next(queue);
  return reply;
}

Health HealthOf(const std::shared_ptr<grpc::Channel>& channel, const std::string& service) {
  // HealthCheckRequest.service = 1; HealthCheckResponse.status = 1 (1 serving, 2 not serving).
  std::string request = "\x0A";
  request.push_back(static_cast<char>(service.size()));
  const RawReply reply = RawCall(channel, "/grpc.health.v1.Health/Check", request + service);
  if (reply.message == std::string("\x08\x01", 2)) return Health::kServing;
  if (reply.message == std::string("\x08\x02", 2)) return Health::kNotServing;
  return Health::kUnknown;
}

}  // namespace moetier
