#include "tiers/store/heat_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace moetier {
namespace {

struct HeatFile {
  std::filesystem::file_time_type written;
  std::string name;
  uint64_t bytes = 0;
  bool may_go = false;
};

// Whose heat the name says the file holds: 16 hexadecimal digits, then an ending that is ours.
std::optional<uint64_t> FingerprintOf(std::string_view name) {
  constexpr size_t kDigits = 16;
  uint64_t fingerprint = 0;
  if (name.size() <= kDigits) return std::nullopt;
  const auto [end, error] =
      std::from_chars(name.data(), name.data() + kDigits, fingerprint, /*base=*/16);
  const std::string_view ending = name.substr(kDigits);
  const bool ours = ending == ".heat" || ending == ".heat.damaged" || ending == ".heat.partial";
  if (error != std::errc() || end != name.data() + kDigits || !ours) return std::nullopt;
  return fingerprint;
}

Error FailedTo(std::string_view verb, const std::string& path, const std::error_code& why) {
  return Error{ErrorCode::kUnavailable, Reason::kIo,
               fmt::format("{} {}: {}", verb, path, why.message())};
}

Result<std::vector<HeatFile>> ListHeatFiles(const std::string& directory,
                                            const std::set<uint64_t>& kept) {
  std::vector<HeatFile> files;
  std::error_code error;
  std::filesystem::directory_iterator entries(directory, error);
  if (error == std::errc::no_such_file_or_directory) return files;
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    const std::filesystem::directory_entry& entry = *entries;
    std::string name = entry.path().filename().string();
    const std::optional<uint64_t> fingerprint = FingerprintOf(name);
    std::error_code gone;
    if (!fingerprint || !entry.is_regular_file(gone)) continue;
    const auto written = entry.last_write_time(gone);
    const uint64_t bytes = gone ? 0 : entry.file_size(gone);
    if (gone) continue;
    const bool is_kept = kept.contains(*fingerprint) && name.ends_with(".heat");
    files.push_back(
        {.written = written, .name = std::move(name), .bytes = bytes, .may_go = !is_kept});
  }
  if (error) return FailedTo("list", directory, error);
  return files;
}

}  // namespace

Result<TrimmedHeatFiles> TrimHeatFiles(const std::string& directory, const HeatFilesBound& bound,
                                       const std::set<uint64_t>& kept) {
  ASSIGN_OR_RETURN(std::vector<HeatFile> files, ListHeatFiles(directory, kept));
  std::ranges::sort(files, [](const HeatFile& a, const HeatFile& b) {
    return a.written != b.written ? a.written < b.written : a.name < b.name;
  });
  size_t count = files.size();
  uint64_t bytes = 0;
  for (const HeatFile& file : files) bytes += file.bytes;
  TrimmedHeatFiles trimmed;
  for (HeatFile& file : files) {
    if (count <= bound.files && bytes <= bound.bytes.count()) break;
    if (!file.may_go) continue;
    const std::string path = directory + "/" + file.name;
    std::error_code error;
    std::filesystem::remove(path, error);
    --count;
    bytes -= file.bytes;
    if (error) {
      trimmed.failed.push_back(FailedTo("remove", path, error));
    } else {
      trimmed.removed.push_back(std::move(file.name));
    }
  }
  return trimmed;
}

}  // namespace moetier
