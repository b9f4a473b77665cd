// SPDX-License-Identifier: Apache-2.0
#include "transport/tls/stream.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "transport/tls/failure.h"

namespace nfsrdma::tls {
namespace {

bool is_address(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> ignored{};
  return inet_pton(AF_INET, host.c_str(), ignored.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), ignored.data()) == 1;
}

// RFC 9289 section 5.2.1: a name is compared with the dNSName entries, without wildcards; an address with the
// iPAddress entries, exactly.
bool expect_host(SSL* ssl, const std::string& host) {
  X509_VERIFY_PARAM* const wanted = SSL_get0_param(ssl);
  X509_VERIFY_PARAM_set_hostflags(wanted, X509_CHECK_FLAG_NO_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
  if (is_address(host)) return X509_VERIFY_PARAM_set1_ip_asc(wanted, host.c_str()) == 1;
  return X509_VERIFY_PARAM_set1_host(wanted, host.c_str(), host.size()) == 1 &&
         SSL_set_tlsext_host_name(ssl, host.c_str()) == 1;
}

// A server that does not answer with "sunrpc" is none of RFC 9289 section 5, and a client that does not ask
// for it neither.
bool speaks_rpc(const SSL* ssl) {
  const unsigned char* chosen = nullptr;
  unsigned int bytes = 0;
  SSL_get0_alpn_selected(ssl, &chosen, &bytes);
  return bytes == kAlpn.size() && std::memcmp(chosen, kAlpn.data(), bytes) == 0;
}

}  // namespace

// Called for each certificate of the other end; `good`: OpenSSL accepts it.
int Stream::note_certificate(int good, x509_store_ctx_st* verification) {
  if (good == 1) return 1;
  auto* const ssl =
      static_cast<SSL*>(X509_STORE_CTX_get_ex_data(verification, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto* const stream = static_cast<Stream*>(SSL_get_app_data(ssl));
  stream->refused_ = certificate_refused(verification, stream->host_);
  return 0;
}

Stream::Stream(std::shared_ptr<ssl_st> ssl, std::string host, Context context)
    : context_(std::move(context)),
      ssl_(std::move(ssl)),
      host_(std::move(host)),
      record_(std::make_unique_for_overwrite<std::byte[]>(kRecordBytes)) {
  SSL_set_app_data(ssl_.get(), this);
  SSL_set_verify(ssl_.get(), SSL_CTX_get_verify_mode(context_.get()), note_certificate);
}

Result<std::unique_ptr<Stream>> Stream::over(const Context& context, int fd, std::string host) {
  ERR_clear_error();
  std::shared_ptr<SSL> ssl(SSL_new(context.get()), SSL_free);
  BIO* const socket = BIO_new(context.socket_method());
  if (!ssl || socket == nullptr) {
    BIO_free(socket);
    return fail(make_error("TLS", session_failed()));
  }
  BIO_set_data(socket, reinterpret_cast<void*>(static_cast<intptr_t>(fd)));
  BIO_set_init(socket, 1);
  SSL_set_bio(ssl.get(), socket, socket);  // the session owns it
  return std::unique_ptr<Stream>(new Stream(std::move(ssl), std::move(host), context));
}

Result<std::unique_ptr<Stream>> Stream::connect(const Context& context, int fd, const std::string& host) {
  Result<std::unique_ptr<Stream>> made = over(context, fd, host);
  if (!made) return made;
  SSL* const ssl = (*made)->ssl_.get();
  if (host.empty() || !expect_host(ssl, host))
    return fail(make_error("TLS", "no certificate can be for \"" + host + "\""));
  SSL_set_connect_state(ssl);
  return made;
}

Result<std::unique_ptr<Stream>> Stream::accept(const Context& context, int fd) {
  Result<std::unique_ptr<Stream>> made = over(context, fd, {});
  if (made) SSL_set_accept_state((*made)->ssl_.get());
  return made;
}

Result<Stream::Step> Stream::handshake() {
  ERR_clear_error();
  errno = 0;
  const int done = SSL_do_handshake(ssl_.get());
  if (done == 1) {
    if (speaks_rpc(ssl_.get())) return Step::kDone;
    failure_ = "the other end does not speak RPC in TLS (ALPN \"sunrpc\")";
    return fail(make_error("TLS handshake", failure_));
  }
  switch (SSL_get_error(ssl_.get(), done)) {
    case SSL_ERROR_WANT_READ: return Step::kWantsRead;
    case SSL_ERROR_WANT_WRITE: return Step::kWantsWrite;
    default: break;
  }
  Error why = handshake_failed(refused_);
  failure_ = why.cause;
  return fail(std::move(why));
}

// What an unsuccessful read or write means: -1 and errno, or 0 for the peer's end.
ssize_t Stream::ended(int result) {
  const int os_error = errno;
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE: errno = EAGAIN; return -1;
    case SSL_ERROR_ZERO_RETURN: return 0;
    case SSL_ERROR_SYSCALL:
      failure_ = os_error != 0 ? std::strerror(os_error) : "the other end closed the connection";
      errno = os_error != 0 ? os_error : ECONNRESET;
      return -1;
    default:
      failure_ = session_failed();
      errno = EPROTO;
      return -1;
  }
}

ssize_t Stream::receive(MutableBytes direct, MutableBytes staging) {
  size_t total = 0;
  for (MutableBytes into : {direct, staging}) {
    while (!into.empty()) {
      ERR_clear_error();
      errno = 0;
      size_t bytes = 0;
      const int done = SSL_read_ex(ssl_.get(), into.data(), into.size(), &bytes);
      if (done != 1) {
        if (total != 0) return static_cast<ssize_t>(total);  // the next call says why
        return ended(done);
      }
      total += bytes;
      into = into.subspan(bytes);
    }
  }
  return static_cast<ssize_t>(total);
}

// Copies what fits one record from the front of the pieces. OpenSSL encrypts from one piece of memory, and
// wants to see the same bytes again if the socket is full, while our caller may have forgotten them by then.
size_t Stream::gather(std::span<const iovec> pieces) {
  size_t total = 0;
  for (const iovec& piece : pieces) {
    const size_t bytes = std::min(piece.iov_len, kRecordBytes - total);
    std::memcpy(record_.get() + total, piece.iov_base, bytes);
    total += bytes;
    if (total == kRecordBytes) break;
  }
  return total;
}

bool Stream::flush() {
  if (held_ == 0) return true;
  ERR_clear_error();
  errno = 0;
  size_t written = 0;
  const int done = SSL_write_ex(ssl_.get(), record_.get(), held_, &written);
  if (done != 1) {
    if (ended(done) == 0) errno = EPIPE;
    return false;
  }
  // A record is written as a whole.
  held_ = 0;
  return true;
}

ssize_t Stream::send(std::span<const iovec> pieces) {
  if (!flush()) return -1;
  held_ = gather(pieces);
  const auto taken = static_cast<ssize_t>(held_);
  if (!flush() && errno != EAGAIN) return -1;
  return taken;
}

void Stream::close() {
  ERR_clear_error();
  if (failure_.empty() && SSL_is_init_finished(ssl_.get()) == 1) SSL_shutdown(ssl_.get());
  ERR_clear_error();
}

std::string Stream::description() const {
  return std::string(SSL_get_version(ssl_.get())) + " with " + SSL_get_cipher_name(ssl_.get());
}

std::string Stream::peer() const {
  const X509* certificate = SSL_get0_peer_certificate(ssl_.get());
  if (certificate == nullptr) return {};
  const std::unique_ptr<BIO, decltype(&BIO_free)> out(BIO_new(BIO_s_mem()), BIO_free);
  if (!out || X509_NAME_print_ex(out.get(), X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253) < 0)
    return {};
  const char* data = nullptr;
  const long bytes = BIO_get_mem_data(out.get(), &data);
  return std::string(data, static_cast<size_t>(bytes));
}

}  // namespace nfsrdma::tls
