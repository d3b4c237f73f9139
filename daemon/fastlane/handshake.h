#ifndef MOETIER_DAEMON_FASTLANE_HANDSHAKE_H_
#define MOETIER_DAEMON_FASTLANE_HANDSHAKE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>

#include "base/result.h"
#include "moetier/fastlane_wire.h"
#include "tiers/store/model_geometry.h"

// The handshake's messages as values.

namespace moetier {

struct Hello {
  uint64_t fingerprint = 0;    // 0: not known
  uint32_t max_rows = 0;       // 0: the daemon's choice
  uint32_t max_in_flight = 0;  // 0: the daemon's choice
  uint32_t file_count = 0;     // at most MOETIER_WIRE_MAX_FILES
  std::string client;
  std::string model;
};

// What a client of a gRPC session shows to map an arena of its model.
struct MapRequest {
  uint64_t session = 0;
  std::string token;  // MOETIER_WIRE_TOKEN bytes
  uint32_t pool = 0;
};

// What it shows to have the memory of a slot that it has leased on a device.
struct MapSlotRequest {
  uint64_t session = 0;
  std::string token;  // MOETIER_WIRE_TOKEN bytes
  uint64_t lease = 0;
};

// A connection's first message. Pure; any bytes may come in. kInvalidArgument with kBadType (none
// of these, another major version), kBadShape (its length) or kTooLarge (too many files).
using FirstMessage = std::variant<Hello, MapRequest, MapSlotRequest>;
Result<FirstMessage> ParseFirstMessage(std::span<const std::byte> message);

moetier_wire_refuse MakeRefuse(const Error& error);
// The head of a message of ours.
moetier_wire_head MakeHead(moetier_wire_kind kind, size_t size);

// The one of all the model's layers as the wire has it; unknown when they differ.
moetier_wire_activation WireActivation(const ModelGeometry& geometry);

// `text` into a zero-terminated field, cut at a whole character.
void PutText(std::span<char> field, const std::string& text);

}  // namespace moetier

#endif  // MOETIER_DAEMON_FASTLANE_HANDSHAKE_H_
