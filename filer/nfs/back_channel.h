// SPDX-License-Identifier: Apache-2.0
// BackChannel: the server's calls to its clients (RFC 8881 sections 2.10.6.2, 2.10.6.3, 20).
//
// Each callback takes a slot of its session's back channel and waits there: for a connection, when the
// session has none; for its answer; and for the next connection, when the one it was sent on is lost, to be
// sent again with the same slot and sequence ID. A slot's sequence ID moves only when CB_SEQUENCE was
// answered with NFS4_OK. A callback that is answered with NFS4ERR_DELAY is made again after a while if it
// says so, and one that is refused as long as it is wanted, after a second, two, four... up to sixteen.
//
// Tests may override what a well-behaved server would send. Guarded by the server's lock.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>

#include "filer/state/session.h"
#include "xdr/nfs4/cb_compound.h"

namespace nfsrdma::filer {

using CallbackId = uint64_t;

struct Callback {
  std::vector<nfs4::nfs_cb_argop4> ops;  // without CB_SEQUENCE, which is put before them
  std::vector<nfs4::referring_call_list4> referring;
  bool cache_this = false;
  bool repeat_on_delay = false;
  // Refused, by RPC or with a status: whether it is still wanted. None: it is not. Under the server's lock.
  std::function<bool()> wanted{};

  // Faults. What is set replaces what the rules ask for.
  std::optional<nfs4::sequenceid4> sequence;
  std::optional<nfs4::slotid4> slot;
  std::optional<nfs4::slotid4> highest_slot;
  std::optional<nfs4::sessionid4> session;
  std::optional<uint32_t> minor_version;
  std::optional<uint32_t> program;
  std::optional<uint32_t> version;
  std::optional<uint32_t> procedure;
  bool without_sequence = false;
  std::function<void(ByteVector&)> edit;  // the whole RPC message, before it is sent

  std::function<void(const nfs4::CB_COMPOUND4res&)> done;  // under the server's lock
};

struct CallbackResult {
  enum class State : uint8_t { kWaiting, kSent, kAnswered, kLost };
  State state = State::kWaiting;
  unsigned transmissions = 0;
  nfs4::CB_COMPOUND4res reply;  // kAnswered, and `rejected` empty
  std::string rejected;         // the RPC was refused or not decodable: why
};

class BackChannel {
 public:
  struct Environment {
    std::function<LinkPtr(LinkId)> find_link;
    // Runs a function after a while, on the server's loop, under the server's lock.
    std::function<void(std::chrono::milliseconds, std::function<void()>)> after;
    std::function<void()> notify;  // something changed
  };

  explicit BackChannel(Environment environment) : environment_(std::move(environment)) {}

  uint32_t rpc_version = nfs4::NFS_CB;

  CallbackId call(Session& session, Callback callback);
  // A message that is not a call arrived. False: it answers nothing that was asked.
  bool answered(LinkId link, ConstBytes message);
  void link_bound(Session& session);
  void link_gone(LinkId link);
  void session_gone(const Session& session);
  void restart();

  const CallbackResult* result(CallbackId id) const;
  bool waiting(const Session& session) const;
  // A link on the session's back channel that is still there.
  LinkPtr link_of(const Session& session) const;

 private:
  struct Pending {
    CallbackId id = 0;
    nfs4::sessionid4 session;
    Session* owner = nullptr;
    uint32_t slot = 0;
    bool has_slot = false;
    uint32_t sequence = 0;
    LinkId link = 0;
    rpc::Xid xid{};
    bool sent = false;
    bool resting = false;  // until it is made again
    unsigned refused = 0;
    Callback callback;
  };

  void pump(Session& session);
  void transmit(Pending& pending, const LinkPtr& link);
  ByteVector encode(const Pending& pending) const;
  void finish(CallbackId id, const nfs4::CB_COMPOUND4res& reply);
  void give_slot_back(Pending& pending, bool advance);
  void repeat_after(Pending& pending, std::chrono::milliseconds delay);

  Environment environment_;
  std::map<CallbackId, Pending> pending_;
  std::map<CallbackId, CallbackResult> results_;
  CallbackId next_id_ = 1;
  uint32_t next_xid_ = 0xcb000001;
};

}  // namespace nfsrdma::filer
