#include "daemon/ctl/trace_files.h"

#include <fmt/format.h>

#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"
#include "daemon/ctl/command.h"
#include "daemon/ctl/npy.h"

namespace moetier {
namespace {

// Closes what it writes, so that a full disk is seen.
class OutputFile {
 public:
  explicit OutputFile(std::string path) : path_(std::move(path)), file_(path_, std::ios::binary) {}

  void Write(std::string_view bytes) {
    file_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  void Write(std::span<const int32_t> values) {
    const auto bytes = std::as_bytes(values);
    Write({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  Status Close() {
    file_.close();
    if (file_) return Ok{};
    return ErrnoError(errno, "write " + path_);
  }

 private:
  const std::string path_;
  std::ofstream file_;
};

Status WriteRoutes(const std::string& path, const TraceAssembly::Shape& shape, uint64_t tokens,
                   std::span<const TraceAssembly::Segment> segments) {
  OutputFile file(path);
  const std::vector<uint64_t> dimensions{tokens, shape.layers.size(), shape.top_k};
  file.Write(NpyPreamble(NpyType::kI32, dimensions));
  for (const TraceAssembly::Segment& segment : segments) file.Write(segment.experts);
  return file.Close();
}

Status WriteSegments(const std::string& path, std::span<const int32_t> bounds) {
  OutputFile file(path);
  const std::vector<uint64_t> dimensions{bounds.size()};
  file.Write(NpyPreamble(NpyType::kI32, dimensions));
  file.Write(bounds);
  return file.Close();
}

}  // namespace

Status WriteTrace(const std::string& directory, const TraceManifest& manifest,
                  std::span<const TraceAssembly::Segment> segments) {
  const size_t picks = manifest.shape.layers.size() * manifest.shape.top_k;
  std::vector<int32_t> bounds{0};
  nlohmann::ordered_json sessions = nlohmann::ordered_json::array();
  for (const TraceAssembly::Segment& segment : segments) {
    bounds.push_back(bounds.back() + static_cast<int32_t>(segment.experts.size() / picks));
    sessions.push_back(segment.session);
  }
  const auto tokens = static_cast<uint64_t>(bounds.back());
  RETURN_IF_ERROR(WriteRoutes(directory + "/routes.npy", manifest.shape, tokens, segments));
  RETURN_IF_ERROR(WriteSegments(directory + "/segments.npy", bounds));
  const nlohmann::ordered_json json = {{"format", "moetier routing trace"},
                                       {"version", 1},
                                       {"model", manifest.model},
                                       {"fingerprint", FingerprintText(manifest.fingerprint)},
                                       {"layers", manifest.shape.layers},
                                       {"experts", manifest.experts},
                                       {"top_k", manifest.shape.top_k},
                                       {"tokens", tokens},
                                       {"sessions", sessions},
                                       {"seconds", manifest.seconds},
                                       {"incomplete_tokens", manifest.incomplete},
                                       {"lost_calls", manifest.lost}};
  OutputFile file(directory + "/manifest.json");
  // A model's name may hold bytes that are no UTF-8.
  file.Write(json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  return file.Close();
}

}  // namespace moetier
