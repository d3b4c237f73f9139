#include "tiers/store/importer.h"

#include <xxhash.h>

#include <algorithm>
#include <filesystem>

#include "base/text_size.h"
#include "tiers/store/expert_scan.h"
#include "tiers/store/import_journal.h"
#include "tiers/store/import_plan.h"
#include "tiers/store/indexed_store.h"
#include "tiers/store/record_maker.h"
#include "tiers/store/router_file.h"
#include "tiers/store/store_catalog.h"

namespace moetier {
namespace {

constexpr uint64_t kMaxJournalBytes = kMaxIndexBytes;  // it holds less than the index does
constexpr uint64_t kDirectoryBytes = 64 << 10;         // lock, journal, directory blocks

std::string Partial(const std::string& path) { return path + ".partial"; }

// One import into one locked directory. The steps stand in the order in which Run takes them.
class Importer {
 public:
  Importer(const ImportOptions& options, FileSystem& files, const ImportCallback& callback,
           ImportPlan plan, std::string directory)
      : options_(options),
        files_(files),
        callback_(callback),
        plan_(std::move(plan)),
        directory_(std::move(directory)) {
    for (size_t layer = 0; layer < plan_.index.layers.size(); ++layer) {
      for (uint32_t expert = 0; expert < plan_.index.layers[layer].experts; ++expert) {
        records_.push_back({layer, expert});
        progress_.bytes_total += RecordBytes(records_.back());
      }
    }
    progress_.experts_total = static_cast<uint32_t>(records_.size());
    FillSummary();
  }

  Result<ImportSummary> Run() {
    RETURN_IF_ERROR(files_.CreateDirectories(directory_));
    ASSIGN_OR_RETURN(const auto lock, files_.Lock(directory_));
    ASSIGN_OR_RETURN(summary_.already_complete, FindExistingStore());
    if (summary_.already_complete) {
      RETURN_IF_ERROR(RemoveTemporaries());
      return std::move(summary_);
    }
    const Status written = WriteStore();
    if (!written) return Explain(written.error());
    return std::move(summary_);
  }

 private:
  struct RecordId {
    size_t layer = 0;  // counts the plan's layers
    uint32_t expert = 0;
  };

  std::string PathOf(std::string_view name) const { return fmt::format("{}/{}", directory_, name); }
  std::string DataPath() const { return PathOf(plan_.index.data_files[0].path); }

  const IndexLayer& LayerOf(const RecordId& id) const { return plan_.index.layers[id.layer]; }
  uint64_t RecordBytes(const RecordId& id) const {
    uint64_t bytes = 0;
    for (const Extent& extent : LayerOf(id).ExtentsOf(id.expert)) bytes += extent.bytes;
    return bytes;
  }

  void FillSummary() {
    summary_.directory = directory_;
    summary_.kind = plan_.index.kind();
    summary_.fingerprint = plan_.index.fingerprint;
    summary_.name = plan_.index.name;
    summary_.layers = static_cast<uint32_t>(plan_.index.layers.size());
    summary_.experts = progress_.experts_total;
    summary_.record_bytes = progress_.bytes_total;
  }

  // True: this very store is there. An error: something else is, which is not ours to replace.
  Result<bool> FindExistingStore() {
    ASSIGN_OR_RETURN(const bool exists, files_.Exists(PathOf(kIndexFileName)));
    if (!exists) return false;
    ASSIGN_OR_RETURN(const StoreIndex existing, ReadStoreIndex(directory_, files_));
    if (existing.fingerprint != plan_.index.fingerprint || existing.kind() != plan_.index.kind()) {
      return Error{ErrorCode::kAlreadyExists, Reason::kStaleStore,
                   fmt::format("{} holds the {} store of a model with fingerprint {:016x}, not the "
                               "{} store of {:016x}; import into a new directory, or remove this "
                               "one first",
                               directory_, StoreKindName(existing.kind()), existing.fingerprint,
                               StoreKindName(plan_.index.kind()), plan_.index.fingerprint)};
    }
    // A model that was moved: the new index takes the old one's place in one step.
    if (existing.in_place && existing.sources != plan_.index.sources) return false;
    RETURN_IF_ERROR(OpenStore(directory_, files_));
    return true;
  }

