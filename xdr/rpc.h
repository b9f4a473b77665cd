// SPDX-License-Identifier: Apache-2.0
// ONC RPC version 2: call and reply headers and the credentials of this program (RFC 5531, RFC 8881
// section 2.2.1).
//
//     call  = xid, CALL(0), rpcvers 2, prog, vers, proc, cred, verf, arguments
//     reply = xid, REPLY(1), MSG_ACCEPTED(0), verf, accept_stat, [low, high], results
//           | xid, REPLY(1), MSG_DENIED(1), RPC_MISMATCH(0), low, high | AUTH_ERROR(1), auth_stat
//     opaque_auth = flavor, opaque body<400>
//
// The unions of RFC 5531 section 9 are flattened: a comment at each member says when it is encoded. Bodies of
// opaque_auth are views: into the decoded message, or of bytes that the caller keeps until encoding is done.
// Values only; no I/O; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "xdr/codec.h"

namespace nfsrdma::rpc {

using xdr::Ref;

enum class Xid : uint32_t {};

inline constexpr uint32_t kRpcVersion = 2;
inline constexpr size_t kMaxAuthBytes = 400;
inline constexpr size_t kMaxMachineName = 255;
inline constexpr size_t kMaxAuthSysGids = 16;

enum msg_type : uint32_t { CALL = 0, REPLY = 1 };
enum reply_stat : uint32_t { MSG_ACCEPTED = 0, MSG_DENIED = 1 };
enum reject_stat : uint32_t { RPC_MISMATCH = 0, AUTH_ERROR = 1 };

enum accept_stat : uint32_t {
  SUCCESS = 0,
  PROG_UNAVAIL = 1,
  PROG_MISMATCH = 2,
  PROC_UNAVAIL = 3,
  GARBAGE_ARGS = 4,
  SYSTEM_ERR = 5,
};

enum auth_stat : uint32_t {
  AUTH_OK = 0,
  AUTH_BADCRED = 1,
  AUTH_REJECTEDCRED = 2,
  AUTH_BADVERF = 3,
  AUTH_REJECTEDVERF = 4,
  AUTH_TOOWEAK = 5,
  AUTH_INVALIDRESP = 6,
  AUTH_FAILED = 7,
  AUTH_KERB_GENERIC = 8,
  AUTH_TIMEEXPIRE = 9,
  AUTH_TKT_FILE = 10,
  AUTH_DECODE = 11,
  AUTH_NET_ADDR = 12,
  RPCSEC_GSS_CREDPROBLEM = 13,
  RPCSEC_GSS_CTXPROBLEM = 14,
};

enum auth_flavor : uint32_t {
  AUTH_NONE = 0,
  AUTH_SYS = 1,
  AUTH_SHORT = 2,
  AUTH_DH = 3,
  RPCSEC_GSS = 6,
  AUTH_TLS = 7,  // RFC 9289
};

struct opaque_auth {
  auth_flavor flavor = AUTH_NONE;
  ConstBytes body{};
};

template <class X>
bool xdr(X& x, Ref<X, opaque_auth> v) {
  return x(v.flavor) && xdr::view(x, v.body, kMaxAuthBytes);
}

// The body of an AUTH_SYS credential (RFC 5531 appendix A): at most 340 bytes.
struct authsys_parms {
  uint32_t stamp = 0;
  std::string machinename{};
  uint32_t uid = 0;
  uint32_t gid = 0;
  std::vector<uint32_t> gids{};  // at most 16; a user with more groups sends the first 16

