// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/support/certificates.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

namespace nfsrdma::test {
namespace {

void check(bool good, const char* what) {
  if (!good) throw std::runtime_error(what);
}

std::shared_ptr<EVP_PKEY> make_key() {
  std::shared_ptr<EVP_PKEY> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  check(key != nullptr, "EVP_EC_gen");
  return key;
}

void extend(X509* certificate, X509* issuer, int which, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, which, value.c_str());
  check(extension != nullptr && X509_add_ext(certificate, extension, -1) == 1, value.c_str());
  X509_EXTENSION_free(extension);
}

std::shared_ptr<X509> begin_certificate(EVP_PKEY* key, const std::string& name, long serial, long from,
                                        long until) {
  std::shared_ptr<X509> certificate(X509_new(), X509_free);
  check(X509_set_version(certificate.get(), X509_VERSION_3) == 1, "X509_set_version");
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), serial);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), from);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), until);
  check(X509_set_pubkey(certificate.get(), key) == 1, "X509_set_pubkey");
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  return certificate;
}

struct Close {
  void operator()(FILE* file) const { std::fclose(file); }
};
std::unique_ptr<FILE, Close> create(const std::string& path) {
  std::unique_ptr<FILE, Close> file(std::fopen(path.c_str(), "w"));
  check(file != nullptr, path.c_str());
  return file;
}

std::string names_of(const Wanted& wanted) {
  std::string names;
  for (const std::string& name : wanted.dns_names) names += (names.empty() ? "DNS:" : ",DNS:") + name;
  for (const std::string& address : wanted.addresses) names += (names.empty() ? "IP:" : ",IP:") + address;
  return names;
}

}  // namespace

Authority::Authority(const std::string& name) : key_(make_key()) {
  std::string directory = std::filesystem::temp_directory_path() / "nfsrdma-certificates-XXXXXX";
  check(mkdtemp(directory.data()) != nullptr, "mkdtemp");
  directory_ = directory;
  certificate_ = begin_certificate(key_.get(), name, 1, -86'400, 86'400);
  X509_set_issuer_name(certificate_.get(), X509_get_subject_name(certificate_.get()));
  extend(certificate_.get(), certificate_.get(), NID_basic_constraints, "critical,CA:TRUE");
  extend(certificate_.get(), certificate_.get(), NID_key_usage, "critical,keyCertSign");
  check(X509_sign(certificate_.get(), key_.get(), EVP_sha256()) != 0, "X509_sign");
  check(PEM_write_X509(create(file()).get(), certificate_.get()) == 1, "PEM_write_X509");
}

Authority::~Authority() {
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

tls::Settings Authority::issue(const Wanted& wanted) {
  const std::string name = "peer" + std::to_string(++issued_);
  const auto key = make_key();
  const auto certificate = begin_certificate(key.get(), name, 100 + issued_, wanted.valid_from_seconds,
                                             wanted.valid_until_seconds);
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(certificate_.get()));
  if (const std::string names = names_of(wanted); !names.empty())
    extend(certificate.get(), certificate_.get(), NID_subject_alt_name, names);
  if (!wanted.purpose.empty())
    extend(certificate.get(), certificate_.get(), NID_ext_key_usage, wanted.purpose);
  check(X509_sign(certificate.get(), key_.get(), EVP_sha256()) != 0, "X509_sign");
  tls::Settings settings{.trust = file(), .certificate = path(name + ".pem"), .key = path(name + ".key")};
  check(PEM_write_X509(create(settings.certificate).get(), certificate.get()) == 1, "PEM_write_X509");
  check(
      PEM_write_PrivateKey(create(settings.key).get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1,
      "PEM_write_PrivateKey");
  return settings;
}

}  // namespace nfsrdma::test
