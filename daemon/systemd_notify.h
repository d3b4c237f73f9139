#ifndef MOETIER_DAEMON_SYSTEMD_NOTIFY_H_
#define MOETIER_DAEMON_SYSTEMD_NOTIFY_H_

#include <chrono>
#include <optional>
#include <string>

namespace moetier {

// Tells systemd of our state (sd_notify(3)); does nothing outside a Type=notify unit. Threads: any.
void NotifyReady(const std::string& status);
void NotifyStatus(const std::string& status);
void NotifyReloading();
void NotifyStopping();
void NotifyWatchdog();

// How often to ping: half of the unit's WatchdogSec; none when it has none.
std::optional<std::chrono::microseconds> WatchdogInterval();

}  // namespace moetier

#endif  // MOETIER_DAEMON_SYSTEMD_NOTIFY_H_