  Status WriteStore() {
    RETURN_IF_ERROR(StartOrResume());
    if (!journal_) RETURN_IF_ERROR(DropUnusable());
    RETURN_IF_ERROR(CheckSpace());
    if (!journal_) RETURN_IF_ERROR(Start());
    ASSIGN_OR_RETURN(RecordMaker maker, RecordMaker::Open(plan_));
    RETURN_IF_ERROR(WriteRecords(maker));
    RETURN_IF_ERROR(Report(ImportPhase::kRouters));
    RETURN_IF_ERROR(WriteRouters(maker.source()));
    RETURN_IF_ERROR(Report(ImportPhase::kCommit));
    return Commit();
  }

  ImportIdentity Identity() const {
    const std::vector<std::byte> bytes = SerializeStoreIndex(blank_index_);
    return {.fingerprint = plan_.index.fingerprint,
            .plan = XXH3_64bits(bytes.data(), bytes.size())};
  }

  // Takes up an interrupted import of the same plan; otherwise leaves journal_ empty.
  Status StartOrResume() {
    const std::string path = PathOf(kJournalFileName);
    ASSIGN_OR_RETURN(const bool exists, files_.Exists(path));
    if (!exists) return Ok{};
    ASSIGN_OR_RETURN(const std::vector<std::byte> bytes,
                     ReadWholeFile(files_, path, kMaxJournalBytes));
    const auto contents = ImportJournal::Parse(bytes);
    if (!contents || contents->checksums.size() > records_.size()) return Ok{};
    if (contents->identity.fingerprint != plan_.index.fingerprint) {
      return Error{
          ErrorCode::kAlreadyExists, Reason::kStaleStore,
          fmt::format("{} holds an unfinished import of a model with fingerprint {:016x}, "
                      "not {:016x}; finish that, remove {}, or import into a new directory",
                      directory_, contents->identity.fingerprint, plan_.index.fingerprint, path)};
    }
    // The same model in another form, or from files that have been written since: start over.
    if (contents->identity != Identity()) return Ok{};
    ASSIGN_OR_RETURN(const bool kept, ReopenData(contents->checksums.size()));
    if (!kept) return Ok{};
    ASSIGN_OR_RETURN(journal_, ImportJournal::Continue(files_, path, *contents));
    for (const uint64_t checksum : contents->checksums) MarkDone(checksum);
    summary_.experts_resumed = progress_.experts_done;
    return Ok{};
  }

  // False when the data of the first `done` records is not there.
  Result<bool> ReopenData(size_t done) {
    if (plan_.index.in_place) return true;
    if (done == 0) return false;
    const std::string path = DataPath();
    ASSIGN_OR_RETURN(const bool partial, files_.Exists(Partial(path)));
    ASSIGN_OR_RETURN(const bool renamed, files_.Exists(path));
    if (!partial && !renamed) return false;
    // Interrupted between the renames of Commit: back, and on as usual.
    if (!partial) RETURN_IF_ERROR(files_.Rename(path, Partial(path)));
    ASSIGN_OR_RETURN(data_, files_.Open(Partial(path), FileSystem::Mode::kReadWrite));
    ASSIGN_OR_RETURN(data_bytes_there_, data_->Size());
    const RecordId& last = records_[done - 1];
    return data_bytes_there_ >= LayerOf(last).ExtentsOf(last.expert)[0].offset + RecordBytes(last);
  }

  // Frees what an import of no use has left, before the space is counted.
  Status DropUnusable() {
    data_.reset();
    data_bytes_there_ = 0;
    return RemoveTemporaries();
  }

  Status CheckSpace() {
    const uint64_t index_bytes = SerializeStoreIndex(plan_.index).size();
    const uint64_t wanted =
        plan_.data_bytes + plan_.index.router_bytes + 2 * index_bytes + kDirectoryBytes;
    const uint64_t needed = wanted - std::min(wanted, data_bytes_there_);
    ASSIGN_OR_RETURN(const uint64_t free, files_.FreeBytes(directory_));
    if (free >= needed) return Ok{};
    return Error{ErrorCode::kExhausted, Reason::kOutOfSpace,
                 fmt::format("the store needs {} ({} bytes) more at {}, {} ({} bytes) are free; "
                             "free {} or import elsewhere",
                             FormatSize(Bytes(needed)), needed, directory_, FormatSize(Bytes(free)),
                             free, FormatSize(Bytes(needed - free)))};
  }

