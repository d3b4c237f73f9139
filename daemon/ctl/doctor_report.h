#ifndef MOETIER_DAEMON_CTL_DOCTOR_REPORT_H_
#define MOETIER_DAEMON_CTL_DOCTOR_REPORT_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tiers/memory_limits.h"

namespace moetier {

enum class Verdict : uint8_t { kOk, kWarn, kFail };
std::string_view VerdictName(Verdict verdict);  // "ok" "warn" "fail"

// One line of `moetierctl doctor`.
struct Finding {
  std::string name;  // "io_uring"
  Verdict verdict = Verdict::kOk;
  std::string what;    // what is the case, with numbers
  std::string advice;  // what to do; empty when nothing is
};

// What the machine offers: kernel, CPU, memory and its limits, GPU. Reads files of proc and sys
// below `roots`.
std::vector<Finding> CheckHost(const MemoryRoots& roots);

// What the store's drive offers: file system, free space, io_uring, direct I/O. `directory` need
// not exist yet: its nearest existing parent is looked at. Writes and removes a file of 4 KiB.
std::vector<Finding> CheckStorage(const std::string& directory);

// Where the plug-in for llama.cpp lies that was installed or built with `program`, moetierctl's
// file.
Finding CheckPlugin(const std::string& program);

// One finding as the kernel's release says it: "6.1.0-13-amd64".
Finding CheckKernel(std::string_view release);

// The findings that follow from the memory's limits: room, memlock, huge pages, cgroup.
std::vector<Finding> CheckMemory(const MemoryLimits& limits);

std::string FindingsText(std::span<const Finding> findings);
std::string FindingsJson(std::span<const Finding> findings);
Verdict Worst(std::span<const Finding> findings);

}  // namespace moetier

#endif  // MOETIER_DAEMON_CTL_DOCTOR_REPORT_H_