  bool operator==(const authsys_parms&) const = default;
};

template <class X>
bool xdr(X& x, Ref<X, authsys_parms> v) {
  return x(v.stamp) && xdr::bytes(x, v.machinename, kMaxMachineName) && x(v.uid) && x(v.gid) &&
         xdr::array(x, v.gids, kMaxAuthSysGids);
}

// A call's fields in front of its arguments. If a decoded rpcvers is not 2, the rest was not decoded; the
// answer is RPC_MISMATCH.
struct call_header {
  Xid xid{};
  uint32_t rpcvers = kRpcVersion;
  uint32_t prog = 0;
  uint32_t vers = 0;
  uint32_t proc = 0;
  opaque_auth cred{};
  opaque_auth verf{};
};

template <class X>
bool xdr(X& x, Ref<X, call_header> v) {
  msg_type type = CALL;
  if (!x(v.xid) || !x(type)) return false;
  if (type != CALL) return x.fail("not an RPC call");
  if (!x(v.rpcvers)) return false;
  if (v.rpcvers != kRpcVersion) return true;
  return x(v.prog) && x(v.vers) && x(v.proc) && x(v.cred) && x(v.verf);
}

struct mismatch_info {
  uint32_t low = 0;
  uint32_t high = 0;

  bool operator==(const mismatch_info&) const = default;
};

template <class X>
bool xdr(X& x, Ref<X, mismatch_info> v) {
  return x(v.low) && x(v.high);
}

// A reply's fields in front of its results.
struct reply_header {
  Xid xid{};
  reply_stat stat = MSG_ACCEPTED;
  opaque_auth verf{};                 // MSG_ACCEPTED
  accept_stat accepted = SUCCESS;     // MSG_ACCEPTED
  reject_stat denied = RPC_MISMATCH;  // MSG_DENIED
  mismatch_info mismatch{};           // PROG_MISMATCH or RPC_MISMATCH
  auth_stat why = AUTH_OK;            // AUTH_ERROR

  bool success() const { return stat == MSG_ACCEPTED && accepted == SUCCESS; }
};

template <class X>
bool xdr(X& x, Ref<X, reply_header> v) {
  msg_type type = REPLY;
  if (!x(v.xid) || !x(type)) return false;
  if (type != REPLY) return x.fail("not an RPC reply");
  if (!x(v.stat)) return false;
  if (v.stat == MSG_ACCEPTED) {
    if (!x(v.verf) || !x(v.accepted)) return false;
    if (v.accepted > SYSTEM_ERR) return x.fail("unknown accept_stat");
    return v.accepted != PROG_MISMATCH || x(v.mismatch);
  }
  if (v.stat != MSG_DENIED) return x.fail("unknown reply_stat");
  if (!x(v.denied)) return false;
  if (v.denied == RPC_MISMATCH) return x(v.mismatch);
  if (v.denied == AUTH_ERROR) return x(v.why);
  return x.fail("unknown reject_stat");
}

// The first eight bytes of any message, enough to match a reply to its call. nullopt: too short, or neither
// call nor reply.
inline constexpr size_t kPrefixBytes = 8;
struct message_prefix {
  Xid xid{};
  msg_type type = CALL;
};
std::optional<message_prefix> peek(ConstBytes message);

// Encodes an AUTH_SYS body, to be used for all calls of a user. Empty if `parms` exceeds a limit.
ByteVector encode_authsys(const authsys_parms& parms);

// Error::status of Layer::kRpc: one range of numbers for the three enums that explain a refused call.
enum class RpcStatus : uint32_t {
  kNone = 0,
  kAcceptStat = 0x100,   // + accept_stat
  kRpcMismatch = 0x200,  // the server speaks another RPC version
  kAuthStat = 0x300,     // + auth_stat
};
RpcStatus status_of(const reply_header& reply);
std::string name_of(RpcStatus status);  // "PROG_UNAVAIL", "AUTH_TOOWEAK", ...

// OK for a successful reply. Otherwise an error of Layer::kRpc: EPROTONOSUPPORT (version, program),
// EOPNOTSUPP (procedure), EACCES (credential), or EIO. Always Recovery::kPermanent, because the same call
// would be refused again.
Result<> check(const reply_header& reply, const char* op);

}  // namespace nfsrdma::rpc
