#include <catch2/catch.hpp>
#include <chrono>

#include "daemon/rpc/status_map.h"
#include "daemon/transport/model_choice.h"
#include "tests/support/rpc_fixture.h"

namespace moetier {
namespace {

v1::AttachRequest Attach(const std::string& model, const std::string& client = "test") {
  v1::AttachRequest request;
  request.set_model(model);
  request.set_client(client);
  return request;
}

std::optional<v1::Fault> Refusal(AttachedClient&& client) {
  REQUIRE_FALSE(client.attached());
  return FaultOf(client.Finish());
}

v1::Grant GrantWith(const RpcServer::Options& options) {
  RpcFixture fixture(options);
  return AttachedClient(fixture.Connect()).grant();
}

}  // namespace

TEST_CASE("Attach: the first event grants limits, pools, lanes, model and token", "[rpc]") {
  RpcFixture fixture;
  AttachedClient client(fixture.Connect(), Attach("small"));
  REQUIRE(client.attached());
  const v1::Grant& grant = client.grant();
  CHECK(grant.session() != 0);
  CHECK(grant.token().size() == 16);
  CHECK(grant.limits().max_rows() == 8192);
  CHECK(grant.limits().max_in_flight() == 4);
  CHECK(grant.pools(0).name() == "ram0");
  CHECK(grant.pools(0).kind() == v1::POOL_KIND_RAM);
  CHECK(grant.lanes(0).kind() == v1::LANE_KIND_CPU);
  CHECK(grant.arithmetic() == "fake-1");
  CHECK(grant.daemon_version() == "test 1");
  CHECK(grant.model().fingerprint() == 0x1122334455667788);
  REQUIRE(grant.model().geometry().layers_size() == 3);
  CHECK(grant.model().geometry().layers(0).layer() == 1);
  CHECK(grant.model().geometry().layers(0).gate_type() == "Q8_0");
  CHECK(grant.model().geometry().layers(0).activation() == "swiglu");
  CHECK_FALSE(grant.model().geometry().layers(2).compute());
}

TEST_CASE("Attach: the grant names the fast lane's socket, if there is one", "[rpc]") {
  CHECK(GrantWith(RpcFixture::DefaultOptions()).fast_lane_address().empty());
  RpcServer::Options options = RpcFixture::DefaultOptions();
  options.fast_lane_address = "/run/x.sock.fastlane";
  CHECK(GrantWith(options).fast_lane_address() == "/run/x.sock.fastlane");
}

TEST_CASE("Attach: two sessions get different numbers and tokens", "[rpc]") {
  RpcFixture fixture;
  AttachedClient one(fixture.Connect());
  AttachedClient two(fixture.Connect());
  CHECK(one.grant().session() != two.grant().session());
  CHECK(one.grant().token() != two.grant().token());
}

TEST_CASE("Attach: an empty model name means the only one, and is refused among two", "[rpc]") {
  RpcFixture fixture;
  CHECK(AttachedClient(fixture.Connect(), Attach("")).grant().model().name() == "small");
  fixture.core.AddModel(SmallModel("other", 2));
  const auto fault = Refusal(AttachedClient(fixture.Connect(), Attach("")));
  REQUIRE(fault.has_value());
  CHECK(fault->reason() == v1::REASON_UNKNOWN_MODEL);
  CHECK(AttachedClient(fixture.Connect(), Attach("other")).grant().model().id() == 2);
}

TEST_CASE("Attach: a model from a client's own files is given by name only", "[rpc]") {
  RpcFixture fixture;
  ModelInfo brought = SmallModel("brought", 2);
  brought.directory.clear();
  brought.fingerprint = 77;
  fixture.core.AddModel(brought);
  CHECK(AttachedClient(fixture.Connect(), Attach("")).grant().model().name() == "small");
  CHECK(AttachedClient(fixture.Connect(), Attach("brought")).grant().model().id() == 2);
  CHECK(!FindServing(fixture.core, 77));
  CHECK(FindServing(fixture.core, SmallModel().fingerprint));
}

TEST_CASE("Attach: unknown and loading models and long names are refused with a reason", "[rpc]") {
  RpcFixture fixture;
  ModelInfo loading = SmallModel("loading", 3);
  loading.state = ModelState::kLoading;
  fixture.core.AddModel(loading);
  const auto unknown = Refusal(AttachedClient(fixture.Connect(), Attach("absent")));
  CHECK(unknown.value().reason() == v1::REASON_UNKNOWN_MODEL);
  CHECK(unknown->code() == 5);
  const auto later = Refusal(AttachedClient(fixture.Connect(), Attach("loading")));
  CHECK(later.value().reason() == v1::REASON_LOADING);
  CHECK(later->code() == 14);
  const auto named =
      Refusal(AttachedClient(fixture.Connect(), Attach("small", std::string(129, 'x'))));
  CHECK(named.value().reason() == v1::REASON_TOO_LARGE);
}

TEST_CASE("Attach: one session more than allowed is refused, until one ends", "[rpc]") {
  RpcFixture fixture;
  std::vector<std::unique_ptr<AttachedClient>> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(std::make_unique<AttachedClient>(fixture.Connect()));
    REQUIRE(clients.back()->attached());
  }
  CHECK(Refusal(AttachedClient(fixture.Connect())).value().reason() == v1::REASON_QUOTA);
  const SessionId ended{clients.back()->grant().session()};
  clients.pop_back();
  REQUIRE(fixture.core.WaitForEndedSession(ended));
  CHECK(AttachedClient(fixture.Connect()).attached());
}

