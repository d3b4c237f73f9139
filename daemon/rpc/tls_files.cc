#include "daemon/rpc/tls_files.h"

#include <fmt/chrono.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <ctime>
#include <memory>

namespace moetier {
namespace {

using std::chrono::system_clock;

constexpr std::chrono::hours kSoon{14 * 24};

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

Error BadFile(const char* key, const std::string& path, const std::string& why) {
  return {ErrorCode::kInvalidArgument, Reason::kBadConfig,
          fmt::format("{} {}: {}", key, path, why)};
}

Bio Open(const std::string& text) {
  return {BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), &BIO_free};
}

// Nobody sits at the daemon's terminal.
int NoPassphrase(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*user*/) { return -1; }

Result<Certificate> ParseCertificate(const std::string& text, const std::string& path) {
  const Bio bio = Open(text);
  Certificate certificate(PEM_read_bio_X509(bio.get(), nullptr, &NoPassphrase, nullptr),
                          &X509_free);
  ERR_clear_error();
  if (certificate != nullptr) return certificate;
  const bool is_key = text.find("PRIVATE KEY-----") != std::string::npos;
  return BadFile("tcp.tls_certificate", path,
                 is_key
                     ? "it holds a private key; are tls_certificate and tls_key swapped?"
                     : "no certificate in PEM (-----BEGIN CERTIFICATE-----) can be read from it");
}

Result<Key> ParseKey(const std::string& text, const std::string& path) {
  const Bio bio = Open(text);
  Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, &NoPassphrase, nullptr), &EVP_PKEY_free);
  ERR_clear_error();
  if (key != nullptr) return key;
  const bool is_certificate = text.find("BEGIN CERTIFICATE-----") != std::string::npos;
  return BadFile(
      "tcp.tls_key", path,
      is_certificate
          ? "it holds a certificate; are tls_certificate and tls_key swapped?"
          : "no private key in PEM can be read from it; one with a passphrase cannot be");
}

std::optional<system_clock::time_point> TimeOf(const ASN1_TIME* time) {
  std::tm broken_down{};
  if (ASN1_TIME_to_tm(time, &broken_down) != 1) return std::nullopt;
  return system_clock::from_time_t(timegm(&broken_down));
}

}  // namespace

Result<CertificateDates> CheckTlsPair(const std::string& certificate,
                                      const std::string& certificate_path, const std::string& key,
                                      const std::string& key_path) {
  ASSIGN_OR_RETURN(const Certificate parsed, ParseCertificate(certificate, certificate_path));
  ASSIGN_OR_RETURN(const Key parsed_key, ParseKey(key, key_path));
  const bool fits = X509_check_private_key(parsed.get(), parsed_key.get()) == 1;
  ERR_clear_error();
  if (!fits) {
    return BadFile("tcp.tls_key", key_path,
                   fmt::format("it is not the key of the certificate in {}", certificate_path));
  }
  const auto begin = TimeOf(X509_get0_notBefore(parsed.get()));
  const auto end = TimeOf(X509_get0_notAfter(parsed.get()));
  if (!begin || !end) {
    return BadFile("tcp.tls_certificate", certificate_path, "its dates cannot be read");
  }
  return CertificateDates{.begin = *begin, .end = *end};
}

std::optional<std::string> CertificateWarning(const CertificateDates& dates,
                                              const std::string& path,
                                              system_clock::time_point now) {
  const auto text = [&](const char* what, system_clock::time_point when) {
    return fmt::format(
        "tcp.tls_certificate {}: {} {:%Y-%m-%d %H:%M} UTC; clients refuse it "
        "outside its time: renew it and restart",
        path, what, fmt::gmtime(system_clock::to_time_t(when)));
  };
  if (now < dates.begin) return text("not valid before", dates.begin);
  if (now >= dates.end) return text("expired at", dates.end);
  if (now + kSoon >= dates.end) return text("expires at", dates.end);
  return std::nullopt;
}

}  // namespace moetier
