#include "tiers/store/verifier.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "tiers/store/import_plan.h"
#include "tiers/store/index_geometry.h"
#include "tiers/store/indexed_store.h"
#include "tiers/store/record_maker.h"
#include "tiers/store/router_file.h"

namespace moetier {
namespace {

// Makes records again from the model; opened at the first damage.
class RepairSource {
 public:
  static Result<std::unique_ptr<RepairSource>> Open(const StoreIndex& index,
                                                    const std::string& directory,
                                                    const std::string& model_path) {
    Result<ImportPlan> plan = PlanOfStore(index, directory, model_path);
    if (!plan && plan.error().code == ErrorCode::kNotFound && model_path.empty()) {
      plan.error().message += "; if the model has moved, say where it is now with --model";
    }
    if (!plan) return std::move(plan).error();
    auto source = std::unique_ptr<RepairSource>(new RepairSource(*std::move(plan)));
    ASSIGN_OR_RETURN(RecordMaker maker, RecordMaker::Open(source->plan_));
    source->maker_.emplace(std::move(maker));
    return source;
  }

  Result<RecordMaker::Record> Record(size_t layer, uint32_t expert) {
    return maker_->Make(layer, expert);
  }
  // The fingerprint does not cover routers: a model of the same experts may lack this one.
  Result<std::span<const std::byte>> Router(size_t layer, size_t role) {
    const GgufTensor* const tensor = RouterTensors(plan_.model.layers[layer].router)[role];
    if (tensor != nullptr) return maker_->source().Read(*tensor);
    return Error{ErrorCode::kDataLoss, Reason::kChecksum, "the model has no such router tensor"};
  }

 private:
  explicit RepairSource(ImportPlan plan) : plan_(std::move(plan)) {}
  const ImportPlan plan_;
  std::optional<RecordMaker> maker_;
};

Error SourceDiffers(uint64_t is, uint64_t expected) {
  return Error{ErrorCode::kDataLoss, Reason::kChecksum,
               fmt::format("the model gives xxh3 {:016x}, {:016x} was imported: it is damaged too; "
                           "get it again",
                           is, expected)};
}

// One pass over one store. Files are opened once; a missing one is made when it is repaired.
class Verifier {
 public:
  Verifier(const std::string& directory, const VerifyOptions& options, FileSystem& files,
           const VerifyCallback& callback, StoreIndex index)
      : directory_(directory),
        options_(options),
        files_(files),
        extent_files_(index.in_place ? HostFileSystem() : files),
        callback_(callback),
        index_(std::move(index)),
        paths_(index_.ExtentFiles(directory)),
        handles_(paths_.size()),
        sizes_at_start_(paths_.size()) {
    report_.directory = directory;
    report_.kind = index_.kind();
    report_.fingerprint = index_.fingerprint;
    progress_.records_total = index_.TotalExperts();
    for (const IndexLayer& layer : index_.layers) {
      for (const Extent& extent : layer.extents) progress_.bytes_total += extent.bytes;
    }
  }

  Result<VerifyReport> Run() {
    for (size_t layer = 0; layer < index_.layers.size(); ++layer) {
      for (uint32_t expert = 0; expert < index_.layers[layer].experts; ++expert) {
        RETURN_IF_ERROR(VerifyRecord(layer, expert));
      }
    }
    RETURN_IF_ERROR(VerifyRouters());
    RETURN_IF_ERROR(SyncRepaired());
    report_.records = progress_.records_done;
    report_.bytes = progress_.bytes_done;
    return std::move(report_);
  }

 private:
  Status VerifyRecord(size_t ordinal, uint32_t expert) {
    const IndexLayer& layer = index_.layers[ordinal];
    const auto extents = layer.ExtentsOf(expert);
    const Status state = CheckRecord(layer, expert);
    if (!state) {
      DamagedRecord damage{.layer = layer.layer,
                           .expert = ExpertIndex{static_cast<uint16_t>(expert)},
                           .path = paths_[extents[0].file].path,
                           .offset = extents[0].offset,
                           .bytes = extents[0].bytes,
                           .problem = state.error().message,
                           .repaired = false,
                           .repair_problem = {}};
      if (options_.repair) {
        NoteRepair(damage, RepairRecord(ordinal, expert));
        RETURN_IF_ERROR(fatal_);
      }
      report_.damaged.push_back(std::move(damage));
    }
    for (const Extent& extent : extents) progress_.bytes_done += extent.bytes;
    ++progress_.records_done;
    progress_.damaged = static_cast<uint32_t>(report_.damaged.size());
    if (!callback_ || callback_(progress_)) return Ok{};
    RETURN_IF_ERROR(SyncRepaired());
    return Error{
        ErrorCode::kCancelled, Reason::kCancelled,
        fmt::format("verify of {} stopped at {} of {} records, {} of them damaged", directory_,
                    progress_.records_done, progress_.records_total, progress_.damaged)};
  }