  // Both names are durable before the first batch is, so a batch in the journal proves its data.
  Status Start() {
    if (!plan_.index.in_place) {
      ASSIGN_OR_RETURN(data_, files_.Open(Partial(DataPath()), FileSystem::Mode::kCreate));
    }
    ASSIGN_OR_RETURN(journal_, ImportJournal::Create(files_, PathOf(kJournalFileName), Identity()));
    RETURN_IF_ERROR(SyncParent());
    return files_.SyncDirectory(directory_);
  }

  // An earlier run may have been killed between making the directory and syncing its name.
  Status SyncParent() {
    const std::string parent = std::filesystem::path(PathOf(".")).lexically_normal().parent_path();
    const std::string above = std::filesystem::path(parent).parent_path();
    return files_.SyncDirectory(above.empty() ? "." : above);
  }

  void MarkDone(uint64_t checksum) {
    const RecordId& id = records_[progress_.experts_done];
    plan_.index.layers[id.layer].checksums[id.expert] = checksum;
    progress_.bytes_done += RecordBytes(id);
    ++progress_.experts_done;
  }

  Status WriteRecords(RecordMaker& maker) {
    std::vector<uint64_t> batch;
    uint64_t batch_bytes = 0;
    while (progress_.experts_done < records_.size()) {
      const RecordId id = records_[progress_.experts_done];
      ASSIGN_OR_RETURN(const RecordMaker::Record record, maker.Make(id.layer, id.expert));
      if (options_.scan_weights) RETURN_IF_ERROR(ScanWeights(id, record.source));
      if (data_) {
        const Extent& extent = LayerOf(id).ExtentsOf(id.expert)[0];
        RETURN_IF_ERROR(data_->WriteAt(extent.offset, record.bytes));
      }
      MarkDone(record.xxh3);
      batch.push_back(record.xxh3);
      batch_bytes += RecordBytes(id);
      const Status go_on = Report(ImportPhase::kExperts);
      const bool last = progress_.experts_done == records_.size();
      if (batch_bytes >= options_.sync_bytes || last || !go_on) {
        RETURN_IF_ERROR(SyncBatch(batch));
        batch.clear();
        batch_bytes = 0;
      }
      RETURN_IF_ERROR(go_on);
    }
    return Ok{};
  }

  // Refuses weights that make NaN of every row, counts those that are merely odd.
  Status ScanWeights(const RecordId& id, const kernels::SourceExpert& source) {
    const kernels::RecordLayout& layout = plan_.model.geometry.layers[id.layer].record;
    for (size_t role = 0; role < kernels::kPartRoles; ++role) {
      if (!layout.parts[role]) continue;
      const std::string& tensor = plan_.model.layers[id.layer].parts[role]->tensor;
      const ExpertIndex expert{static_cast<uint16_t>(id.expert)};
      const auto scan =
          ScanExpertWeights(layout.parts[role]->type, source.parts[role], tensor, expert);
      if (!scan) {
        return Error{scan.error().code, scan.error().reason,
                     scan.error().message +
                         "; get the model again, or import it without the scan of its weights"};
      }
      if (scan->largest_exponents == 0) continue;
      ++summary_.warning_count;
      if (summary_.warnings.size() == kMaxImportWarnings) continue;
      summary_.warnings.push_back(fmt::format(
          "{} expert {}: {} MXFP4 blocks of exponent 255 (NaN by the OCP specification, read as "
          "2^127), the first is block {}",
          tensor, id.expert, scan->largest_exponents, scan->first_largest_exponent));
    }
    return Ok{};
  }

  Status SyncBatch(std::span<const uint64_t> checksums) {
    if (data_) RETURN_IF_ERROR(data_->Sync());
    return journal_->Append(checksums);
  }

  Status WriteRouters(ExpertSource& source) {
    if (plan_.index.router_bytes == 0) return Ok{};
    ASSIGN_OR_RETURN(const auto file,
                     files_.Open(Partial(PathOf(kRouterFileName)), FileSystem::Mode::kCreate));
    return CopyRouters(plan_.model, source, plan_.index, *file);
  }

