#ifndef MOETIER_TESTS_SUPPORT_RECORDED_ROUTES_H_
#define MOETIER_TESTS_SUPPORT_RECORDED_ROUTES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace moetier {

// The experts of one layer's visit by one token, in the router's order; key = layer * 32 + expert.
using Group = std::vector<uint32_t>;
// What one engine asked for, call by call.
using Route = std::vector<Group>;

inline constexpr uint32_t kGraniteLayers = 24;
inline constexpr uint32_t kGraniteKeys = kGraniteLayers * 32;
inline constexpr uint32_t kGraniteTopK = 8;
inline constexpr uint32_t kDemoLayers = 6;
inline constexpr uint32_t kDemoKeys = kDemoLayers * 32;

// 64 decoded tokens of each of three prompts.
const std::map<std::string, Route>& GraniteRoutes();
// 1024 tokens of the demo model.
const Route& DemoRoute();

}  // namespace moetier

#endif  // MOETIER_TESTS_SUPPORT_RECORDED_ROUTES_H_
