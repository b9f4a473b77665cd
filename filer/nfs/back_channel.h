// SPDX-License-Identifier: Apache-2.0
// BackChannel: the server's calls to its clients (RFC 8881 sections 2.10.6.2, 2.10.6.3, 20).
//
// Each callback waits until its session's back channel has a connection and a free slot, and keeps the slot
// until the reply. If its connection is lost, it is sent again on the next one with the same slot and
// sequence ID. A slot's sequence ID advances only when CB_SEQUENCE was answered with NFS4_OK. A callback
// answered with NFS4ERR_DELAY is repeated after 50 ms if `repeat_on_delay` is set. A callback that is refused
// is repeated while it is still wanted, after 1, 2, 4, 8 and then every 16 s.
//
// Tests may override any field that is sent. Guarded by the server's lock.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>

#include "filer/state/session.h"
#include "xdr/nfs4/cb_compound.h"

namespace nfsrdma::filer::nfs {

using CallbackId = uint64_t;

struct Callback {
  std::vector<nfs4::nfs_cb_argop4> ops;  // without CB_SEQUENCE, which is added in front
  std::vector<nfs4::referring_call_list4> referring;
  bool cache_this = false;
  bool repeat_on_delay = false;
  // After a refusal (by RPC or by status): whether the callback is still wanted. Empty: it is not repeated.
  // Called under the server's lock.
  std::function<bool()> wanted{};

  // For faults: each field that is set replaces the regular value.
  std::optional<nfs4::sequenceid4> sequence;
  std::optional<nfs4::slotid4> slot;
  std::optional<nfs4::slotid4> highest_slot;
  std::optional<nfs4::sessionid4> session;
  std::optional<uint32_t> minor_version;
  std::optional<uint32_t> program;
  std::optional<uint32_t> version;
  std::optional<uint32_t> procedure;
  bool without_sequence = false;
  std::function<void(ByteVector&)> edit;  // changes the whole RPC message before it is sent

  std::function<void(const nfs4::CB_COMPOUND4res&)> done;  // called under the server's lock
};

struct CallbackResult {
  enum class State : uint8_t { kWaiting, kSent, kAnswered, kLost };
  State state = State::kWaiting;
  unsigned transmissions = 0;
  nfs4::CB_COMPOUND4res reply;  // set for kAnswered if `rejected` is empty
  std::string rejected;         // why the RPC was refused or could not be decoded
};

class BackChannel {
 public:
  struct Environment {
    std::function<links::LinkPtr(links::LinkId)> find_link;
    // Runs a function after a delay, on the server's loop and under the server's lock.
    std::function<void(std::chrono::milliseconds, std::function<void()>)> after;
    std::function<void()> notify;  // wakes Core::changed
  };

  explicit BackChannel(Environment environment) : environment_(std::move(environment)) {}

  uint32_t rpc_version = nfs4::NFS_CB;

  CallbackId call(state::Session& session, Callback callback);
  // Handles an RPC reply from a client. Returns false if it belongs to no pending callback.
  bool answered(links::LinkId link, ConstBytes message);
  void link_bound(state::Session& session);
  void link_gone(links::LinkId link);
  void session_gone(const state::Session& session);
  void restart();

  const CallbackResult* result(CallbackId id) const;
  bool waiting(const state::Session& session) const;
  // An existing link of the session's back channel; null if there is none.
  links::LinkPtr link_of(const state::Session& session) const;

 private:
  struct Pending {
    CallbackId id = 0;
    nfs4::sessionid4 session;
    state::Session* owner = nullptr;
    uint32_t slot = 0;
    bool has_slot = false;
    uint32_t sequence = 0;
    links::LinkId link = 0;
    rpc::Xid xid{};
    bool sent = false;
    bool resting = false;  // waits before it is repeated
    unsigned refused = 0;
    Callback callback;
  };

  void pump(state::Session& session);
  void transmit(Pending& pending, const links::LinkPtr& link);
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

}  // namespace nfsrdma::filer::nfs
