#include "tiers/store/store_index.h"

#include <xxhash.h>

#include <bit>

#include "tiers/store/byte_codec.h"

namespace moetier {
namespace {

constexpr std::string_view kMagic = "MOETIDX\n";
constexpr size_t kChecksumBytes = sizeof(uint64_t);
constexpr uint8_t kGateBiasBit = 1, kUpBiasBit = 2, kDownBiasBit = 4;

void PutRouter(ByteWriter& out, const RouterTensor& tensor) {
  out.Put(tensor.ggml_type);
  for (const uint64_t value :
       {tensor.columns, tensor.rows, tensor.offset, tensor.bytes, tensor.xxh3}) {
    out.Put(value);
  }
}

void PutLayer(ByteWriter& out, const IndexLayer& layer) {
  const kernels::ExpertShape& shape = layer.shape;
  out.Put(Raw(layer.layer));
  out.Put(static_cast<uint16_t>(layer.experts));
  out.Put(static_cast<uint8_t>(shape.activation));
  out.Put(shape.ffn);
  for (const kernels::WeightType type : {shape.gate, shape.up, shape.down}) {
    out.Put(static_cast<uint8_t>(type));
  }
  out.Put(static_cast<uint8_t>((shape.gate_bias ? kGateBiasBit : 0) |
                               (shape.up_bias ? kUpBiasBit : 0) |
                               (shape.down_bias ? kDownBiasBit : 0)));
  out.Put(layer.record_bytes);
  out.Put(static_cast<uint8_t>(layer.extents_per_record));
  uint8_t routers = 0;
  for (size_t role = 0; role < kRouterRoles; ++role) {
    if (layer.routers[role]) routers = static_cast<uint8_t>(routers | 1u << role);
  }
  out.Put(routers);
  for (const auto& router : layer.routers) {
    if (router) PutRouter(out, *router);
  }
  for (uint32_t expert = 0; expert < layer.experts; ++expert) {
    for (const Extent& extent : layer.ExtentsOf(expert)) {
      out.Put(extent.file);
      out.Put(extent.offset);
      out.Put(extent.bytes);
    }
    out.Put(layer.checksums[expert]);
  }
}

// Only names that we could have given: no path, no hidden file, none of the store's own files.
bool IsDataFileName(std::string_view name) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyz0123456789-.";
  return name.starts_with("experts-") && name.ends_with(".bin") &&
         name.find_first_not_of(kAllowed) == std::string_view::npos;
}

bool IsSourcePath(std::string_view path) {
  return path.starts_with('/') && path.find('\0') == std::string_view::npos;
}

bool Fits(uint64_t offset, uint64_t bytes, uint64_t file_bytes) {
  return bytes <= file_bytes && offset <= file_bytes - bytes;
}

// Walks the table once; every function leaves the reader behind what it has taken.
class IndexParser {
 public:
  IndexParser(std::span<const std::byte> table, const std::string& path)
      : reader_(table), path_(path) {}

  Result<StoreIndex> Parse() {
    RETURN_IF_ERROR(ParseHead());
    RETURN_IF_ERROR(ParseFiles());
    uint32_t layers = 0;
    if (!reader_.Get(layers)) return Truncated("the layer count");
    if (layers == 0 || layers > kMaxLayers) return Damaged("{} layers", layers);
    for (uint32_t i = 0; i < layers; ++i) RETURN_IF_ERROR(ParseLayer());
    if (reader_.remaining() != 0) return Damaged("{} bytes left over", reader_.remaining());
    return std::move(index_);
  }

 private:
  template <typename... Args>
  Error Damaged(fmt::format_string<Args...> format, Args&&... args) const {
    return Error{ErrorCode::kDataLoss, Reason::kBadStore,
                 fmt::format("{} is damaged before byte {}: {}; remove it and import again", path_,
                             reader_.offset(), fmt::format(format, std::forward<Args>(args)...))};
  }
  Error Truncated(std::string_view what) const { return Damaged("it ends inside {}", what); }

