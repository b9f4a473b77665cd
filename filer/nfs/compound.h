// SPDX-License-Identifier: Apache-2.0
// CompoundRun: one COMPOUND from its arguments to its reply (RFC 8881 section 16.2).
//
// start() executes it, all of it or up to a stop: behind SEQUENCE, when a fault asked for it; or before an
// operation that a delegation is in the way of, whose holder has been asked. resume() does the rest.
// Operations are decoded one by one as they are reached: what stands before a malformed one has been executed
// (NFS4ERR_BADXDR). Results are encoded into reply(), whose size is held within the session's
// limits before anything that changes the server is executed (sections 2.10.6.4, 15.1.3.6).
//
// Everything under the server's lock. The message is kept by the run: arguments borrow from it.
#pragma once

#include <cstdint>
#include <map>

#include "filer/nfs/context.h"
#include "filer/nfs/sequence.h"

namespace nfsrdma::filer {

// xid, REPLY, MSG_ACCEPTED, an empty verifier, SUCCESS: what stands before COMPOUND4res.
inline constexpr size_t kReplyHeaderBytes = 24;

// What a fault wants of the COMPOUND.
struct CompoundOrders {
  std::map<nfs4::nfs_opnum4, nfs4::nfsstat4>
      answers;                    // operations that are not executed but answered so, once
  bool stop_in_progress = false;  // after SEQUENCE
};

class CompoundRun {
 public:
  // `message` is the whole RPC call and `arguments` the offset of COMPOUND4args in it.
  CompoundRun(Core& core, LinkPtr link, Principal who, rpc::Xid xid, ByteVector message, size_t arguments);

  // False: the arguments are not a COMPOUND at all (GARBAGE_ARGS); reply() is empty. Not patient: what a
  // delegation is in the way of is answered NFS4ERR_DELAY.
  bool start(CompoundOrders orders, bool patient);
  bool stopped() const { return stopped_; }
  // Stopped by a delegation.
  bool held_back() const { return held_back_; }
  // After a stop. The session may be gone meanwhile, and with it the reason to go on: then reply() is
  // empty.
  void resume(bool patient);

  // The RPC reply; its first kReplyHeaderBytes are left to whoever sends it. Empty when there is none.
  ByteVector& reply() { return c_.reply; }
  // Where READ's data and READLINK's text are in reply().
  const BulkPlaces& items() const { return items_; }
  const ExecutedCompound& executed() const { return executed_; }
  rpc::Xid xid() const { return executed_.xid; }
  const LinkPtr& link() const { return c_.link; }

 private:
  void run_sequence();
  void run_rest();
  void run_one(nfs4::nfs_opnum4 op);
  nfs4::nfsstat4 perform(nfs4::nfs_opnum4 op);
  nfs4::nfsstat4 check_position(nfs4::nfs_opnum4 op) const;
  size_t room() const;
  nfs4::nfsstat4 too_big() const;
  // The last result.
  void take_back();
  // Results: a whole one, or a status with nothing behind it.
  template <class Res>
  void put(const Res& res);
  // What is wrong with it; null when it has been encoded.
  template <class Res>
  const char* encode(const Res& res);
  const char* encode(const nfs4::READ4res& res);
  void put_status(nfs4::nfs_opnum4 op, nfs4::nfsstat4 status);
  void note(nfs4::nfs_opnum4 op, const NodePtr& before, bool injected);
  void replay_uncached();
  void seal();

  Context c_;
  ByteVector message_;
  xdr::Decoder in_;
  BulkPlaces items_;
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

}  // namespace nfsrdma::filer