TEST_CASE("field_57: the end of the lease ends the session's streams and calls", "[rpc]") {
  RpcFixture fixture;
  fixture.core.HoldCalls();
  const auto channel = fixture.Connect();
  AttachedClient client(channel);
  const v1::SessionRef ref = client.ref();
  DecodeClient decode(client);
  decode.Send(SmallRequest(1));
  REQUIRE(fixture.core.WaitForHeld(1));
  client.Detach();
  REQUIRE(fixture.core.WaitForEndedSession(SessionId{ref.session()}));
  CHECK(fixture.core.HeldCall(0).control->cancelled.load());
  const std::optional<v1::Fault> ended = FaultOf(decode.Finish());
  REQUIRE(ended.has_value());
  CHECK(ended->reason() == v1::REASON_UNKNOWN_SESSION);
  const auto again = FaultOf(DecodeClient(client.stub(), ref).Finish());
  CHECK(again.value().reason() == v1::REASON_UNKNOWN_SESSION);
  CHECK(fixture.server->status().Make().sessions_size() == 0);
}

TEST_CASE("field_57: the end of one session leaves the others' calls alone", "[rpc]") {
  RpcFixture fixture;
  fixture.core.HoldCalls();
  AttachedClient stays(fixture.Connect());
  DecodeClient decode(stays);
  decode.Send(SmallRequest(1));
  REQUIRE(fixture.core.WaitForHeld(1));
  const SessionId ended = [&] {
    AttachedClient goes(fixture.Connect());
    DecodeClient other(goes);
    other.Send(SmallRequest(1));
    REQUIRE(fixture.core.WaitForHeld(2));
    return SessionId{goes.grant().session()};
  }();
  REQUIRE(fixture.core.WaitForEndedSession(ended));
  fixture.core.StartHeld(0);
  CHECK(decode.ReadOne().has_ok());
}

