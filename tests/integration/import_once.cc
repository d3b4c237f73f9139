#include <fmt/core.h>

#include "tiers/store/importer.h"

// import_once MODEL DIRECTORY: one import with an fsync every few records, for import_kill_test to
// kill. A program of its own, since only a real process dies like one.
int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: import_once MODEL DIRECTORY\n");
    return 2;
  }
  moetier::ImportOptions options;
  options.model_path = argv[1];
  options.store_directory = argv[2];
  options.sync_bytes = 400 << 10;  // four records: slow enough to meet, fast enough to wait for
  const auto summary = moetier::ImportModel(options, moetier::HostFileSystem());
  if (summary) return 0;
  fmt::print(stderr, "{}\n", summary.error().message);
  return 1;
}
