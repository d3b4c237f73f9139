#ifndef MOETIER_TESTS_SUPPORT_FAKE_HOST_H_
#define MOETIER_TESTS_SUPPORT_FAKE_HOST_H_

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "base/check.h"
#include "tiers/memory_limits.h"

namespace moetier {

// A host of a test's making: /proc and /sys in a folder that goes with the object.
class FakeHost {
 public:
  FakeHost() : path_("/tmp/moetier-host-XXXXXX") {
    MOE_CHECK(::mkdtemp(path_.data()) != nullptr, "make a folder in /tmp");
    Write("proc/meminfo",
          "MemTotal:       134217728 kB\nMemFree:         1048576 kB\n"
          "MemAvailable:   125829120 kB\n");
  }
  ~FakeHost() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  FakeHost(const FakeHost&) = delete;
  FakeHost& operator=(const FakeHost&) = delete;

  void Write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = path_ + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void WriteGroupV1(const std::string& group, const std::string& limit, const std::string& usage,
                    const std::string& stat) const {
    const std::string folder = "sys/fs/cgroup/memory" + group;
    Write(folder + "/memory.limit_in_bytes", limit + "\n");
    Write(folder + "/memory.usage_in_bytes", usage + "\n");
    Write(folder + "/memory.stat", stat);
  }
  void WriteGroupV2(const std::string& group, const std::string& max, const std::string& high,
                    const std::string& current, const std::string& stat) const {
    const std::string folder = "sys/fs/cgroup" + group;
    Write(folder + "/memory.max", max + "\n");
    Write(folder + "/memory.high", high + "\n");
    Write(folder + "/memory.current", current + "\n");
    Write(folder + "/memory.stat", stat);
  }
  [[nodiscard]] std::string path(const std::string& name) const { return path_ + "/" + name; }
  [[nodiscard]] MemoryRoots roots() const { return {.proc = path("proc"), .sys = path("sys")}; }
  [[nodiscard]] MemoryLimits Limits() const { return ReadMemoryLimits(roots()).value(); }

 private:
  std::string path_;
};

}  // namespace moetier

#endif  // MOETIER_TESTS_SUPPORT_FAKE_HOST_H_