  // Reads the record's extents one after another and compares the checksum of them all.
  Status CheckRecord(const IndexLayer& layer, uint32_t expert) {
    const auto extents = layer.ExtentsOf(expert);
    std::array<std::span<const std::byte>, kernels::kPartRoles> pieces;
    for (size_t i = 0; i < extents.size(); ++i) {
      ASSIGN_OR_RETURN(const uint64_t size, SizeAtStart(extents[i].file));
      RETURN_IF_ERROR(CheckSize(extents[i], size));
      ASSIGN_OR_RETURN(StoreFileHandle * file, HandleOf(extents[i].file));
      buffers_[i].resize(extents[i].bytes);
      RETURN_IF_ERROR(file->ReadAt(extents[i].offset, buffers_[i]));
      pieces[i] = buffers_[i];
    }
    const uint64_t actual = ChecksumOf(std::span(pieces).first(extents.size()));
    const uint64_t expected = layer.checksums[expert];
    if (actual == expected) return Ok{};
    return Error{ErrorCode::kDataLoss, Reason::kChecksum,
                 fmt::format("xxh3 {:016x}, {:016x} was expected", actual, expected)};
  }

  // The extent lies inside the size that the index gives, but not always inside the file. A packed
  // file's last record stands for its end, so that every damage that Open refuses is found here.
  Status CheckSize(const Extent& extent, uint64_t size) {
    const uint64_t should_be = paths_[extent.file].bytes;
    const uint64_t end = extent.offset + extent.bytes;
    const bool last = !index_.in_place && AlignUp(end, kRecordAlignment) >= should_be;
    if (last ? size == should_be : size >= end) return Ok{};
    return Error{ErrorCode::kDataLoss, Reason::kShortRead,
                 fmt::format("{} has {} bytes, the index says {}", paths_[extent.file].path, size,
                             should_be)};
  }

  Status RepairRecord(size_t ordinal, uint32_t expert) {
    const IndexLayer& layer = index_.layers[ordinal];
    if (index_.in_place) {
      return Error{ErrorCode::kFailedPrecondition, Reason::kChecksum,
                   "the model file itself is damaged: get it again"};
    }
    RETURN_IF_ERROR(OpenRepairSource());
    ASSIGN_OR_RETURN(const RecordMaker::Record record, source_->Record(ordinal, expert));
    const uint64_t expected = layer.checksums[expert];
    if (record.xxh3 != expected) return SourceDiffers(record.xxh3, expected);
    const Extent& extent = layer.ExtentsOf(expert)[0];
    ASSIGN_OR_RETURN(StoreFileHandle * file, WritableHandleOf(extent.file));
    return file->WriteAt(extent.offset, record.bytes);
  }

  // A wrong repair source or a full disk ends the pass; one record that resists does not.
  void NoteRepair(DamagedRecord& damage, const Status& repair) {
    damage.repaired = repair.has_value();
    if (repair) return;
    damage.repair_problem = repair.error().message;
    if (repair.error().reason != Reason::kChecksum) fatal_ = repair.error();
  }

  Status OpenRepairSource() {
    if (source_) return Ok{};
    ASSIGN_OR_RETURN(source_, RepairSource::Open(index_, directory_, options_.model_path));
    return Ok{};
  }

  // The file as this pass found it, since a repair makes it and lets it grow.
  Result<uint64_t> SizeAtStart(uint32_t file) {
    if (!sizes_at_start_[file]) sizes_at_start_[file] = FindSize(file);
    return *sizes_at_start_[file];
  }
  Result<uint64_t> FindSize(uint32_t file) {
    ASSIGN_OR_RETURN(StoreFileHandle * handle, HandleOf(file));
    return handle->Size();
  }

  Result<StoreFileHandle*> HandleOf(uint32_t file) {
    if (!handles_[file]) {
      ASSIGN_OR_RETURN(handles_[file],
                       extent_files_.Open(paths_[file].path, options_.repair && !index_.in_place
                                                                 ? FileSystem::Mode::kReadWrite
                                                                 : FileSystem::Mode::kRead));
    }
    return handles_[file].get();
  }

  Result<StoreFileHandle*> WritableHandleOf(uint32_t file) {
    if (!handles_[file]) {
      ASSIGN_OR_RETURN(handles_[file], CreateMissing(paths_[file].path));
    }
    return HandleOf(file);
  }

  Result<std::unique_ptr<StoreFileHandle>> CreateMissing(const std::string& path) {
    ASSIGN_OR_RETURN(const bool exists, files_.Exists(path));
    if (exists) return files_.Open(path, FileSystem::Mode::kReadWrite);
    ASSIGN_OR_RETURN(auto file, files_.Open(path, FileSystem::Mode::kCreate));
    RETURN_IF_ERROR(files_.SyncDirectory(directory_));
    return file;
  }

  Status VerifyRouters() {
    for (size_t ordinal = 0; ordinal < index_.layers.size(); ++ordinal) {
      const IndexLayer& layer = index_.layers[ordinal];
      for (size_t role = 0; role < kRouterRoles; ++role) {
        if (layer.routers[role]) RETURN_IF_ERROR(VerifyRouter(ordinal, role));
      }
    }
    return Ok{};
  }

