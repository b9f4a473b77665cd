// SPDX-License-Identifier: Apache-2.0
#include "transport/tls/context.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#include "transport/tls/failure.h"

namespace nfsrdma::tls {
namespace {

using Made = std::shared_ptr<SSL_CTX>;

int socket_of(BIO* bio) {
  return static_cast<int>(reinterpret_cast<intptr_t>(BIO_get_data(bio)));
}

int write_socket(BIO* bio, const char* data, int bytes) {
  BIO_clear_retry_flags(bio);
  const ssize_t n = ::send(socket_of(bio), data, static_cast<size_t>(bytes), MSG_NOSIGNAL);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
  return static_cast<int>(n);
}

int read_socket(BIO* bio, char* data, int bytes) {
  BIO_clear_retry_flags(bio);
  const ssize_t n = ::recv(socket_of(bio), data, static_cast<size_t>(bytes), 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
  if (n == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
  return static_cast<int>(n);
}

long control_socket(BIO* bio, int command, long, void*) {
  if (command == BIO_CTRL_EOF) return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

std::shared_ptr<BIO_METHOD> make_socket_method() {
  std::shared_ptr<BIO_METHOD> method(BIO_meth_new(BIO_TYPE_SOURCE_SINK, "socket"), BIO_meth_free);
  if (!method || BIO_meth_set_write(method.get(), write_socket) != 1 ||
      BIO_meth_set_read(method.get(), read_socket) != 1 ||
      BIO_meth_set_ctrl(method.get(), control_socket) != 1)
    return nullptr;
  return method;
}

Result<Made> make(const SSL_METHOD* method) {
  ERR_clear_error();
  Made made(SSL_CTX_new(method), SSL_CTX_free);
  // RFC 9289 section 5: "Implementations MUST NOT negotiate TLS versions prior to 1.3".
  if (!made || SSL_CTX_set_min_proto_version(made.get(), TLS1_3_VERSION) != 1)
    return fail(make_error("TLS", session_failed()));
  SSL_CTX_set_mode(made.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                   SSL_MODE_RELEASE_BUFFERS | SSL_MODE_AUTO_RETRY);
  // A session belongs to one connection; a next one shows its certificates again.
  SSL_CTX_set_session_cache_mode(made.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(made.get(), 0);
  return made;
}

Result<> trust(SSL_CTX* context, const std::string& file) {
  if (file.empty()) {
    if (SSL_CTX_set_default_verify_paths(context) == 1) return {};
    return fail(make_error("TLS", "the certificates that this system trusts cannot be read"));
  }
  if (SSL_CTX_load_verify_file(context, file.c_str()) != 1)
    return fail(bad_file("trusted certificates", file));
  return {};
}

Result<> present(SSL_CTX* context, const Settings& settings) {
  const std::string& key = settings.key.empty() ? settings.certificate : settings.key;
  if (SSL_CTX_use_certificate_chain_file(context, settings.certificate.c_str()) != 1)
    return fail(bad_file("the certificate", settings.certificate));
  // The key is compared with the certificate here.
  if (SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) != 1)
    return fail(bad_file("the private key", key));
  return {};
}

// A client that does not know "sunrpc" is none of ours (RFC 7301 section 3.2).
int select_alpn(SSL*, const unsigned char** out, unsigned char* out_bytes, const unsigned char* offered,
                unsigned int offered_bytes, void*) {
  for (unsigned int at = 0; at < offered_bytes; at += 1u + offered[at]) {
    const unsigned int length = offered[at];
    if (length > offered_bytes - at - 1) break;
    if (length != kAlpn.size() || std::memcmp(offered + at + 1, kAlpn.data(), length) != 0) continue;
    *out = offered + at + 1;
    *out_bytes = static_cast<unsigned char>(length);
    return SSL_TLSEXT_ERR_OK;
  }
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

}  // namespace

Result<Context> Context::with(std::shared_ptr<ssl_ctx_st> made) {
  Context context;
  context.context_ = std::move(made);
  context.method_ = make_socket_method();
  if (!context.method_) return fail(make_error("TLS", session_failed()));
  return context;
}

Result<Context> Context::client(const Settings& settings) {
  Result<Made> made = make(TLS_client_method());
  if (!made) return fail(std::move(made).error());
  SSL_CTX* const context = made->get();
  NFSRDMA_TRY(trust(context, settings.trust));
  if (!settings.certificate.empty()) NFSRDMA_TRY(present(context, settings));
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  std::string protocols(1, static_cast<char>(kAlpn.size()));
  protocols += kAlpn;
  // Unlike the other functions this one returns 0 for success.
  if (SSL_CTX_set_alpn_protos(context, reinterpret_cast<const unsigned char*>(protocols.data()),
                              static_cast<unsigned int>(protocols.size())) != 0)
    return fail(make_error("TLS", session_failed()));
  return with(*std::move(made));
}

Result<Context> Context::server(const Settings& settings, bool mutual) {
  Result<Made> made = make(TLS_server_method());
  if (!made) return fail(std::move(made).error());
  SSL_CTX* const context = made->get();
  NFSRDMA_TRY(trust(context, settings.trust));
  NFSRDMA_TRY(present(context, settings));
  // Section 4.2: "Such an RPC server MUST request a TLS peer identity from each client upon first contact."
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | (mutual ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0), nullptr);
  SSL_CTX_set_alpn_select_cb(context, select_alpn, nullptr);
  return with(*std::move(made));
}

}  // namespace nfsrdma::tls
