// SPDX-License-Identifier: Apache-2.0
// CompoundRun: executes one COMPOUND, from its arguments to its reply (RFC 8881 section 16.2).
//
// start() executes it completely or up to a stop. It stops after SEQUENCE if a fault asked for that, or
// before an operation that conflicts with a delegation. The delegation is then being recalled, or its holder
// is being asked (CB_GETATTR). resume() executes the rest. Operations are decoded one by one as they are
// reached, so those in front of a malformed one (NFS4ERR_BADXDR) have been executed. Results are encoded into
// reply(). Its size is checked against the session's limits before an operation that changes the server is
// executed (sections 2.10.6.4, 15.1.3.6).
//
// All functions need the server's lock. The run keeps the message, because arguments point into it.
#pragma once

#include <cstdint>
#include <map>

#include "filer/nfs/context.h"
#include "filer/nfs/sequence.h"

namespace nfsrdma::filer::nfs {

// Bytes in front of COMPOUND4res: xid, REPLY, MSG_ACCEPTED, an empty verifier, SUCCESS.
inline constexpr size_t kReplyHeaderBytes = 24;

// What the sender adds to the results of a COMPOUND. Both count for the session's limits: ca_maxresponsesize
// includes "the RPC headers (including security flavor credentials and verifiers)" (RFC 8881 section
// 18.36.3).
struct ReplyRoom {
  size_t front = kReplyHeaderBytes;  // bytes in front of COMPOUND4res
  size_t behind = 0;                 // at most so many bytes behind it
};

// What fault rules want of a COMPOUND.
struct CompoundOrders {
  // Operations that are not executed but answered with this status, once each.
  std::map<nfs4::nfs_opnum4, nfs4::nfsstat4> answers;
  bool stop_in_progress = false;  // after SEQUENCE
};

class CompoundRun {
 public:
  // `message` is the whole RPC call and `arguments` the offset of COMPOUND4args in it.
  CompoundRun(Core& core, links::LinkPtr link, tree::Principal who, rpc::Xid xid, ByteVector message,
              size_t arguments, ReplyRoom room = {});

  // Returns false if the arguments are not a COMPOUND (GARBAGE_ARGS); reply() is then empty. If `patient` is
  // false, a conflict with a delegation is answered NFS4ERR_DELAY and does not stop the run.
  bool start(CompoundOrders orders, bool patient);
  bool stopped() const { return stopped_; }
  // The run stopped because of a delegation.
  bool held_back() const { return held_back_; }
  // Continues after a stop. If the session is gone meanwhile, nothing more is executed and reply() is empty.
  void resume(bool patient);

  // The RPC reply. The sender fills in its first ReplyRoom::front bytes. Empty if there is no reply.
  ByteVector& reply() { return c_.reply; }
  // Positions of READ's data and READLINK's text in reply().
  const links::BulkPlaces& items() const { return items_; }
  const ExecutedCompound& executed() const { return executed_; }
  rpc::Xid xid() const { return executed_.xid; }
  const links::LinkPtr& link() const { return c_.link; }

 private:
  void run_sequence();
  void run_rest();
  void run_one(nfs4::nfs_opnum4 op);
  nfs4::nfsstat4 perform(nfs4::nfs_opnum4 op);
  nfs4::nfsstat4 check_position(nfs4::nfs_opnum4 op) const;
  size_t room() const;
  // Makes a reply of the reply cache the reply.
  void take_kept(const state::Slot& kept);
  nfs4::nfsstat4 too_big() const;
  // Removes the last result from the reply.
  void take_back();
  // Appends a result: a complete one, or only a status.
  template <class Res>
  void put(const Res& res);
  // Encodes a result. Returns an error text, or null on success.
  template <class Res>
  const char* encode(const Res& res);
  const char* encode(const nfs4::READ4res& res);
  void put_status(nfs4::nfs_opnum4 op, nfs4::nfsstat4 status);
  void note(nfs4::nfs_opnum4 op, const tree::NodePtr& before, bool injected);
  void replay_uncached();
  void seal();

  Context c_;
  ByteVector message_;
  xdr::Decoder in_;
  const ReplyRoom reply_room_;
  links::BulkPlaces items_;
  CompoundOrders orders_;
  uint32_t results_ = 0;
  nfs4::nfsstat4 status_ = nfs4::NFS4_OK;
  bool stopped_ = false;
  bool held_back_ = false;
  bool patient_ = true;
  bool sequenced_ = false;
  bool done_ = false;
  ExecutedCompound executed_;
};

}  // namespace nfsrdma::filer::nfs
