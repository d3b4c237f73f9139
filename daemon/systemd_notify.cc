#include "daemon/systemd_notify.h"

#include <fmt/core.h>
#include <systemd/sd-daemon.h>
#include <time.h>

#include <cstdint>

namespace moetier {
namespace {

void Notify(const std::string& state) { sd_notify(0, state.c_str()); }

}  // namespace

void NotifyReady(const std::string& status) { Notify("READY=1\nSTATUS=" + status); }
void NotifyStatus(const std::string& status) { Notify("STATUS=" + status); }

void NotifyReloading() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  Notify(fmt::format("RELOADING=1\nMONOTONIC_USEC={}",
                     int64_t{now.tv_sec} * 1000000 + now.tv_nsec / 1000));
}

void NotifyStopping() { Notify("STOPPING=1\nSTATUS=answering what was accepted"); }
void NotifyWatchdog() { Notify("WATCHDOG=1"); }

std::optional<std::chrono::microseconds> WatchdogInterval() {
  uint64_t period_us = 0;
  if (sd_watchdog_enabled(0, &period_us) <= 0) return std::nullopt;
  return std::chrono::microseconds(period_us / 2);
}

}  // namespace moetier
