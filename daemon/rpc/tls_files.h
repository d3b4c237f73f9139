#ifndef MOETIER_DAEMON_RPC_TLS_FILES_H_
#define MOETIER_DAEMON_RPC_TLS_FILES_H_

#include <chrono>
#include <optional>
#include <string>

#include "base/result.h"

namespace moetier {

// When a certificate counts, by the wall clock.
struct CertificateDates {
  std::chrono::system_clock::time_point begin;
  std::chrono::system_clock::time_point end;
};

// Checks what gRPC would only fail at when a client comes: that both are PEM, that the key is the
// certificate's, that the dates can be read. kBadConfig; the message names the key of the
// configuration and the file. The texts are the files' own, the paths are for the message.
Result<CertificateDates> CheckTlsPair(const std::string& certificate,
                                      const std::string& certificate_path, const std::string& key,
                                      const std::string& key_path);

// Set when clients refuse the certificate now or will within 14 days.
std::optional<std::string> CertificateWarning(const CertificateDates& dates,
                                              const std::string& path,
                                              std::chrono::system_clock::time_point now);

}  // namespace moetier

#endif  // MOETIER_DAEMON_RPC_TLS_FILES_H_
