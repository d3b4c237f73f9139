#include "tiers/store/store_catalog.h"

#include <algorithm>
#include <filesystem>

#include "base/unique_fd.h"
#include "tiers/store/import_journal.h"
#include "tiers/store/indexed_store.h"

namespace moetier {
namespace {

constexpr size_t kMaxSlugLength = 80;  // with the fingerprint well below NAME_MAX (255)

bool IsStoreDirectory(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::exists(path / kIndexFileName, error) ||
         std::filesystem::exists(path / kJournalFileName, error);
}

void FillFromIndex(const StoreIndex& index, StoreInfo& info) {
  info.name = index.name;
  info.architecture = index.architecture;
  info.kind = index.kind();
  info.fingerprint = index.fingerprint;
  info.layers = static_cast<uint32_t>(index.layers.size());
  info.experts = index.TotalExperts();
  info.disk_bytes = index.router_bytes;
  for (const IndexLayer& layer : index.layers) {
    info.record_bytes += layer.experts * layer.record_bytes;
  }
  for (const StoreFile& file : index.data_files) info.disk_bytes += file.bytes;
  for (const SourceFile& source : index.sources) info.source_paths.push_back(source.path);
}

StoreInfo Describe(const std::string& directory) {
  StoreInfo info;
  info.directory = directory;
  const Result<StoreIndex> index = ReadStoreIndex(directory, HostFileSystem());
  if (!index) {
    const bool unfinished = index.error().code == ErrorCode::kNotFound;
    info.state = unfinished ? StoreState::kUnfinished : StoreState::kDamaged;
    info.problem = index.error().message;
    return info;
  }
  FillFromIndex(*index, info);
  if (const auto store = ExpertStore::Open(directory); !store) {
    info.state = StoreState::kDamaged;
    info.problem = store.error().message;
  }
  return info;
}

}  // namespace

std::string_view StoreStateName(StoreState state) {
  switch (state) {
    case StoreState::kComplete:
      return "complete";
    case StoreState::kUnfinished:
      return "unfinished";
    case StoreState::kDamaged:
      return "damaged";
  }
  return "unknown";
}

std::string StoreDirectoryName(std::string_view model_name, uint64_t fingerprint) {
  std::string slug;
  for (const char c : model_name.substr(0, kMaxSlugLength)) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.';
    const bool capital = c >= 'A' && c <= 'Z';
    if (letter) slug += c;
    if (capital) slug += static_cast<char>(c - 'A' + 'a');
    if (!letter && !capital && !slug.empty() && slug.back() != '-') slug += '-';
  }
  // No hidden directories and no "..".
  slug.erase(0, slug.find_first_not_of(".-"));
  while (!slug.empty() && slug.back() == '-') slug.pop_back();
  return fmt::format("{}-{:016x}", slug.empty() ? "model" : slug, fingerprint);
}

Result<std::vector<StoreInfo>> ListStores(const std::string& root) {
  std::vector<StoreInfo> stores;
  if (IsStoreDirectory(root)) {
    stores.push_back(Describe(root));
    return stores;
  }
  std::error_code error;
  std::filesystem::directory_iterator entries(root, error);
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    if (IsStoreDirectory(entries->path())) stores.push_back(Describe(entries->path()));
  }
  if (error) return ErrnoError(error.value(), fmt::format("list {}", root));
  std::sort(stores.begin(), stores.end(),
            [](const StoreInfo& a, const StoreInfo& b) { return a.directory < b.directory; });
  return stores;
}

}  // namespace moetier
