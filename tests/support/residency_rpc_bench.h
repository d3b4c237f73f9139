#ifndef MOETIER_TESTS_SUPPORT_RESIDENCY_RPC_BENCH_H_
#define MOETIER_TESTS_SUPPORT_RESIDENCY_RPC_BENCH_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/rpc/status_map.h"
#include "tests/support/rpc_fixture.h"

namespace moetier {

// A server with ram0 and a device, and a client of it.
struct ResidencyRpcBench {
  ResidencyRpcBench()
      : fixture(RpcFixture::DefaultOptions(), {}, WithDevice), channel(fixture.Connect()) {}

  static void WithDevice(FakeDaemonCore& core) {
    PoolSnapshot& vram = core.snapshot().pools.emplace_back();
    vram.index = PoolId{1};
    vram.kind = PoolKind::kVram;
    vram.name = "emulated0";
  }

  template <typename Request>
  [[nodiscard]] Request Ask() const {
    Request request;
    *request.mutable_session() = client.ref();
    return request;
  }
  std::vector<std::string> calls() { return core().calls(); }
  FakeResidency& core() { return fixture.core.residency(); }

  RpcFixture fixture;
  std::shared_ptr<grpc::Channel> channel;
  AttachedClient client{channel};
  std::unique_ptr<v1::Residency::Stub> stub = v1::Residency::NewStub(channel);
};

inline void AddKey(google::protobuf::RepeatedPtrField<v1::ExpertKey>& keys, uint32_t layer,
                   uint32_t expert) {
  v1::ExpertKey& key = *keys.Add();
  key.set_layer(layer);
  key.set_expert(expert);
}

// "OK" or the refusal: "BAD_POOL at pool".
inline std::string Outcome(const grpc::Status& status) {
  if (status.ok()) return "OK";
  const std::optional<v1::Fault> fault = FaultOf(status);
  if (!fault) return status.error_message();
  const std::string reason = v1::Reason_Name(fault->reason()).substr(std::string("REASON_").size());
  return fault->field().empty() ? reason : reason + " at " + fault->field();
}

}  // namespace moetier

#endif  // MOETIER_TESTS_SUPPORT_RESIDENCY_RPC_BENCH_H_
