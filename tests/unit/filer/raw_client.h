// SPDX-License-Identifier: Apache-2.0
// A simple blocking NFSv4.1 client for tests of the filer. It uses sockets and xdr types, and nothing of
// client/.
//
// RawConnection sends and receives RPC messages. RawClient adds what a correct client keeps: client ID,
// session, the sequence IDs of its slots, and replies to callbacks. A test can replace everything that it
// sends. Calls block with a long timeout, so that a broken test fails and does not hang. One thread.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "filer/server.h"
#include "xdr/nfs4/cb_compound.h"
#include "xdr/nfs4/compound.h"

namespace nfsrdma::filer::test {

using namespace nfs4;

inline constexpr int kTimeoutMs = 20'000;
inline constexpr std::chrono::seconds kLease{90};

class RawConnection {
 public:
  explicit RawConnection(uint16_t port);
  ~RawConnection();
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;

  bool connected() const { return fd_ >= 0; }
  bool send(ConstBytes message, size_t fragment_bytes = 0);
  bool send_raw(ConstBytes bytes);
  // The next message; nullopt if the connection ended or nothing came within the timeout.
  std::optional<ByteVector> receive(int timeout_ms = kTimeoutMs);
  // Whether the peer has ended the connection.
  bool ended(int timeout_ms = kTimeoutMs);
  void close();

 private:
  bool receive_exactly(MutableBytes to, int timeout_ms);
  int fd_ = -1;
};

using Ops = std::vector<nfs_argop4>;

// Operations as a list: ops(PUTROOTFH4args{}, GETFH4args{}).
template <class... Args>
Ops ops(Args... args) {
  Ops list;
  (list.push_back(nfs_argop4{std::move(args)}), ...);
  return list;
}

// The i-th result, which must belong to this operation.
template <class Res>
const Res& at(const COMPOUND4res& reply, size_t i) {
  static const Res kNone = [] {
    Res r;
    r.status = NFS4ERR_SERVERFAULT;
    return r;
  }();
  if (i >= reply.resarray.size()) {
    ADD_FAILURE() << "the reply has only " << reply.resarray.size() << " results, status "
                  << name_of(reply.status);
    return kNone;
  }
  const Res* res = std::get_if<Res>(&reply.resarray[i].op);
  if (res == nullptr) {
    ADD_FAILURE() << "result " << i << " is of another operation";
    return kNone;
  }
  return *res;
}

struct User {
  uint32_t uid = 0;
  uint32_t gid = 0;
  std::vector<uint32_t> groups = {};
};

// Protects the calls of a RawClient by something better than AUTH_SYS.
class CallProtection {
 public:
  virtual ~CallProtection() = default;
  // A COMPOUND call with these arguments.
  virtual ByteVector seal(uint32_t xid, ByteVector arguments) = 0;
  // The reply as AUTH_NONE would have it; nullopt: it does not verify.
  virtual std::optional<ByteVector> open(uint32_t xid, ByteVector reply) = 0;
};

class RawClient {
 public:
  explicit RawClient(Server& server, std::string owner = "raw client", User user = {});

  // EXCHANGE_ID, CREATE_SESSION, and RECLAIM_COMPLETE if `complete` is set (false: the test reclaims first).
  bool establish(bool complete = true);
  EXCHANGE_ID4res exchange_id(uint32_t flags = 0);
  CREATE_SESSION4res create_session();
  void reconnect();
  void reconnect(Server& server);

  // Sends a COMPOUND unchanged.
  COMPOUND4res call(const Ops& ops);
  // The same after a SEQUENCE on a slot; its sequence ID is kept here.
  COMPOUND4res run(const Ops& ops, uint32_t slot = 0, bool cache = true);
  // The same with `path` as the current filehandle, looked up from the root. Returns only the results of
  // `ops`.
  COMPOUND4res run_at(const std::string& path, const Ops& ops);

  // The two halves of a call, for retries and for requests that get no reply.
  SEQUENCE4args next_sequence(uint32_t slot = 0, bool cache = true);
  void undo_sequence(uint32_t slot = 0) { --sequences[slot]; }
  uint32_t send(const Ops& ops);
  uint32_t send(const COMPOUND4args& args);
  std::optional<COMPOUND4res> receive(uint32_t xid);
  // The RPC call as it would be sent.
  ByteVector encode_call(uint32_t xid, const COMPOUND4args& args) const;
  // The raw reply message, from the XID on.
  std::optional<ByteVector> receive_message(uint32_t xid);

  // Shortcuts that contain assertions.
  nfs_fh4 handle_of(const std::string& path);
  fattr4 attributes(const std::string& path, const bitmap4& wanted);
  stateid4 open(const std::string& path, uint32_t access = OPEN4_SHARE_ACCESS_BOTH,
                uint32_t deny = OPEN4_SHARE_DENY_NONE, const std::string& open_owner = "owner");
  OPEN4args open_args(const std::string& name, uint32_t access = OPEN4_SHARE_ACCESS_BOTH,
                      uint32_t deny = OPEN4_SHARE_DENY_NONE, const std::string& open_owner = "owner");
  std::string read(const std::string& path, stateid4 stateid = {}, uint64_t offset = 0,
                   uint32_t count = 1 << 20);
  WRITE4res write(const std::string& path, stateid4 stateid, uint64_t offset, const std::string& data,
                  stable_how4 stable = FILE_SYNC4);

  // Receives one callback, answers it with `status` and returns its arguments. nullopt: none came within the
  // timeout.
  std::optional<CB_COMPOUND4args> serve_callback(nfsstat4 status = NFS4_OK, int timeout_ms = kTimeoutMs);

  std::shared_ptr<CallProtection> protection;  // null: AUTH_SYS as `user`
  // The attributes for CB_GETATTR; nullopt: NFS4ERR_OP_ILLEGAL.
  std::optional<fattr4> delegated;

  std::unique_ptr<RawConnection> connection;
  clientid4 clientid = 0;
  sequenceid4 create_sequence = 0;
  sessionid4 session;
  CREATE_SESSION4resok session_attributes;
  verifier4 verifier = verifier4::of(1);
  std::string owner;
  User user;
  CREATE_SESSION4args session_request;
  std::map<uint32_t, uint32_t> sequences;  // of the last request on each slot
  uint32_t last_flags = 0;                 // sr_status_flags
  bool check_statuses = true;              // check that RFC 8881 section 15.2 lists the status of each result

 private:
  uint16_t port_;
  uint32_t next_xid_ = 1;
  std::deque<ByteVector> kept_;       // messages that results point into
  std::deque<ByteVector> callbacks_;  // calls that arrived while waiting for a reply
};

Ops path_ops(const std::string& path);
// The first LOCK of a lock-owner under an open.
LOCK4args first_lock(stateid4 open, nfs_lock_type4 type, uint64_t offset, uint64_t length,
                     const std::string& owner = "process");
Ops operator+(Ops a, const Ops& b);

std::unique_ptr<Server> start_server(nfs::Options options = {});

// A directory of the host; the destructor removes it.
class TempDirectory {
 public:
  TempDirectory();
  ~TempDirectory();
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The store of "/export", for tests that run with both stores.
enum class Kept { kInMemory, kByHost };
std::string name_of(const ::testing::TestParamInfo<Kept>& info);
// Options with "/export" and the other exports kept there; callers keep the user that they claim.
nfs::Options kept(Kept where, const TempDirectory& directory, nfs::Options options = {});
// Whether the server can act as its callers, which needs root. Otherwise tests of the host's permissions are
// skipped.
bool may_act_as_callers();

}  // namespace nfsrdma::filer::test
