#include <catch2/catch.hpp>
#include <filesystem>

#include "daemon/rpc/models_service.h"
#include "daemon/rpc/status_map.h"
#include "daemon/transport/model_choice.h"
#include "tests/support/raw_call.h"
#include "tests/support/rpc_fixture.h"

namespace moetier {
namespace {

RpcServer::Options WithRoot(const std::string& root) {
  RpcServer::Options options = RpcFixture::DefaultOptions();
  options.model_roots = {root};
  return options;
}

}  // namespace

TEST_CASE("Models: List and Get show what is loaded, an unknown name is NOT_FOUND", "[rpc]") {
  RpcFixture fixture;
  const auto stub = v1::Models::NewStub(fixture.Connect());
  grpc::ClientContext list;
  v1::ListModelsReply models;
  REQUIRE(stub->List(&list, {}, &models).ok());
  REQUIRE(models.models_size() == 1);
  CHECK(models.models(0).store_kind() == v1::STORE_KIND_ROWS16);
  CHECK(models.models(0).source_paths(0) == "/models/small.gguf");
  v1::GetModelRequest get;
  v1::Model model;
  get.set_name("small");
  {
    grpc::ClientContext context;
    REQUIRE(stub->Get(&context, get, &model).ok());
  }
  CHECK(model.geometry().slot_bytes(0) == 4096);
  get.set_name("absent");
  grpc::ClientContext context;
  const grpc::Status status = stub->Get(&context, get, &model);
  CHECK(status.error_code() == grpc::StatusCode::NOT_FOUND);
  CHECK(FaultOf(status).value().reason() == v1::REASON_UNKNOWN_MODEL);
}

TEST_CASE("Models: Load streams progress and the model; a path outside the roots is refused",
          "[rpc]") {
  const testing::TempFolder root;
  const testing::TempFolder elsewhere;
  std::filesystem::create_directory(root.path() + "/store");
  RpcFixture fixture(WithRoot(root.path()));
  const auto stub = v1::Models::NewStub(fixture.Connect());
  v1::LoadModelRequest request;
  request.set_name("second");
  request.set_directory(elsewhere.path());
  v1::Progress progress;
  {
    grpc::ClientContext context;
    const auto stream = stub->Load(&context, request);
    CHECK_FALSE(stream->Read(&progress));
    CHECK(stream->Finish().error_code() == grpc::StatusCode::PERMISSION_DENIED);
  }
  CHECK(fixture.core.admin_calls().empty());
  request.set_directory(root.path() + "/store");
  request.set_ram_bytes(65536);
  grpc::ClientContext context;
  const auto stream = stub->Load(&context, request);
  v1::Progress last;
  while (stream->Read(&progress)) last = progress;
  REQUIRE(stream->Finish().ok());
  CHECK(last.done());
  CHECK(last.model().name() == "second");
  CHECK(fixture.core.admin_calls().front() ==
        "load second " + std::filesystem::canonical(root.path() + "/store").string() + " 65536");
}

TEST_CASE("Models: a link below a root that leads out of it is refused", "[rpc]") {
  const testing::TempFolder root;
  const testing::TempFolder elsewhere;
  std::filesystem::create_directory_symlink(elsewhere.path(), root.path() + "/link");
  const std::vector<std::string> roots = {root.path()};
  CHECK(ResolveUnderRoots(root.path() + "/link", roots).error().code ==
        ErrorCode::kPermissionDenied);
  CHECK(ResolveUnderRoots(root.path() + "/../x", roots).error().code ==
        ErrorCode::kPermissionDenied);
  CHECK(ResolveUnderRoots(root.path() + "-sibling", roots).error().code ==
        ErrorCode::kPermissionDenied);
  CHECK(ResolveUnderRoots("relative", roots).error().code == ErrorCode::kPermissionDenied);
  CHECK(ResolveUnderRoots("", roots).error().code == ErrorCode::kPermissionDenied);
  CHECK(ResolveUnderRoots(root.path(), {}).error().code == ErrorCode::kPermissionDenied);
  CHECK(ResolveUnderRoots(root.path() + "/absent", roots).error().code == ErrorCode::kNotFound);
  CHECK(ResolveUnderRoots(root.path(), roots).has_value());
}

TEST_CASE("Models: Verify names faulty experts and ends with OK", "[rpc]") {
  RpcFixture fixture;
  const auto stub = v1::Models::NewStub(fixture.Connect());
  v1::VerifyModelRequest request;
  request.set_name("small");
  grpc::ClientContext context;
  const auto stream = stub->Verify(&context, request);
  v1::Progress progress;
  std::vector<v1::QuarantinedExpert> faulty;
  bool done = false;
  while (stream->Read(&progress)) {
    faulty.insert(faulty.end(), progress.faulty().begin(), progress.faulty().end());
    done = progress.done();
  }
  CHECK(stream->Finish().ok());
  CHECK(done);
  REQUIRE(faulty.size() == 1);  // also when a newer report took the place of the one that named it
  CHECK(faulty[0].layer() == 3);
  CHECK(faulty[0].offset() == 8192);
  CHECK(faulty[0].reason() == v1::REASON_CHECKSUM);
}

TEST_CASE("Models: Unload tells sessions and health; a failure comes back with its reason",
          "[rpc]") {
  RpcFixture fixture;
  const auto stub = v1::Models::NewStub(fixture.Connect());
  v1::UnloadModelRequest request;
  v1::UnloadModelReply reply;
  request.set_name("small");
  fixture.core.FailNextAdminCall({ErrorCode::kExhausted, Reason::kNoRoom, "leases live"});
  {
    grpc::ClientContext context;
    const grpc::Status status = stub->Unload(&context, request, &reply);
    CHECK(FaultOf(status).value().reason() == v1::REASON_NO_ROOM);
  }
  CHECK(HealthOf(fixture.Connect(), "moetier.v1.Experts/small") == Health::kServing);
  {
    grpc::ClientContext context;
    CHECK(stub->Unload(&context, request, &reply).ok());
  }
  CHECK(HealthOf(fixture.Connect(), "moetier.v1.Experts/small") == Health::kNotServing);
  grpc::ClientContext context;
  CHECK(stub->Unload(&context, request, &reply).error_code() == grpc::StatusCode::NOT_FOUND);
}

TEST_CASE("Operator: Pin and Unpin check the experts and reach the core", "[rpc]") {
  RpcFixture fixture;
  const auto stub = v1::Operator::NewStub(fixture.Connect());
  const auto pin = [&](const std::string& model, uint32_t layer, std::vector<uint32_t> experts) {
    v1::PinRequest request;
    request.set_model(model);
    request.set_layer(layer);
    request.mutable_experts()->Assign(experts.begin(), experts.end());
    grpc::ClientContext context;
    v1::PinReply reply;
    const grpc::Status status = stub->Pin(&context, request, &reply);
    return status.ok() ? fmt::format("{}", reply.changed())
                       : v1::Reason_Name(FaultOf(status).value().reason());
  };
  CHECK(pin("small", 1, {2, 5}) == "2");
  CHECK(pin("small", 3, {}) == "4");
  CHECK(pin("small", 3, {4}) == "REASON_BAD_EXPERT_ID");
  CHECK(pin("small", 2, {0}) == "REASON_UNKNOWN_LAYER");
  CHECK(pin("absent", 1, {0}) == "REASON_UNKNOWN_MODEL");
  v1::PinRequest request;
  request.set_model("small");
  request.set_layer(1);
  grpc::ClientContext context;
  v1::PinReply reply;
  CHECK(stub->Unpin(&context, request, &reply).ok());
  CHECK(reply.changed() == 0);  // as the core says, not what was asked
  CHECK(fixture.core.admin_calls() ==
        std::vector<std::string>{"pin 1 1 2", "pin 1 3 4", "unpin 1 1 8"});
}

TEST_CASE("Operator: Reload says what changed and what needs a restart", "[rpc]") {
  RpcFixture fixture;
  const auto stub = v1::Operator::NewStub(fixture.Connect());
  grpc::ClientContext context;
  v1::ReloadReply reply;
  REQUIRE(stub->Reload(&context, {}, &reply).ok());
  CHECK(reply.changed(0) == "log.level: info -> debug");
  CHECK(reply.needs_restart(0) == "cpu.workers");
}

TEST_CASE("Operator: the status counts sessions, requests, rows and faults by reason", "[rpc]") {
  RpcFixture fixture;
  v1::AttachRequest attach;
  attach.set_client("engine 1.0");
  AttachedClient client(fixture.Connect(), attach);
  DecodeClient decode(client);
  decode.Send(SmallRequest(1, 3));
  CHECK(decode.ReadOne().has_ok());
  decode.Send(SmallRequest(2, 9000));
  CHECK(decode.ReadOne().has_fault());
  const auto stub = v1::Operator::NewStub(fixture.Connect());
  grpc::ClientContext context;
  v1::StatusReply status;
  REQUIRE(stub->GetStatus(&context, {}, &status).ok());
  CHECK(status.version() == "test 1");
  CHECK(status.state() == v1::DAEMON_STATE_READY);
  CHECK(status.requests() == 2);
  CHECK(status.rows() == 3);
  REQUIRE(status.faults_size() == 1);
  CHECK(status.faults(0).reason() == v1::REASON_BAD_ROWS);
  CHECK(status.faults(0).count() == 1);
  REQUIRE(status.sessions_size() == 1);
  CHECK(status.sessions(0).client() == "engine 1.0");
  CHECK(status.sessions(0).requests() == 2);
  CHECK(status.sessions(0).rows() == 3);
  CHECK(status.sessions(0).faults() == 1);
  CHECK(status.sessions(0).in_flight() == 0);
  CHECK(status.sessions(0).since_unix_ms() > 0);
  REQUIRE(status.models_size() == 1);
  CHECK(status.models(0).requests() == 2);
  CHECK(status.models(0).faults() == 1);
}

TEST_CASE("Operator: the status carries the core's pools, reader, quarantine and fallbacks",
          "[rpc]") {
  RpcFixture fixture;
  StatusSnapshot& core = fixture.core.snapshot();
  core.cpu = {.instruction_set = "avx2",
              .kernels = {{.weight_type = "Q4_K", .variant = "prefetch 4 KiB"}},
              .workers = 2,
              .cpus = {0, 1}};
  core.pools[0].budget = 1_GiB;
  core.pools[0].page_size = "2 MiB (huge)";
  SizeClassSnapshot& slots = core.pools[0].classes.emplace_back();
  slots.slots = 8;
  slots.free = 3;
  slots.hits = 11;
  slots.leased = 2;
  core.pools[0].double_resident_bytes = 3_MiB;
  core.reader.description = "io_uring, direct";
  core.reader.reads = 100;
  core.quarantined = {{.key = {ModelId{1}, LayerIndex{3}, ExpertIndex{2}},
                       .file = "records.0",
                       .offset = 42,
                       .reason = Reason::kChecksum,
                       .message = "differs"}};
  core.fallbacks = {{.name = "direct_io", .reason = "EINVAL", .count = 1}};
  core.warnings = {"budget below one token"};
  core.queue_limit = 9;
  const v1::StatusReply status = fixture.server->status().Make();
  CHECK(status.cpu().instruction_set() == "avx2");
  CHECK(status.cpu().kernels(0).variant() == "prefetch 4 KiB");
  CHECK(status.pools(0).bytes_budget() == 1u << 30);
  CHECK(status.pools(0).page_size() == "2 MiB (huge)");
  CHECK(status.pools(0).classes(0).hits() == 11);
  CHECK(status.pools(0).classes(0).free() == 3);
  CHECK(status.pools(0).classes(0).leased() == 2);
  CHECK(status.pools(0).double_resident_bytes() == 3u << 20);
  CHECK(status.reader().description() == "io_uring, direct");
  CHECK(status.models(0).quarantined(0).file() == "records.0");
  CHECK(status.models(0).quarantined(0).offset() == 42);
  CHECK(status.fallbacks(0).name() == "direct_io");
  CHECK(status.warnings(0) == "budget below one token");
  CHECK(status.queue_limit() == 9);
}

TEST_CASE("Operator: the status counts exported slots, and refusals by reason", "[rpc]") {
  RpcFixture fixture;
  fixture.counters.CountExportedSlot();
  fixture.counters.CountRefusedExport(Reason::kUnknownLease);
  fixture.counters.CountRefusal(Reason::kQuota);
  const v1::StatusReply status = fixture.server->status().Make();
  CHECK(status.exports().exported() == 1);
  REQUIRE(status.exports().refused_size() == 1);
  CHECK(status.exports().refused(0).reason() == v1::REASON_UNKNOWN_LEASE);
  CHECK(status.exports().refused(0).count() == 1);
  CHECK(status.faults_size() == 2);
}

TEST_CASE("Operator: WatchStatus sends again without being asked", "[rpc]") {
  RpcFixture fixture;
  const auto stub = v1::Operator::NewStub(fixture.Connect());
  grpc::ClientContext context;
  v1::WatchStatusRequest request;
  request.set_interval_ms(100);
  const auto stream = stub->WatchStatus(&context, request);
  v1::StatusReply status;
  CHECK(stream->Read(&status));
  CHECK(stream->Read(&status));
  context.TryCancel();
  while (stream->Read(&status)) {
  }
  CHECK(stream->Finish().error_code() == grpc::StatusCode::CANCELLED);
}

TEST_CASE("Hint: takes the experts of the session's model and says how many", "[rpc]") {
  RpcFixture fixture;
  const auto channel = fixture.Connect();
  const AttachedClient client(channel);
  const auto stub = v1::Experts::NewStub(channel);
  v1::HintRequest request;
  *request.mutable_session() = client.ref();
  v1::LayerHint& hint = *request.add_hints();
  hint.set_layer(1);
  hint.add_experts(2);
  hint.add_experts(0);
  request.add_hints()->set_layer(99);  // of no experts: it says nothing
  v1::HintReply reply;
  {
    grpc::ClientContext context;
    REQUIRE(stub->Hint(&context, request, &reply).ok());
  }
  CHECK(reply.taken() == 2);
  CHECK(fixture.core.hinted() ==
        std::vector<ExpertKey>{{ModelId{1}, LayerIndex{1}, ExpertIndex{2}},
                               {ModelId{1}, LayerIndex{1}, ExpertIndex{0}}});
  hint.add_experts(4000);
  grpc::ClientContext context;
  const grpc::Status status = stub->Hint(&context, request, &reply);
  CHECK(status.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK(FaultOf(status).value().field() == "hints");
}

TEST_CASE("field_62: bytes that are no message end the call, not the daemon", "[rpc]") {
  RpcFixture fixture;
  const auto channel = fixture.Connect();
  for (const std::string& junk :
       {std::string(300, '\xFF'), std::string("\x0A\xFF\xFF\xFF\xFF\x0F"), std::string(8, '\0')}) {
    CHECK_FALSE(RawCall(channel, "/moetier.v1.Experts/Compute", junk).status.ok());
    CHECK_FALSE(RawCall(channel, "/moetier.v1.Experts/Decode", junk).status.ok());
    CHECK_FALSE(RawCall(channel, "/moetier.v1.Operator/Pin", junk).status.ok());
  }
  CHECK(AttachedClient(channel).attached());
}

TEST_CASE("Health: every service and model has an entry", "[rpc]") {
  RpcFixture fixture;
  const auto channel = fixture.Connect();
  for (const char* service : {"", "moetier.v1.Experts", "moetier.v1.Residency", "moetier.v1.Models",
                              "moetier.v1.Operator", "moetier.v1.Experts/small"}) {
    INFO(service);
    CHECK(HealthOf(channel, service) == Health::kServing);
  }
  CHECK(HealthOf(channel, "moetier.v1.Experts/absent") == Health::kUnknown);
}

TEST_CASE("Reflection: lists the four services", "[rpc]") {
  RpcFixture fixture;
  // ServerReflectionRequest.list_services = 7, any string.
  const RawReply reply =
      RawCall(fixture.Connect(), "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
              std::string("\x3A\x01*", 3));
  for (const char* service :
       {"moetier.v1.Experts", "moetier.v1.Residency", "moetier.v1.Models", "moetier.v1.Operator"}) {
    CHECK(reply.message.find(service) != std::string::npos);
  }
}

TEST_CASE("ChooseModel: the only model, when a client brought it, is named and not chosen",
          "[rpc]") {
  FakeDaemonCore core;
  CHECK(ChooseModel(core, "").value().name == "small");
  ModelInfo brought = SmallModel();
  brought.directory.clear();
  core.AddModel(brought);  // in the place of the other
  const Result<ModelInfo> refused = ChooseModel(core, "");
  REQUIRE(!refused.has_value());
  CHECK(refused.error().reason == Reason::kUnknownModel);
  CHECK(refused.error().message ==
        "model is empty, and the only model, \"small\", was loaded for the client that brought its "
        "files; name it to use it");
  CHECK(ChooseModel(core, "small").has_value());
}

}  // namespace moetier
