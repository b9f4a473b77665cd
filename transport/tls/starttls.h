// SPDX-License-Identifier: Apache-2.0
// The messages by which a client asks a server for TLS (RFC 9289 section 4.1), with their record marks. Pure
// functions; any thread.
#pragma once

#include <cstdint>

#include "xdr/rpc.h"
#include "xdr/support/bytes.h"

namespace nfsrdma::tls {

// A server's answer has this many bytes: record mark, XID, REPLY, MSG_ACCEPTED, a verifier of eight bytes,
// accept_stat. One that does not offer TLS may have others.
inline constexpr size_t kOfferBytes = 36;
// The longest record that is read as an answer.
inline constexpr size_t kMostAnswerBytes = 512;

// The client's call.
ByteVector probe(rpc::Xid xid, uint32_t program, uint32_t version);

enum class Answer : uint8_t {
  kOffered,     // TLS begins with the client's next byte
  kNotOffered,  // the server goes on without TLS, or ends the connection
  kBroken,      // no answer to this probe
};
// `record`: the answer, without its record mark.
Answer judge(ConstBytes record, rpc::Xid xid);

// The server's part. True: the call asks for TLS as section 4.1 says. A call with AUTH_TLS that does not, or
// that comes within a TLS session, gets AUTH_BADCRED.
bool is_probe(const rpc::call_header& call);
// The server's answer, without a record mark.
ByteVector offer(rpc::Xid xid);

}  // namespace nfsrdma::tls
