// SPDX-License-Identifier: Apache-2.0
#include "transport/tls/failure.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

namespace nfsrdma::tls {
namespace {

// The first error of the queue is the cause; those behind it are the callers' of what failed.
unsigned long first_error() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  return code;
}

std::string text_of(unsigned long code) {
  if (code == 0) return {};
  if (ERR_SYSTEM_ERROR(code)) return std::strerror(ERR_GET_REASON(code));
  const char* reason = ERR_reason_error_string(code);
  return reason != nullptr ? reason : "OpenSSL error " + std::to_string(code);
}

std::string time_of(const ASN1_TIME* time) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> out(BIO_new(BIO_s_mem()), BIO_free);
  if (!out || ASN1_TIME_print(out.get(), time) != 1) return "an unknown time";
  const char* data = nullptr;
  const long bytes = BIO_get_mem_data(out.get(), &data);
  return std::string(data, static_cast<size_t>(bytes));
}

// The names that a certificate is valid for, for a message: "a.example, 10.0.0.1".
std::string names_of(X509* certificate) {
  std::string names;
  auto* found =
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  const std::unique_ptr<GENERAL_NAMES, decltype(&GENERAL_NAMES_free)> all(found, GENERAL_NAMES_free);
  constexpr int kMostNames = 8;
  for (int i = 0; all && i < sk_GENERAL_NAME_num(all.get()) && i < kMostNames; ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(all.get(), i);
    std::string text;
    if (name->type == GEN_DNS) {
      text.assign(reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.dNSName)),
                  static_cast<size_t>(ASN1_STRING_length(name->d.dNSName)));
    } else if (name->type == GEN_IPADD) {
      const int family = ASN1_STRING_length(name->d.iPAddress) == sizeof(in_addr) ? AF_INET : AF_INET6;
      const bool whole = family == AF_INET || ASN1_STRING_length(name->d.iPAddress) == sizeof(in6_addr);
      std::array<char, INET6_ADDRSTRLEN> address{};
      if (whole && inet_ntop(family, ASN1_STRING_get0_data(name->d.iPAddress), address.data(),
                             static_cast<socklen_t>(address.size())) != nullptr)
        text = address.data();
    }
    if (text.empty()) continue;
    if (!names.empty()) names += ", ";
    names += text;
  }
  return names.empty() ? "none" : names;
}

struct OfReason {
  int reason;
  const char* text;
};
// What the other end says (RFC 8446 section 6.2), and what it lacks.
constexpr OfReason kReasons[] = {
    {SSL_R_UNSUPPORTED_PROTOCOL, "the other end has no TLS 1.3"},
    {SSL_R_TLSV1_ALERT_PROTOCOL_VERSION, "the other end has no TLS 1.3"},
    {SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED,
     "the server wants a certificate of this machine: xprtsec=mtls, tls_cert=FILE"},
    {SSL_R_TLSV1_ALERT_UNKNOWN_CA, "the other end does not trust whoever signed our certificate"},
    {SSL_R_SSLV3_ALERT_BAD_CERTIFICATE, "the other end does not accept our certificate"},
    {SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED, "the other end considers our certificate expired"},
    {SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED, "the other end considers our certificate revoked"},
    {SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE, "the other end does not support our certificate's type"},
    {SSL_R_TLSV1_ALERT_ACCESS_DENIED, "the other end accepts our certificate and refuses us"},
    {SSL_R_NO_APPLICATION_PROTOCOL, "the other end does not speak RPC in TLS (ALPN \"sunrpc\")"},
    {SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL, "the other end does not speak RPC in TLS (ALPN \"sunrpc\")"},
    {SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE, "the client has no certificate"},
    {SSL_R_WRONG_VERSION_NUMBER, "the other end does not answer with TLS"},
    {SSL_R_UNEXPECTED_EOF_WHILE_READING, "the other end closed the connection"},
};

std::string reason_text(unsigned long code) {
  if (ERR_GET_LIB(code) == ERR_LIB_SSL) {
    for (const OfReason& row : kReasons) {
      if (row.reason == ERR_GET_REASON(code)) return row.text;
    }
  }
  return text_of(code);
}

}  // namespace

Error make_error(const char* op, std::string cause, Recovery recovery, int errnum) {
  return {.layer = Layer::kSecurity,
          .recovery = recovery,
          .errnum = errnum != 0 ? errnum : EACCES,
          .op = op,
          .cause = std::move(cause)};
}

std::string certificate_refused(x509_store_ctx_st* verification, const std::string& host) {
  const int why = X509_STORE_CTX_get_error(verification);
  X509* const certificate = X509_STORE_CTX_get_current_cert(verification);
  std::string whose = host.empty() ? "the client's certificate" : "the server's certificate";
  const bool own = X509_STORE_CTX_get_error_depth(verification) == 0;
  if (!own) whose = "a certificate that signed " + whose;
  switch (why) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return whose + " is not for " + host + "; it is for: " + names_of(certificate);
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return whose + " expired on " + time_of(X509_get0_notAfter(certificate)) +
             "; it has to be renewed, unless this machine's clock is wrong";
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return whose + " is valid from " + time_of(X509_get0_notBefore(certificate)) +
             " on; is this machine's clock right?";
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
      return (host.empty() ? "the client's certificate" : "the server's certificate") +
             std::string(
                 " is signed by nobody whom this machine trusts; give the certificate of its "
                 "authority") +
             (host.empty() ? "" : " with tls_ca=FILE");
    case X509_V_ERR_INVALID_PURPOSE:
      return whose + (host.empty() ? " is not one for clients" : " is not one for servers");
    case X509_V_ERR_CERT_REVOKED: return whose + " was revoked";
    default: return whose + ": " + X509_verify_cert_error_string(why);
  }
}

Error handshake_failed(std::string refused) {
  const int os_error = errno;
  const unsigned long code = first_error();
  if (!refused.empty()) return make_error("TLS handshake", std::move(refused));
  // No error in the queue: the socket's, or its end.
  const bool lost = code == 0 || (ERR_GET_LIB(code) == ERR_LIB_SSL &&
                                  ERR_GET_REASON(code) == SSL_R_UNEXPECTED_EOF_WHILE_READING);
  if (!lost) return make_error("TLS handshake", reason_text(code));
  const bool known = code == 0 && os_error != 0 && os_error != EAGAIN;
  return make_error("TLS handshake", known ? std::strerror(os_error) : "the other end closed the connection",
                    Recovery::kReconnect, known ? os_error : ECONNRESET);
}

std::string session_failed() {
  const unsigned long code = first_error();
  return code == 0 ? "the other end closed the connection" : reason_text(code);
}

Error bad_file(const char* what, const std::string& path) {
  const unsigned long code = first_error();
  std::string why = text_of(code);
  if (ERR_GET_LIB(code) == ERR_LIB_PEM && ERR_GET_REASON(code) == PEM_R_NO_START_LINE)
    why = "it has none in PEM form";
  if (ERR_GET_LIB(code) == ERR_LIB_X509 && ERR_GET_REASON(code) == X509_R_KEY_VALUES_MISMATCH)
    why = "it does not belong to the certificate";
  return make_error("TLS", std::string(what) + " in " + path + ": " + why);
}

}  // namespace nfsrdma::tls
