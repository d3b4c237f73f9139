#ifndef MOETIER_DAEMON_TRANSPORT_WIRE_TEXT_H_
#define MOETIER_DAEMON_TRANSPORT_WIRE_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace moetier {

inline constexpr size_t kMaxWireText = 2000;  // status trailers must stay below gRPC's 8 KiB

// `text` as a proto `string` may hold it: bytes that are not UTF-8 (paths can have them) become
// '?', since a receiver would refuse the whole message; cut to whole characters within `limit`.
std::string WireText(std::string_view text, size_t limit = kMaxWireText);

// True when both are equal; the time depends on the lengths only.
bool EqualInConstantTime(std::string_view a, std::string_view b);

}  // namespace moetier

#endif  // MOETIER_DAEMON_TRANSPORT_WIRE_TEXT_H_