TEST_CASE("Attach: victims and ended transfers go to those who asked for them", "[rpc]") {
  RpcFixture fixture;
  const auto listener_of = [&](const AttachedClient& client) {
    return fixture.core.residency()
        .OpenedSession(SessionId{client.grant().session()})
        .listener.lock();
  };
  const AttachedClient silent(fixture.Connect(), Attach("small"));
  CHECK(silent.grant().features().empty());
  CHECK(listener_of(silent) == nullptr);

  v1::AttachRequest request = Attach("small");
  for (int i = 0; i < 2; ++i) request.add_features(v1::FEATURE_TRANSFER_DONE);
  request.add_features(static_cast<v1::Feature>(99));
  request.add_features(v1::FEATURE_VICTIMS);
  AttachedClient client(fixture.Connect(), request);
  REQUIRE(client.grant().features_size() == 2);
  CHECK(client.grant().features(0) == v1::FEATURE_VICTIMS);
  CHECK(client.grant().features(1) == v1::FEATURE_TRANSFER_DONE);
  const auto listener = listener_of(client);
  REQUIRE(listener != nullptr);
  const ExpertKey key{ModelId{1}, LayerIndex{3}, ExpertIndex{2}};
  listener->OnVictims(std::make_shared<const std::vector<Victim>>(
      1, Victim{.key = key, .pool = PoolId{0}, .generation = 4}));
  listener->OnTransferEnded({.transfer = TransferId{6}, .key = key, .failed = std::nullopt});
  v1::SessionEvent event;
  REQUIRE(client.NextEvent(event));
  REQUIRE(event.victims().victims_size() == 1);
  CHECK(event.victims().victims(0).generation() == 4);
  REQUIRE(client.NextEvent(event));
  CHECK(event.transfer_done().transfer() == 6);
  CHECK(event.transfer_done().key().expert() == 2);
}

TEST_CASE("Attach: only the kinds of events that were asked for come", "[rpc]") {
  RpcFixture fixture;
  v1::AttachRequest request = Attach("small");
  request.add_features(v1::FEATURE_TRANSFER_DONE);
  AttachedClient client(fixture.Connect(), request);
  const auto listener =
      fixture.core.residency().OpenedSession(SessionId{client.grant().session()}).listener.lock();
  REQUIRE(listener != nullptr);
  listener->OnVictims(std::make_shared<const std::vector<Victim>>(
      1, Victim{.key = {}, .pool = PoolId{0}, .generation = 4}));
  listener->OnTransferEnded({.transfer = TransferId{6}, .key = {}, .failed = std::nullopt});
  v1::SessionEvent event;
  REQUIRE(client.NextEvent(event));
  CHECK(event.has_transfer_done());
}

TEST_CASE("Attach: leases that a device's loss has ended are named to who asked for that",
          "[rpc]") {
  RpcFixture fixture;
  v1::AttachRequest request = Attach("small");
  request.add_features(v1::FEATURE_LEASES_LOST);
  AttachedClient client(fixture.Connect(), request);
  REQUIRE(client.grant().features_size() == 1);
  CHECK(client.grant().features(0) == v1::FEATURE_LEASES_LOST);
  request.set_features(0, v1::FEATURE_VICTIMS);
  AttachedClient other(fixture.Connect(), request);
  const Victims victims = std::make_shared<const std::vector<Victim>>(
      1, Victim{.key = {}, .pool = PoolId{1}, .generation = 4});
  for (const AttachedClient* const each : {&client, &other}) {
    const auto listener =
        fixture.core.residency().OpenedSession(SessionId{each->grant().session()}).listener.lock();
    REQUIRE(listener != nullptr);
    listener->OnLeasesLost({.leases = {LeaseId{7}},
                            .pool = PoolId{1},
                            .why = {ErrorCode::kUnavailable, Reason::kDeviceLost, "gpu0 is lost"}});
    listener->OnVictims(victims);
  }
  v1::SessionEvent event;
  REQUIRE(client.NextEvent(event));
  REQUIRE(event.leases_lost().leases_size() == 1);
  CHECK(event.leases_lost().leases(0) == 7);
  CHECK(event.leases_lost().fault().reason() == v1::REASON_DEVICE_LOST);
  REQUIRE(other.NextEvent(event));
  CHECK(event.has_victims());
}

