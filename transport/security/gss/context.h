// SPDX-License-Identifier: Apache-2.0
// Context: an established security context of mechanism krb5. It signs, checks, encrypts and decrypts
// (RFC 2743 section 2.3, RFC 4121).
//
// Owns the library's object and the session's keys; move-only. No I/O, nothing blocks. One thread at a time:
// the loop of the transport that uses it. Pieces are parts of one message that lie apart; a MIC or a wrapped
// token of several pieces is the one of their concatenation. Errors: Layer::kSecurity; failed verification is
// a value, never an assertion, because the peer's bytes cause it.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "transport/security/gss/name.h"
#include "xdr/support/bytes.h"
#include "xdr/support/result.h"

struct gss_ctx_id_struct;

namespace nfsrdma::gss {

using Pieces = std::span<const ConstBytes>;

class Context {
 public:
  struct Release {
    void operator()(gss_ctx_id_struct* context) const;
  };
  using Handle = std::unique_ptr<gss_ctx_id_struct, Release>;

  // Takes over an established context. Errors: an encryption type older than AES, whose tokens are not RFC
  // 4121's.
  static Result<Context> adopt(Handle context);

  // The context as bytes, for another process of this machine and this library. They contain the session's
  // keys, and the names of the krb5.conf files in use: who imports them must be able to open these files, or
  // gets an error. Shortened bytes are an error; changed ones are not noticed, so they go only from one
  // process of ours to another. This Context is gone afterwards, also after an error.
  Result<ByteVector> exported() &&;
  static Result<Context> imported(ConstBytes exported);

  // Bytes of each MIC: the same for all messages of a context.
  size_t mic_bytes() const { return mic_bytes_; }
  // Writes the MIC of the pieces into `mic`, which has mic_bytes().
  Result<> sign(Pieces pieces, MutableBytes mic) const;
  Result<ByteVector> sign(Pieces pieces) const;
  // Failure::kBadSignature, kBadToken.
  Result<> verify(Pieces pieces, ConstBytes mic) const;

  // Bytes of the token that wrap() makes of `data_bytes`.
  size_t wrapped_bytes(size_t data_bytes) const;
  // Encrypts the concatenation of the pieces into `token`, which has wrapped_bytes(their sum). The pieces
  // stay as they are and do not overlap it.
  Result<> wrap(Pieces pieces, MutableBytes token) const;
  // Decrypts in place; the result is a view into `token`. A token that is signed and not encrypted is refused
  // (Failure::kNoConfidentiality). After an error the bytes of `token` are undefined.
  Result<MutableBytes> unwrap(MutableBytes token) const;

  // What is left of the context's lifetime, which is that of the ticket; zero: expired. nullopt: no end.
  std::optional<std::chrono::seconds> lifetime() const;
  // Who initiated: the user. At the acceptor the name that the ticket proves.
  Result<Name> initiator() const;
  // Whom he reached: the server.
  Result<Name> acceptor() const;

 private:
  Context(Handle context, size_t mic_bytes) : context_(std::move(context)), mic_bytes_(mic_bytes) {}

  Handle context_;
  size_t mic_bytes_ = 0;
};

}  // namespace nfsrdma::gss