  Status ParseHead() {
    uint8_t in_place = 0, form = 0, score = 0, zero = 0;
    if (!reader_.Get(index_.layout_version) || !reader_.Get(in_place) || !reader_.Get(form) ||
        !reader_.Get(score) || !reader_.Get(zero) || !reader_.Get(index_.fingerprint)) {
      return Truncated("the header");
    }
    if (in_place > 1 || form > 1 || zero != 0 ||
        score > static_cast<uint8_t>(RouterScore::kSoftmaxAfterTopK)) {
      return Damaged("in place {}, form {}, router score {}, reserved {}", in_place, form, score,
                     zero);
    }
    index_.in_place = in_place == 1;
    index_.form = static_cast<kernels::RecordForm>(form);
    index_.router_score = static_cast<RouterScore>(score);
    if (!reader_.GetText(index_.name, kMaxNameLength) ||
        !reader_.GetText(index_.architecture, kMaxNameLength) || !reader_.Get(index_.hidden) ||
        !reader_.Get(index_.top_k)) {
      return Truncated("the model's names and sizes");
    }
    if (index_.hidden == 0 || index_.hidden > kernels::kMaxHidden || index_.top_k > kMaxExperts) {
      return Damaged("hidden {}, top k {}", index_.hidden, index_.top_k);
    }
    return Ok{};
  }

  Status ParseFiles() {
    uint32_t sources = 0;
    if (!reader_.Get(sources)) return Truncated("the source count");
    if (sources == 0 || sources > kMaxFiles) return Damaged("{} source files", sources);
    for (uint32_t i = 0; i < sources; ++i) {
      SourceFile source;
      if (!reader_.GetText(source.path, kMaxPathLength) || !reader_.Get(source.bytes) ||
          !reader_.Get(source.mtime_ns)) {
        return Truncated("the source files");
      }
      if (!IsSourcePath(source.path) || source.bytes > kMaxStoreFileBytes) {
        return Damaged("source file {} is no absolute path or has {} bytes", i, source.bytes);
      }
      index_.sources.push_back(std::move(source));
    }
    uint32_t data_files = 0;
    if (!reader_.Get(data_files)) return Truncated("the data file count");
    if (data_files > kMaxFiles || (data_files == 0) != index_.in_place) {
      return Damaged("{} data files", data_files);
    }
    for (uint32_t i = 0; i < data_files; ++i) {
      StoreFile file;
      if (!reader_.GetText(file.path, kMaxNameLength) || !reader_.Get(file.bytes)) {
        return Truncated("the data files");
      }
      if (!IsDataFileName(file.path) || file.bytes > kMaxStoreFileBytes) {
        return Damaged("data file {} has a bad name or {} bytes", i, file.bytes);
      }
      index_.data_files.push_back(std::move(file));
    }
    if (!reader_.Get(index_.router_bytes)) return Truncated("the router file's size");
    if (index_.router_bytes > kMaxStoreFileBytes) {
      return Damaged("router file of {} bytes", index_.router_bytes);
    }
    return Ok{};
  }

  Status ParseLayer() {
    IndexLayer layer;
    uint8_t routers = 0;
    RETURN_IF_ERROR(ParseShape(layer, routers));
    for (size_t role = 0; role < kRouterRoles; ++role) {
      if ((routers & 1u << role) == 0) continue;
      const bool matrix = role == static_cast<size_t>(RouterRole::kWeight);
      RETURN_IF_ERROR(ParseRouter(layer.routers[role], matrix ? index_.hidden : layer.experts,
                                  matrix ? layer.experts : 1));
    }
    // The table's own length bounds what is allocated for it.
    const uint64_t record_entry = layer.extents_per_record * uint64_t{kExtentBytes} + 8;
    if (reader_.remaining() / record_entry < layer.experts) {
      return Truncated(fmt::format("blk.{}'s {} records", Raw(layer.layer), layer.experts));
    }
    layer.extents.reserve(size_t{layer.experts} * layer.extents_per_record);
    layer.checksums.reserve(layer.experts);
    for (uint32_t expert = 0; expert < layer.experts; ++expert) {
      RETURN_IF_ERROR(ParseRecord(layer, expert));
    }
    index_.layers.push_back(std::move(layer));
    return Ok{};
  }