TEST_CASE(
    "Attach: a client that lags behind many victims reads them all, one that never reads is "
    "cut off with the numbers",
    "[rpc]") {
  RpcFixture fixture;
  v1::AttachRequest request = Attach("small");
  request.add_features(v1::FEATURE_VICTIMS);
  AttachedClient client(fixture.Connect(), request);
  const auto listener =
      fixture.core.residency().OpenedSession(SessionId{client.grant().session()}).listener.lock();
  REQUIRE(listener != nullptr);
  const auto batch = std::make_shared<const std::vector<Victim>>(
      256, Victim{.key = {}, .pool = PoolId{0}, .generation = 1});
  for (int i = 0; i < 100; ++i) listener->OnVictims(batch);  // 25 600, unread
  int read = 0;
  v1::SessionEvent event;
  while (read < 25'600 && client.NextEvent(event)) read += event.victims().victims_size();
  CHECK(read == 25'600);
  // What the connection itself takes in is a few hundred KiB.
  for (int i = 0; i < 1000; ++i) listener->OnVictims(batch);
  const std::optional<v1::Fault> cut = FaultOf(client.Finish());
  REQUIRE(cut.has_value());
  CHECK(cut->reason() == v1::REASON_QUOTA);
}

TEST_CASE("Attach: the grant says what may be leased: the core's most, or less if so configured",
          "[rpc]") {
  const auto granted = [](std::optional<MemoryBudget> leased) {
    RpcServer::Options options = RpcFixture::DefaultOptions();
    options.limits.leased = leased;
    RpcFixture fixture(options);
    fixture.core.residency().answers.leasable = Bytes(20'000);
    const AttachedClient client(fixture.Connect());
    const uint64_t bytes = client.grant().limits().max_leased_bytes();
    const auto session =
        fixture.core.residency().OpenedSession(SessionId{client.grant().session()});
    CHECK(session.max_leased.count() == bytes);
    CHECK(session.model == ModelId{1});
    return bytes;
  };
  CHECK(granted(std::nullopt) == 20'000);
  CHECK(granted(Bytes(12'345)) == 12'345);
  CHECK(granted(Bytes(30'000)) == 20'000);
  CHECK(granted(Percent{25}) == SmallGeometry().TotalBytes().count() / 4);
  CHECK(granted(Percent{100}) == 20'000);
}

TEST_CASE("Attach: model changes go to those who asked for them", "[rpc]") {
  RpcFixture fixture;
  v1::AttachRequest request = Attach("small");
  request.add_features(v1::FEATURE_MODEL_CHANGED);
  AttachedClient asks(fixture.Connect(), request);
  AttachedClient silent(fixture.Connect(), Attach("small"));
  REQUIRE(asks.grant().features_size() == 1);
  CHECK(asks.grant().features(0) == v1::FEATURE_MODEL_CHANGED);
  ModelInfo model = SmallModel();
  model.state = ModelState::kUnloading;
  fixture.server->ModelChanged(model);
  v1::SessionEvent event;
  REQUIRE(asks.NextEvent(event));
  CHECK(event.model_changed().model() == "small");
  CHECK(event.model_changed().state() == v1::MODEL_STATE_UNLOADING);
  std::thread stopper([&] { static_cast<void>(fixture.server->Stop(std::chrono::seconds(10))); });
  REQUIRE(silent.NextEvent(event));
  CHECK(event.has_draining());
  stopper.join();
}

TEST_CASE("RpcServer: Stop ends a watcher and a client that never reads", "[rpc]") {
  RpcFixture fixture;
  AttachedClient client(fixture.Connect());
  DecodeClient decode(client);
  for (uint64_t id = 0; id < 4; ++id) decode.Send(SmallRequest(id, 8192, 1));
  const auto channel = fixture.Connect();
  const auto stub = v1::Operator::NewStub(channel);
  grpc::ClientContext context;
  v1::WatchStatusRequest watch;
  watch.set_interval_ms(60'000);
  const auto stream = stub->WatchStatus(&context, watch);
  v1::StatusReply status;
  REQUIRE(stream->Read(&status));
  CHECK(fixture.server->Stop(std::chrono::milliseconds(50)));
  CHECK_FALSE(stream->Finish().ok());
}

}  // namespace moetier