  Status VerifyRouter(size_t ordinal, size_t role) {
    const RouterTensor& tensor = *index_.layers[ordinal].routers[role];
    const LayerIndex layer = index_.layers[ordinal].layer;
    const std::string path = fmt::format("{}/{}", directory_, kRouterFileName);
    const Status state = CheckRouter(tensor, layer, path);
    if (state) return Ok{};
    DamagedRecord damage{.layer = layer,
                         .expert = std::nullopt,
                         .path = path,
                         .offset = tensor.offset,
                         .bytes = tensor.bytes,
                         .problem = state.error().message,
                         .repaired = false,
                         .repair_problem = {}};
    if (options_.repair) {
      NoteRepair(damage, RepairRouter(ordinal, role, path));
      RETURN_IF_ERROR(fatal_);
    }
    report_.damaged.push_back(std::move(damage));
    return Ok{};
  }

  Status CheckRouter(const RouterTensor& tensor, LayerIndex layer, const std::string& path) {
    if (!router_size_at_start_) router_size_at_start_ = OpenRouters(path);
    ASSIGN_OR_RETURN(const uint64_t size, *router_size_at_start_);
    const uint64_t end = tensor.offset + tensor.bytes;
    const bool last = end == index_.router_bytes;
    if (last ? size != index_.router_bytes : size < end) {
      return Error{
          ErrorCode::kDataLoss, Reason::kBadStore,
          fmt::format("{} has {} bytes, the index says {}", path, size, index_.router_bytes)};
    }
    RETURN_IF_ERROR(ReadRouterTensor(*routers_, tensor, layer, path));
    return Ok{};
  }

  Result<uint64_t> OpenRouters(const std::string& path) {
    ASSIGN_OR_RETURN(routers_, files_.Open(path, options_.repair ? FileSystem::Mode::kReadWrite
                                                                 : FileSystem::Mode::kRead));
    return routers_->Size();
  }

  Status RepairRouter(size_t ordinal, size_t role, const std::string& path) {
    const RouterTensor& tensor = *index_.layers[ordinal].routers[role];
    RETURN_IF_ERROR(OpenRepairSource());
    ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, source_->Router(ordinal, role));
    const std::array<std::span<const std::byte>, 1> whole{bytes};
    const uint64_t actual = ChecksumOf(whole);
    if (actual != tensor.xxh3) return SourceDiffers(actual, tensor.xxh3);
    if (!routers_) {
      ASSIGN_OR_RETURN(routers_, CreateMissing(path));
    }
    return routers_->WriteAt(tensor.offset, bytes);
  }

  // What was repaired is durable, and a file that had grown is as long as the index says.
  Status SyncRepaired() {
    const bool repaired = std::any_of(report_.damaged.begin(), report_.damaged.end(),
                                      [](const DamagedRecord& record) { return record.repaired; });
    if (!repaired) return Ok{};
    for (size_t file = 0; file < handles_.size(); ++file) {
      if (!handles_[file] || index_.in_place) continue;
      RETURN_IF_ERROR(handles_[file]->Truncate(paths_[file].bytes));
      RETURN_IF_ERROR(handles_[file]->Sync());
    }
    if (!routers_) return Ok{};
    RETURN_IF_ERROR(routers_->Truncate(index_.router_bytes));
    return routers_->Sync();
  }

  const std::string& directory_;
  const VerifyOptions& options_;
  FileSystem& files_;         // the store's
  FileSystem& extent_files_;  // the records': the host's for model files
  const VerifyCallback& callback_;
  StoreIndex index_;
  std::vector<StoreFile> paths_;
  std::vector<std::unique_ptr<StoreFileHandle>> handles_;        // of paths_, opened at first use
  std::vector<std::optional<Result<uint64_t>>> sizes_at_start_;  // of paths_, when first wanted
  std::unique_ptr<StoreFileHandle> routers_;
  std::optional<Result<uint64_t>> router_size_at_start_;
  std::unique_ptr<RepairSource> source_;
  std::array<std::vector<std::byte>, kernels::kPartRoles> buffers_;
  Status fatal_ = Ok{};
  VerifyProgress progress_;
  VerifyReport report_;
};

}  // namespace

bool VerifyReport::good() const {
  return std::all_of(damaged.begin(), damaged.end(),
                     [](const DamagedRecord& record) { return record.repaired; });
}

Result<VerifyReport> VerifyStore(const std::string& directory, const VerifyOptions& options,
                                 FileSystem& files, const VerifyCallback& callback) {
  std::unique_ptr<DirectoryLock> lock;
  if (options.repair) {
    ASSIGN_OR_RETURN(lock, files.Lock(directory));
  }
  ASSIGN_OR_RETURN(StoreIndex index, ReadStoreIndex(directory, files));
  RETURN_IF_ERROR(IndexGeometry(index, fmt::format("{}/{}", directory, kIndexFileName)));
  if (index.in_place) RETURN_IF_ERROR(CheckSourcesUnchanged(index, directory));
  return Verifier(directory, options, files, callback, std::move(index)).Run();
}

}  // namespace moetier