  Status ParseShape(IndexLayer& layer, uint8_t& routers) {
    uint16_t number = 0, experts = 0;
    uint8_t activation = 0, biases = 0, extents = 0, gate = 0, up = 0, down = 0;
    kernels::ExpertShape& shape = layer.shape;
    if (!reader_.Get(number) || !reader_.Get(experts) || !reader_.Get(activation) ||
        !reader_.Get(shape.ffn) || !reader_.Get(gate) || !reader_.Get(up) || !reader_.Get(down) ||
        !reader_.Get(biases) || !reader_.Get(layer.record_bytes) || !reader_.Get(extents) ||
        !reader_.Get(routers)) {
      return Truncated("a layer's head");
    }
    layer.layer = LayerIndex{number};
    if (!index_.layers.empty() && index_.layers.back().layer >= layer.layer) {
      return Damaged("blk.{} after blk.{}", number, Raw(index_.layers.back().layer));
    }
    if (experts == 0 || experts > kMaxExperts || shape.ffn == 0 || shape.ffn > kernels::kMaxFfn) {
      return Damaged("blk.{} has {} experts of {} rows", number, experts, shape.ffn);
    }
    for (const uint8_t type : {gate, up, down}) {
      if (kernels::FindWeightType(type) == nullptr) {
        return Damaged("blk.{} has the unknown weight type {}", number, type);
      }
    }
    const uint32_t parts = 3 + static_cast<uint32_t>(std::popcount(biases));
    if (activation > static_cast<uint8_t>(kernels::Activation::kSwiGluClamped) ||
        biases > (kGateBiasBit | kUpBiasBit | kDownBiasBit) || routers >= 1u << kRouterRoles ||
        extents != (index_.in_place ? parts : 1)) {
      return Damaged("blk.{}: activation {}, biases {}, {} extents, routers {}", number, activation,
                     biases, extents, routers);
    }
    layer.experts = experts;
    layer.extents_per_record = extents;
    shape.hidden = index_.hidden;
    shape.activation = static_cast<kernels::Activation>(activation);
    shape.gate = static_cast<kernels::WeightType>(gate);
    shape.up = static_cast<kernels::WeightType>(up);
    shape.down = static_cast<kernels::WeightType>(down);
    shape.gate_bias = (biases & kGateBiasBit) != 0;
    shape.up_bias = (biases & kUpBiasBit) != 0;
    shape.down_bias = (biases & kDownBiasBit) != 0;
    return Ok{};
  }

  Status ParseRouter(std::optional<RouterTensor>& out, uint64_t columns, uint64_t rows) {
    RouterTensor tensor;
    if (!reader_.Get(tensor.ggml_type) || !reader_.Get(tensor.columns) ||
        !reader_.Get(tensor.rows) || !reader_.Get(tensor.offset) || !reader_.Get(tensor.bytes) ||
        !reader_.Get(tensor.xxh3)) {
      return Truncated("a router tensor");
    }
    const kernels::WeightTypeInfo* const type = kernels::FindWeightType(tensor.ggml_type);
    // columns and rows equal bounded numbers, so the product below cannot overflow.
    if (type == nullptr || tensor.columns != columns || tensor.rows != rows ||
        columns % type->block_weights != 0 ||
        tensor.bytes != rows * (columns / type->block_weights) * type->block_bytes ||
        !Fits(tensor.offset, tensor.bytes, index_.router_bytes)) {
      return Damaged("router tensor of type {}, {} x {}, {} bytes at {} of {}", tensor.ggml_type,
                     tensor.rows, tensor.columns, tensor.bytes, tensor.offset, index_.router_bytes);
    }
    out = tensor;
    return Ok{};
  }

  Status ParseRecord(IndexLayer& layer, uint32_t expert) {
    for (uint32_t i = 0; i < layer.extents_per_record; ++i) {
      Extent extent;
      if (!reader_.Get(extent.file) || !reader_.Get(extent.offset) || !reader_.Get(extent.bytes)) {
        return Truncated("an extent");
      }
      const bool right_size =
          index_.in_place || (extent.bytes == layer.record_bytes &&
                              AlignDown(extent.offset, kRecordAlignment) == extent.offset);
      if (!right_size || !Fits(extent.offset, extent.bytes, FileBytes(extent.file))) {
        return Damaged("blk.{} expert {}: {} bytes at {} of file {} ({} bytes)", Raw(layer.layer),
                       expert, extent.bytes, extent.offset, extent.file, FileBytes(extent.file));
      }
      layer.extents.push_back(extent);
    }
    uint64_t checksum = 0;
    if (!reader_.Get(checksum)) return Truncated("a checksum");
    layer.checksums.push_back(checksum);
    return Ok{};
  }