  // The index is the store: everything that it names is durable, contents and names, before it is.
  Status Commit() {
    RETURN_IF_ERROR(WriteIndex());
    RETURN_IF_ERROR(files_.SyncDirectory(directory_));
    if (data_) RETURN_IF_ERROR(files_.Rename(Partial(DataPath()), DataPath()));
    if (plan_.index.router_bytes > 0) {
      RETURN_IF_ERROR(files_.Rename(Partial(PathOf(kRouterFileName)), PathOf(kRouterFileName)));
    }
    RETURN_IF_ERROR(files_.SyncDirectory(directory_));
    RETURN_IF_ERROR(files_.Rename(Partial(PathOf(kIndexFileName)), PathOf(kIndexFileName)));
    RETURN_IF_ERROR(files_.SyncDirectory(directory_));
    return RemoveTemporaries();
  }

  Status WriteIndex() {
    const std::vector<std::byte> bytes = SerializeStoreIndex(plan_.index);
    ASSIGN_OR_RETURN(const auto file,
                     files_.Open(Partial(PathOf(kIndexFileName)), FileSystem::Mode::kCreate));
    RETURN_IF_ERROR(file->WriteAt(0, bytes));
    return file->Sync();
  }

  Status RemoveTemporaries() {
    RETURN_IF_ERROR(files_.Remove(PathOf(kJournalFileName)));
    RETURN_IF_ERROR(files_.Remove(Partial(PathOf(kIndexFileName))));
    RETURN_IF_ERROR(files_.Remove(Partial(PathOf(kRouterFileName))));
    if (!plan_.index.in_place) RETURN_IF_ERROR(files_.Remove(Partial(DataPath())));
    return files_.SyncDirectory(directory_);
  }

  Status Report(ImportPhase phase) {
    progress_.phase = phase;
    if (!callback_ || callback_(progress_)) return Ok{};
    return Error{ErrorCode::kCancelled, Reason::kCancelled,
                 fmt::format("import into {} stopped at {} of {} experts; run it again to resume",
                             directory_, progress_.experts_done, progress_.experts_total)};
  }

  // A full disk is no damage: what is written stays, and the message says how to go on.
  Error Explain(const Error& error) const {
    if (error.reason != Reason::kOutOfSpace || progress_.experts_done == 0) return error;
    return Error{
        error.code, error.reason,
        fmt::format("{}; {} of {} are written and kept in {}: make room for {} and run the "
                    "import again to resume",
                    error.message, FormatSize(Bytes(progress_.bytes_done)),
                    FormatSize(Bytes(progress_.bytes_total)), directory_,
                    FormatSize(Bytes(progress_.bytes_total - progress_.bytes_done)))};
  }

  const ImportOptions& options_;
  FileSystem& files_;
  const ImportCallback& callback_;
  ImportPlan plan_;
  const StoreIndex blank_index_ = plan_.index;  // before checksums come in: the plan's identity
  std::string directory_;
  std::vector<RecordId> records_;  // in the order of the data file
  ImportProgress progress_;
  ImportSummary summary_;
  std::unique_ptr<StoreFileHandle> data_;  // none in place
  uint64_t data_bytes_there_ = 0;          // of an interrupted import
  std::optional<ImportJournal> journal_;
};

}  // namespace

Result<ImportSummary> ImportModel(const ImportOptions& options, FileSystem& files,
                                  const ImportCallback& callback) {
  ASSIGN_OR_RETURN(ImportPlan plan, MakeImportPlan({.model_path = options.model_path,
                                                    .form = options.form,
                                                    .in_place = options.in_place,
                                                    .activation = options.activation}));
  std::string directory = options.store_directory;
  if (directory.empty() && options.store_root.empty()) {
    return Error{ErrorCode::kInvalidArgument, Reason::kBadConfig,
                 "neither a store directory nor a root for it is given"};
  }
  if (directory.empty()) {
    directory = fmt::format("{}/{}", options.store_root,
                            StoreDirectoryName(plan.index.name, plan.index.fingerprint));
  }
  return Importer(options, files, callback, std::move(plan), std::move(directory)).Run();
}

}  // namespace moetier
