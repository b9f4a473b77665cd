// SPDX-License-Identifier: Apache-2.0
// Stream: one TLS session over a connected, non-blocking TCP socket. It is used like the socket: receive()
// and send() take the place of recvmsg(2) and sendmsg(2).
//
//     connect() or accept()     makes it
//     handshake()               again and again, until kDone: wait for the socket in between
//     receive(), send()         application data
//     close()                   tells the peer that no more data comes
//
// Owner: the connection, together with the socket, which lives longer. One thread at a time; no function
// blocks. After an error of any function the session is over: failure() says why.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "transport/tls/context.h"
#include "xdr/support/bytes.h"

struct ssl_st;
struct x509_store_ctx_st;

namespace nfsrdma::tls {

class Stream {
 public:
  // The client's end. The server's certificate must be valid for `host`, a name or an address as the user
  // gave it (RFC 9289 section 5.2.1).
  static Result<std::unique_ptr<Stream>> connect(const Context& context, int fd, const std::string& host);
  // The server's end.
  static Result<std::unique_ptr<Stream>> accept(const Context& context, int fd);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  enum class Step : uint8_t { kDone, kWantsRead, kWantsWrite };
  // Errors: Layer::kSecurity. kPermanent: a certificate that is not accepted, or a peer that does not follow
  // RFC 9289. kReconnect: the connection ended.
  Result<Step> handshake();

  // Fills `direct` (may be empty) first, then `staging`. Returns as recvmsg(2), but never EINTR: 0 at the
  // peer's end, -1 and errno EAGAIN when nothing is there, EPROTO for what is no TLS. Data may be left in
  // this object while the socket has none, so receive again until EAGAIN.
  ssize_t receive(MutableBytes direct, MutableBytes staging);

  // Takes bytes from the front of `pieces`: at least one, at most kRecordBytes. Returns as sendmsg(2).
  ssize_t send(std::span<const iovec> pieces);
  // Bytes that send() took have not gone to the socket yet. Call flush() when it is writable.
  bool unsent() const { return held_ != 0; }
  // True: nothing is unsent. False: errno is EAGAIN, or the session is over.
  bool flush();

  // Sends the closure alert, if the socket takes it (RFC 9289 section 5.1.1).
  void close();

  // "TLS 1.3 with TLS_AES_256_GCM_SHA384"
  std::string description() const;
  // The subject of the peer's certificate; empty: it has shown none.
  std::string peer() const;
  // Why the session is over, for a person; empty: it is not.
  const std::string& failure() const { return failure_; }

  static constexpr size_t kRecordBytes = 16u << 10;  // RFC 8446 section 5.1

 private:
  Stream(std::shared_ptr<ssl_st> ssl, std::string host, Context context);

  static Result<std::unique_ptr<Stream>> over(const Context& context, int fd, std::string host);
  static int note_certificate(int good, x509_store_ctx_st* verification);
  ssize_t ended(int result);
  size_t gather(std::span<const iovec> pieces);

  const Context context_;
  const std::shared_ptr<ssl_st> ssl_;
  const std::string host_;  // empty at the server's end
  std::unique_ptr<std::byte[]> record_;
  size_t held_ = 0;      // bytes in record_ that OpenSSL has not reported as written
  std::string refused_;  // why the other end's certificate is not accepted
  std::string failure_;
};

}  // namespace nfsrdma::tls
