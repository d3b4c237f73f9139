// FastLaneServer's handshake: from HELLO to GRANT or REFUSE, from MAP to ARENA and from MAP_SLOT to
// SLOT, or REFUSE.

#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/text_size.h"
#include "daemon/fastlane/fast_lane_server.h"
#include "daemon/transport/model_choice.h"

namespace moetier {

Status FastLaneServer::TakeFirst(uint64_t number, Connection& connection, LaneMessage message) {
  RETURN_IF_ERROR(CheckWhole(message));
  ASSIGN_OR_RETURN(FirstMessage first, ParseFirstMessage(message.bytes));
  if (const auto* map = std::get_if<MapRequest>(&first)) {
    return TakeMap(number, connection, *map);  // descriptors that came with it are closed
  }
  if (const auto* slot = std::get_if<MapSlotRequest>(&first)) {
    return TakeMapSlot(number, connection, *slot);
  }
  connection.hello = std::get<Hello>(std::move(first));
  connection.name = fmt::format("\"{}\"", connection.hello.client);
  return TakeHello(number, connection, std::move(message.files));
}

Status FastLaneServer::TakeHello(uint64_t number, Connection& connection,
                                 std::vector<UniqueFd> files) {
  const Hello& hello = connection.hello;
  if (hello.file_count != files.size()) {
    return Error{ErrorCode::kInvalidArgument, Reason::kBadShape,
                 fmt::format("HELLO: file_count = {}, and {} descriptors came", hello.file_count,
                             files.size())};
  }
  RETURN_IF_ERROR(CheckRoom());
  if (hello.model.empty() && hello.fingerprint != 0) {
    if (std::optional<ModelInfo> model = FindServing(core_, hello.fingerprint)) {
      Conclude(number, *std::move(model));
      return Ok{};
    }
    if (files.empty()) {
      return Error{
          ErrorCode::kNotFound, Reason::kUnknownModel,
          fmt::format("no model with the fingerprint {:016x} is loaded", hello.fingerprint)};
    }
  }
  if (hello.model.empty() && !files.empty()) {
    return ResolveFiles(number, connection, std::move(files));
  }
  Conclude(number, ChooseModel(core_, hello.model));
  return Ok{};
}

Status FastLaneServer::ResolveFiles(uint64_t number, Connection& connection,
                                    std::vector<UniqueFd> files) {
  connection.wanted = std::make_shared<std::atomic<bool>>(true);
  connection.stage = Stage::kResolving;
  return resolver_->Resolve(
      std::move(files), connection.wanted, [this, number](Result<ModelInfo> model) {
        Post([this, number, found = std::move(model)] { Conclude(number, found); });
      });
}

void FastLaneServer::Conclude(uint64_t number, const Result<ModelInfo>& model) {
  const auto found = connections_.find(number);
  if (found == connections_.end()) return;  // the client has gone meanwhile
  if (!model) return Refuse(number, model.error());
  const Status granted = Grant(found->second, *model);
  if (!granted) Refuse(number, granted.error());
}

Status FastLaneServer::TakeMap(uint64_t number, Connection& connection, const MapRequest& request) {
  connection.name = fmt::format("session {}", request.session);
  RETURN_IF_ERROR(CheckDraining());
  if (!options_.find_session) {
    return Error{ErrorCode::kUnimplemented, Reason::kNotYet, "MAP: this daemon maps no arenas"};
  }
  ASSIGN_OR_RETURN(ModelInfo model, options_.find_session(request.session, request.token));
  if (request.pool > UINT8_MAX) {
    return Error{ErrorCode::kInvalidArgument, Reason::kBadPool,
                 fmt::format("MAP: there is no pool {}", request.pool)};
  }
  const PoolId pool{static_cast<uint8_t>(request.pool)};
  connection.stage = Stage::kMapping;
  return MapLater([this, number, pool, model = std::move(model)] {
    // A task is copyable, a descriptor is not.
    auto arena = std::make_shared<const Result<ResidencyCalls::SharedArena>>(
        core_.residency().OpenArena(model.id, pool));
    Post([this, number, pool, model, arena] { ConcludeMap(number, model, pool, *arena); });
  });
}

Status FastLaneServer::MapLater(std::function<void()> map) {
  if (maps_.Add(std::move(map))) return Ok{};
  return Error{ErrorCode::kExhausted, Reason::kQuota,
               fmt::format("{} clients wait for memory to map already, the most allowed; try "
                           "again later",
                           kMaxMapping)};
}

void FastLaneServer::ConcludeMap(uint64_t number, const ModelInfo& model, PoolId pool,
                                 const Result<ResidencyCalls::SharedArena>& arena) {
  const auto found = connections_.find(number);
  if (found == connections_.end()) return;  // the client has gone meanwhile
  if (!arena) return Refuse(number, arena.error());
  const int socket = found->second.socket.get();
  moetier_wire_arena answer{};
  answer.head = MakeHead(MOETIER_WIRE_ARENA, sizeof answer);
  answer.fingerprint = model.fingerprint;
  answer.bytes = arena->bytes;
  answer.pool = Raw(pool);
  const std::array<int, 1> files = {arena->fd.get()};
  if (SendOnLane(socket, std::as_bytes(std::span(&answer, 1)), files)) {
    log_.info("{} (process {}) has been given the arena of {} in pool {} to map",
              found->second.name, PeerProcess(socket), model.name, Raw(pool));
  } else {
    log_.warn("fast lane: {} did not take its arena", found->second.name);
  }
  Close(number);
}

Status FastLaneServer::TakeMapSlot(uint64_t number, Connection& connection,
                                   const MapSlotRequest& request) {
  connection.name = fmt::format("session {}", request.session);
  connection.maps_slot = true;
  RETURN_IF_ERROR(CheckDraining());
  RETURN_IF_ERROR(CheckTrusted(connection.socket.get()));  // first: it tells nothing of sessions
  if (!options_.find_session) {
    return Error{ErrorCode::kUnimplemented, Reason::kNotYet,
                 "MAP_SLOT: this daemon maps no memory"};
  }
  ASSIGN_OR_RETURN(ModelInfo model, options_.find_session(request.session, request.token));
  const LeaseId lease{request.lease};
  connection.stage = Stage::kMapping;
  return MapLater([this, number, session = SessionId{request.session}, lease,
                   model = std::move(model)] {
    auto memory = std::make_shared<const Result<ResidencyCalls::LeasedMemory>>(
        core_.residency().OpenSlot(session, lease, MOETIER_WIRE_MAX_FILES));
    Post([this, number, lease, model, memory] { ConcludeMapSlot(number, model, lease, *memory); });
  });
}

Status FastLaneServer::CheckTrusted(int socket) const {
  const std::optional<uid_t> user = PeerUser(socket);
  if (user && std::ranges::find(options_.trusted_users, *user) != options_.trusted_users.end()) {
    return Ok{};
  }
  return Error{ErrorCode::kPermissionDenied, Reason::kBadConfig,
               fmt::format("MAP_SLOT: the user {} is not trusted with a device's memory, which it "
                           "could also write; list it under fastlane.trusted_users",
                           user ? fmt::to_string(*user) : "of this connection")};
}

void FastLaneServer::ConcludeMapSlot(uint64_t number, const ModelInfo& model, LeaseId lease,
                                     const Result<ResidencyCalls::LeasedMemory>& memory) {
  const auto found = connections_.find(number);
  if (found == connections_.end()) return;  // the client has gone meanwhile
  if (!memory) return Refuse(number, memory.error());
  const ExportedSlot& slot = memory->slot;
  moetier_wire_device_slot answer{};
  answer.head = MakeHead(MOETIER_WIRE_SLOT, sizeof answer);
  answer.fingerprint = model.fingerprint;
  answer.lease = Raw(lease);
  answer.granule = slot.granule.count();
  answer.offset = slot.offset.count();
  answer.bytes = memory->bytes;
  answer.memory = slot.memory.kind == ExportedMemory::Kind::kCuda ? MOETIER_WIRE_MEMORY_CUDA
                                                                  : MOETIER_WIRE_MEMORY_HOST;
  answer.file_count = static_cast<uint32_t>(slot.memory.granules.size());
  PutText(answer.device, slot.device);
  std::vector<int> files;
  for (const UniqueFd& granule : slot.memory.granules) files.push_back(granule.get());
  const int socket = found->second.socket.get();
  if (SendOnLane(socket, std::as_bytes(std::span(&answer, 1)), files)) {
    counters_.CountExportedSlot();
    log_.info("{} (process {}) has been given the slot of its lease {} on {} to map",
              found->second.name, PeerProcess(socket), Raw(lease), slot.device);
  } else {
    log_.warn("fast lane: {} did not take its slot", found->second.name);
  }
  Close(number);
}

Status FastLaneServer::CheckDraining() const {
  if (!draining_.load()) return Ok{};
  return Error{ErrorCode::kUnavailable, Reason::kDraining,
               "the daemon is stopping and takes no new sessions"};
}

Status FastLaneServer::CheckRoom() const {
  RETURN_IF_ERROR(CheckDraining());
  if (sessions_ >= options_.max_sessions) {
    return Error{ErrorCode::kExhausted, Reason::kQuota,
                 fmt::format("{} fast-lane sessions are attached, the most allowed; raise "
                             "fastlane.max_sessions",
                             sessions_)};
  }
  return Ok{};
}

Status FastLaneServer::CheckMemory(const LaneShape& shape) const {
  Bytes granted;
  for (const auto& [number, connection] : connections_) {
    if (connection.ring != nullptr) granted += Bytes(connection.ring->page().layout().page_bytes);
  }
  for (const auto& ring : closing_) granted += Bytes(ring->page().layout().page_bytes);
  const Bytes page(PlanLane(shape).page_bytes);
  const Bytes left = options_.memory - std::min(granted, options_.memory);
  if (page <= left) return Ok{};
  return Error{
      ErrorCode::kExhausted, Reason::kQuota,
      fmt::format("the session's memory would be {} ({} calls of {} rows of {} values), {} "
                  "of {} are left beside {} sessions: raise fastlane.memory, or lower "
                  "fastlane.max_rows or fastlane.max_in_flight",
                  FormatSize(page), shape.slots, shape.max_rows, shape.max_hidden, FormatSize(left),
                  FormatSize(options_.memory), sessions_)};
}

LaneShape FastLaneServer::ShapeFor(const Hello& hello, const ModelInfo& model) const {
  const auto wanted = [](uint32_t value, uint32_t most) {
    return value == 0 ? most : std::min(value, most);
  };
  LaneShape shape{.slots = wanted(hello.max_in_flight, options_.max_in_flight),
                  .max_rows = wanted(hello.max_rows, options_.max_rows),
                  .max_top_k = 1,
                  .max_hidden = model.geometry->hidden};
  for (const LayerGeometry& layer : model.geometry->layers) {
    shape.max_top_k = std::max(shape.max_top_k, std::min(layer.experts, kMaxTopK));
  }
  return shape;
}

Status FastLaneServer::Grant(Connection& connection, ModelInfo model) {
  RETURN_IF_ERROR(CheckRoom());
  const LaneShape wanted = ShapeFor(connection.hello, model);
  RETURN_IF_ERROR(CheckMemory(wanted));
  ASSIGN_OR_RETURN(LanePage page, LanePage::Create(wanted));
  UniqueFd doorbell(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!doorbell) return ErrnoError(errno, "make a session's doorbell: eventfd");
  const int doorbell_number = doorbell.get();
  auto record = book_.Open({.client = connection.hello.client,
                            .model = model.id,
                            .model_name = model.name,
                            .transport = "fastlane",
                            .since = clock_.Now(),
                            .hold = std::exchange(model.hold, nullptr)});
  const uint32_t max_rows = page.shape().max_rows;
  auto ring = std::make_shared<LaneRing>(
      LaneRing::Options{.model = std::move(model),
                        .record = record,
                        .limits = {.max_rows = max_rows, .lanes = lanes_}},
      std::move(page), std::move(doorbell), clock_, counters_);
  if (Status added = poller_->Add(ring); !added) {
    book_.Close(record->id);
    return added;
  }
  connection.stage = Stage::kGranted;
  connection.ring = std::move(ring);
  ++sessions_;
  if (!SendGrant(connection, doorbell_number)) {
    return Error{ErrorCode::kUnavailable, Reason::kIo, "the client did not take its grant"};
  }
  connection.ring->page().CloseDescriptor();
  log_.info("session {} of \"{}\" (process {}) attached to {} over the fast lane", Raw(record->id),
            record->client, PeerProcess(connection.socket.get()), record->model_name);
  return Ok{};
}

bool FastLaneServer::SendGrant(const Connection& connection, int doorbell) const {
  LaneRing& ring = *connection.ring;
  const LaneLayout& layout = ring.page().layout();
  const LaneShape& shape = ring.page().shape();
  moetier_wire_grant grant{};
  grant.head = MakeHead(MOETIER_WIRE_GRANT, sizeof grant);
  grant.session = Raw(ring.id());
  grant.fingerprint = ring.model().fingerprint;
  grant.page_bytes = layout.page_bytes;
  grant.slots_offset = layout.slots_offset;
  grant.slot_bytes = layout.slot_bytes;
  grant.experts_offset = layout.experts_offset;
  grant.weights_offset = layout.weights_offset;
  grant.hidden_offset = layout.hidden_offset;
  grant.output_offset = layout.output_offset;
  grant.max_rows = shape.max_rows;
  grant.max_in_flight = shape.slots;
  grant.max_top_k = shape.max_top_k;
  grant.max_hidden = shape.max_hidden;
  PutText(grant.model, ring.model().name);
  PutText(grant.arithmetic, ring.model().arithmetic);
  PutText(grant.daemon_version, options_.version);
  grant.activation = WireActivation(*ring.model().geometry);
  const std::array<int, 2> files = {ring.page().descriptor(), doorbell};
  return SendOnLane(connection.socket.get(), std::as_bytes(std::span(&grant, 1)), files);
}

void FastLaneServer::Refuse(uint64_t number, const Error& error) {
  const auto found = connections_.find(number);
  if (found == connections_.end()) return counters_.CountRefusal(error.reason);
  if (found->second.maps_slot) {
    counters_.CountRefusedExport(error.reason);
  } else {
    counters_.CountRefusal(error.reason);
  }
  log_.info("fast lane: refused {}: {}", found->second.name, error.message);
  const moetier_wire_refuse refuse = MakeRefuse(error);
  (void)SendOnLane(found->second.socket.get(), std::as_bytes(std::span(&refuse, 1)), {});
  Close(number);
}

}  // namespace moetier