  // 0 for a file that the index does not have.
  uint64_t FileBytes(uint32_t file) const {
    if (index_.in_place) return file < index_.sources.size() ? index_.sources[file].bytes : 0;
    return file < index_.data_files.size() ? index_.data_files[file].bytes : 0;
  }

  static constexpr size_t kMaxNameLength = kMaxIndexNameLength;
  static constexpr size_t kMaxPathLength = 4096;  // PATH_MAX
  static constexpr uint32_t kMaxFiles = 4096;     // shards or stripes; the largest models have ~200
  static constexpr uint32_t kExtentBytes = 20;

  ByteReader reader_;
  const std::string& path_;
  StoreIndex index_;
};

}  // namespace

StoreKind StoreIndex::kind() const {
  if (in_place) return StoreKind::kInPlace;
  return form == kernels::RecordForm::kRows16 ? StoreKind::kPackedRows16 : StoreKind::kPackedSource;
}

std::vector<StoreFile> StoreIndex::ExtentFiles(const std::string& directory) const {
  std::vector<StoreFile> files;
  if (in_place) {
    for (const SourceFile& source : sources) files.push_back({source.path, source.bytes});
  } else {
    for (const StoreFile& file : data_files) {
      files.push_back({directory + "/" + file.path, file.bytes});
    }
  }
  return files;
}

uint32_t StoreIndex::TotalExperts() const {
  uint32_t total = 0;
  for (const IndexLayer& layer : layers) total += layer.experts;
  return total;
}

std::vector<std::byte> SerializeStoreIndex(const StoreIndex& index) {
  ByteWriter out;
  out.PutBytes(std::as_bytes(std::span(kMagic)));
  out.Put(kIndexFormatVersion);
  out.Put(index.layout_version);
  out.Put(static_cast<uint8_t>(index.in_place));
  out.Put(static_cast<uint8_t>(index.form));
  out.Put(static_cast<uint8_t>(index.router_score));
  out.Put(uint8_t{0});
  out.Put(index.fingerprint);
  out.PutText(index.name);
  out.PutText(index.architecture);
  out.Put(index.hidden);
  out.Put(index.top_k);
  out.Put(static_cast<uint32_t>(index.sources.size()));
  for (const SourceFile& source : index.sources) {
    out.PutText(source.path);
    out.Put(source.bytes);
    out.Put(source.mtime_ns);
  }
  out.Put(static_cast<uint32_t>(index.data_files.size()));
  for (const StoreFile& file : index.data_files) {
    out.PutText(file.path);
    out.Put(file.bytes);
  }
  out.Put(index.router_bytes);
  out.Put(static_cast<uint32_t>(index.layers.size()));
  for (const IndexLayer& layer : index.layers) PutLayer(out, layer);
  const uint64_t checksum = XXH3_64bits(out.bytes().data(), out.bytes().size());
  out.Put(checksum);
  return std::move(out).Take();
}

Result<StoreIndex> ParseStoreIndex(std::span<const std::byte> bytes, const std::string& path) {
  const auto damaged = [&](std::string what) {
    return Error{ErrorCode::kDataLoss, Reason::kBadStore,
                 fmt::format("{}: {}; remove it and import again", path, what)};
  };
  ByteReader head(bytes);
  uint64_t magic = 0, expected_magic = 0;
  uint32_t version = 0;
  std::memcpy(&expected_magic, kMagic.data(), sizeof expected_magic);
  if (!head.Get(magic) || !head.Get(version) || bytes.size() < head.offset() + kChecksumBytes) {
    return damaged(fmt::format("{} bytes are too few for a store index", bytes.size()));
  }
  if (magic != expected_magic) return damaged("this is no store index");
  if (version != kIndexFormatVersion) {
    return Error{ErrorCode::kFailedPrecondition, Reason::kBadStore,
                 fmt::format("{} has store format {}, this build reads {}; import the model again "
                             "into a new directory",
                             path, version, kIndexFormatVersion)};
  }
  const auto table = bytes.first(bytes.size() - kChecksumBytes);
  uint64_t checksum = 0;
  std::memcpy(&checksum, bytes.data() + table.size(), kChecksumBytes);
  const uint64_t actual = XXH3_64bits(table.data(), table.size());
  if (actual != checksum) {
    return damaged(fmt::format("its xxh3 is {:016x}, {:016x} was expected (truncated or damaged)",
                               actual, checksum));
  }
  return IndexParser(table.subspan(head.offset()), path).Parse();
}

}  // namespace moetier
