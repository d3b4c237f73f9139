#include "tiers/store/gguf_shards.h"

#include <charconv>
#include <filesystem>
#include <map>
#include <utility>

#include "tiers/store/gguf_cursor.h"

namespace moetier {
namespace {

constexpr std::string_view kExtension = ".gguf";
constexpr size_t kMaxFaultLines = 40;      // the rest is counted
constexpr uint64_t kMaxShards = 99'999;    // names have five digits
constexpr size_t kMaxFilesLookedAt = 256;  // when looking for a renamed shard

std::optional<uint64_t> Unsigned(const GgufHeader& header, std::string_view key) {
  const auto found = header.metadata.find(key);
  if (found == header.metadata.end()) return std::nullopt;
  if (const auto* value = std::get_if<uint64_t>(&found->second)) return *value;
  if (const auto* value = std::get_if<int64_t>(&found->second); value && *value >= 0) {
    return static_cast<uint64_t>(*value);
  }
  return std::nullopt;
}

std::string Architecture(const GgufHeader& header) {
  const auto found = header.metadata.find("general.architecture");
  if (found == header.metadata.end()) return {};
  const auto* text = std::get_if<std::string>(&found->second);
  return text == nullptr ? std::string() : *text;
}

std::string BaseName(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

// What is wrong with a set, gathered until all of it has been looked at.
class Faults {
 public:
  void Add(std::string line) { lines_.push_back(std::move(line)); }
  void AddMissing(std::string line) {
    missing_ = true;
    Add(std::move(line));
  }
  [[nodiscard]] bool empty() const { return lines_.empty(); }

  [[nodiscard]] Error ToError(const std::string& prefix, uint32_t count) const {
    std::string text = fmt::format("{}: {} fault{} in the set of {} shards:", prefix, lines_.size(),
                                   lines_.size() == 1 ? "" : "s", count);
    for (size_t i = 0; i < lines_.size() && i < kMaxFaultLines; ++i) text += "\n  " + lines_[i];
    if (lines_.size() > kMaxFaultLines) {
      text += fmt::format("\n  and {} more", lines_.size() - kMaxFaultLines);
    }
    return Error{ErrorCode::kDataLoss, missing_ ? Reason::kMissingShard : Reason::kBadGguf,
                 std::move(text)};
  }

 private:
  std::vector<std::string> lines_;
  bool missing_ = false;
};

// What one shard says of itself, against its name and the first shard.
void CheckShard(const ShardName& name, const GgufFile& file, const GgufFile& first,
                Faults& faults) {
  const std::string base = BaseName(file.path);
  const auto count = Unsigned(file.header, "split.count");
  const auto number = Unsigned(file.header, "split.no");
  if (!count || *count != name.count) {
    faults.Add(fmt::format("{}: split.count is {}, its name says {} shards: another model's file?",
                           base, count ? std::to_string(*count) : "missing", name.count));
  }
  if (!number) {
    faults.Add(fmt::format("{}: split.no is missing", base));
  } else if (*number != name.number - 1) {
    faults.Add(fmt::format("{}: renamed: split.no {} makes it shard {}, its name says {}", base,
                           *number, *number + 1, name.number));
  }
  // The first shard may hold metadata alone; a later one without tensors was cut or made wrong.
  if (file.header.tensors.empty() && name.number != 1) {
    faults.Add(fmt::format("{}: holds no tensors", base));
  }
  const std::string ours = Architecture(file.header);
  const std::string theirs = Architecture(first.header);
  if (!ours.empty() && !theirs.empty() && ours != theirs) {
    faults.Add(fmt::format("{}: general.architecture is {}, that of {} is {}: mixed models", base,
                           Printable(ours), BaseName(first.path), Printable(theirs)));
  }
  const auto total = Unsigned(file.header, "split.tensors.count");
  const auto expected = Unsigned(first.header, "split.tensors.count");
  if (total != expected) {
    faults.Add(fmt::format("{}: split.tensors.count is {}, that of {} is {}: mixed models", base,
                           total ? std::to_string(*total) : "missing", BaseName(first.path),
                           expected ? std::to_string(*expected) : "missing"));
  }
}

void CheckTensorNames(std::span<const GgufFile> files, Faults& faults) {
  std::map<std::string_view, const GgufFile*> owners;
  for (const GgufFile& file : files) {
    for (const GgufTensor& tensor : file.header.tensors) {
      const auto [owner, fresh] = owners.emplace(tensor.name, &file);
      if (fresh) continue;
      faults.Add(fmt::format("{}: tensor {} is in {} too: mixed models", BaseName(file.path),
                             Printable(tensor.name), BaseName(owner->second->path)));
      break;  // one line a file says it
    }
  }
}

void CheckTotal(std::span<const GgufFile> files, Faults& faults) {
  const auto expected = Unsigned(files.front().header, "split.tensors.count");
  size_t total = 0;
  for (const GgufFile& file : files) total += file.header.tensors.size();
  if (expected && *expected != total) {
    faults.Add(
        fmt::format("the shards hold {} tensors, split.tensors.count is {}", total, *expected));
  }
}

// Files beside the set that say they are shards of one like it, by split.no.
std::map<uint64_t, std::string> FindStrays(const ShardName& set) {
  std::map<uint64_t, std::string> strays;
  std::error_code error;
  std::filesystem::path folder = std::filesystem::path(set.prefix).parent_path();
  if (folder.empty()) folder = ".";
  std::filesystem::directory_iterator entries(folder, error);
  size_t looked_at = 0;
  for (; !error && entries != std::filesystem::directory_iterator(); entries.increment(error)) {
    const std::filesystem::path& path = entries->path();
    if (path.extension() != kExtension) continue;
    const auto name = ParseShardName(path.string());
    if (name && BaseName(name->prefix) == BaseName(set.prefix) && name->count == set.count) {
      continue;  // of the set, and looked at there
    }
    if (++looked_at > kMaxFilesLookedAt) break;
    const Result<GgufFile> file = ReadGgufFile(path.string());
    if (!file.has_value() || Unsigned(file->header, "split.count") != set.count) continue;
    const auto number = Unsigned(file->header, "split.no");
    if (number) strays.emplace(*number, path.filename().string());
  }
  return strays;
}

void AddMissingShards(ShardName name, std::span<const uint32_t> numbers, Faults& faults) {
  if (numbers.empty()) return;
  const auto strays = FindStrays(name);
  for (const uint32_t number : numbers) {
    name.number = number;
    const std::string base = BaseName(FormatShardName(name));
    const auto stray = strays.find(number - 1);
    faults.AddMissing(
        stray == strays.end()
            ? fmt::format("{}: missing", base)
            : fmt::format("{}: missing; {} says it is this shard: rename it", base, stray->second));
  }
}

Result<std::vector<GgufFile>> ReadNamedSet(ShardName name) {
  Faults faults;
  std::vector<GgufFile> files;
  std::vector<uint32_t> missing;
  for (name.number = 1; name.number <= name.count; ++name.number) {
    Result<GgufFile> file = ReadGgufFile(FormatShardName(name));
    if (file.has_value()) {
      files.push_back(std::move(file).value());
      CheckShard(name, files.back(), files.front(), faults);
    } else if (file.error().code == ErrorCode::kNotFound) {
      missing.push_back(name.number);
    } else {
      faults.Add(file.error().message);
    }
  }
  AddMissingShards(name, missing, faults);
  CheckTensorNames(files, faults);
  if (files.size() == name.count) CheckTotal(files, faults);
  if (!faults.empty()) return faults.ToError(name.prefix, name.count);
  return files;
}

// What to call a shard that was not given: by the name of one that was, if that tells.
std::string NameOfShard(std::span<const GgufFile> files, uint32_t number, uint32_t count) {
  for (const GgufFile& file : files) {
    std::optional<ShardName> name = ParseShardName(file.path);
    if (!name || name->count != count) continue;
    name->number = number;
    return BaseName(FormatShardName(*name));
  }
  return fmt::format("shard {} of {}", number, count);
}

// The index of the file of each shard; empty places are missing shards.
std::vector<std::optional<size_t>> PlaceShards(std::span<const GgufFile> files, uint32_t count,
                                               Faults& faults) {
  std::vector<std::optional<size_t>> places(count);
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string base = BaseName(files[i].path);
    const auto number = Unsigned(files[i].header, "split.no");
    if (!number || *number >= count) {
      faults.Add(fmt::format("{}: split.no is {}, the set has {} shards: another model's file?",
                             base, number ? std::to_string(*number) : "missing", count));
    } else if (places[*number]) {
      faults.Add(fmt::format("{}: is shard {} like {}: given twice?", base, *number + 1,
                             BaseName(files[*places[*number]].path)));
    } else {
      places[*number] = i;
    }
  }
  return places;
}

}  // namespace

std::optional<ShardName> ParseShardName(std::string_view path) {
  // "-NNNNN-of-MMMMM.gguf"
  constexpr size_t kTail = 6 + 4 + 5 + kExtension.size();
  if (path.size() < kTail || !path.ends_with(kExtension)) return std::nullopt;
  const std::string_view tail = path.substr(path.size() - kTail);
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-") return std::nullopt;
  const auto number = [](std::string_view digits) -> std::optional<uint32_t> {
    uint32_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
    return value;
  };
  const auto first = number(tail.substr(1, 5));
  const auto count = number(tail.substr(10, 5));
  if (!first || !count || *first < 1 || *first > *count) return std::nullopt;
  return ShardName{std::string(path.substr(0, path.size() - kTail)), *first, *count};
}

std::string FormatShardName(const ShardName& name) {
  return fmt::format("{}-{:05}-of-{:05}{}", name.prefix, name.number, name.count, kExtension);
}

Result<std::vector<size_t>> FindShardOrder(std::span<const GgufFile> files) {
  const GgufFile& given = files.front();
  const uint64_t count = Unsigned(given.header, "split.count").value_or(1);
  Faults faults;
  if (count <= 1 && files.size() == 1) {
    CheckTotal(files, faults);
    if (!faults.empty()) return faults.ToError(given.path, 1);
    return std::vector<size_t>{0};
  }
  if (count <= 1 || count > kMaxShards) {
    return Error{ErrorCode::kDataLoss, Reason::kBadGguf,
                 fmt::format("{} files were given, but split.count of {} is {}", files.size(),
                             BaseName(given.path), count)};
  }
  const auto shards = static_cast<uint32_t>(count);
  const auto places = PlaceShards(files, shards, faults);
  std::vector<size_t> order;
  for (uint32_t number = 1; number <= shards; ++number) {
    const std::optional<size_t> place = places[number - 1];
    if (!place) {
      faults.AddMissing(fmt::format("{}: not given", NameOfShard(files, number, shards)));
      continue;
    }
    order.push_back(*place);
    const GgufFile& first = files[places[0].value_or(*place)];
    CheckShard({.prefix = "", .number = number, .count = shards}, files[*place], first, faults);
  }
  CheckTensorNames(files, faults);
  if (order.size() == shards) CheckTotal(files, faults);
  if (!faults.empty()) return faults.ToError(given.path, shards);
  return order;
}

Result<std::vector<GgufFile>> ReadShardSet(const std::string& path) {
  const std::optional<ShardName> name = ParseShardName(path);
  Result<GgufFile> given = ReadGgufFile(path);
  if (given.has_value()) {
    const auto count = Unsigned(given->header, "split.count");
    const bool alone = !count || *count <= 1;
    if (alone) {
      Faults faults;
      std::vector<GgufFile> files;
      files.push_back(std::move(given).value());
      CheckTotal(files, faults);
      if (!faults.empty()) return faults.ToError(path, 1);
      return files;
    }
    if (!name) {
      const uint64_t number = Unsigned(given->header, "split.no").value_or(0) + 1;
      return Error{ErrorCode::kDataLoss, Reason::kMissingShard,
                   fmt::format("{} is shard {} of {} but its name does not end in "
                               "-{:05}-of-{:05}.gguf, so the others cannot be found; rename it",
                               path, number, *count, number, *count)};
    }
  } else if (!name || name->count == 1) {
    return std::move(given).error();
  }
  return ReadNamedSet(*name);
}

}  // namespace moetier
