// SPDX-License-Identifier: Apache-2.0
// CallbackServer: answers the server's calls on the back channel (RFC 8881 sections 2.10.3.1, 2.10.6, 19.2,
// 20).
//
// Owned by a mount's Nfs4Filesystem; outlives its Session. serve() runs on any loop, several calls at a time.
// It waits only for the reply to an OPEN that a recall has overtaken, and only briefly. Each call gets
// exactly one reply: an RPC-level error (another program, arguments that are not a CB_COMPOUND), the NFS
// status of the operation that failed, or the result. Bytes that are not even the start of an RPC call get an
// empty reply: they are dropped.
//
// A recall finds its delegation in Delegations, is acknowledged, and goes to the DelegationHolder, which
// returns the delegation without blocking the callback. This client has no layouts and no directory
// notifications.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "client/nfs4/delegations/delegations.h"
#include "client/nfs4/protocol_types.h"
#include "client/nfs4/session/back_channel.h"
#include "client/nfs4/session/session.h"
#include "client/nfs4/state/node.h"
#include "xdr/nfs4/cb_compound.h"

namespace nfsrdma::client::nfs4 {

class CallbackServer final : public CallbackService {
 public:
  // How long a recall sleeps between two checks for the reply that it has overtaken.
  static constexpr Duration kRacePause = std::chrono::milliseconds(5);

  // `slots`: the fore channel's slot table (Session::slots()), for CB_RECALL_SLOT and referring calls.
  // `race_pause`: shorter in tests.
  CallbackServer(SlotTable& slots, NodeTable& nodes, Delegations& delegations,
                 Duration race_pause = kRacePause)
      : slots_(slots), nodes_(nodes), delegations_(delegations), race_pause_(race_pause) {}

  Task<ByteVector> serve(ByteVector call) override;
  void session_opened(const nfs4::sessionid4& session, const nfs4::channel_attrs4& back_channel) override {
    channel_.open(session, back_channel);
  }

  // CB_COMPOUNDs answered so far, with any status.
  uint64_t count() const { return calls_.load(std::memory_order_relaxed); }

 private:
  // A decoded CB_COMPOUND. Its last operation may be one that cannot be executed.
  struct Operation {
    nfs4::nfs_cb_opnum4 op{};                // as received
    nfs4::nfsstat4 refused = nfs4::NFS4_OK;  // NFS4ERR_BADXDR or NFS4ERR_OP_ILLEGAL: `args` is not valid
    nfs4::nfs_cb_argop4 args;
  };
  struct Compound {
    uint32_t xid = 0;
    ConstBytes tag;                          // borrowed from the call
    nfs4::nfsstat4 refused = nfs4::NFS4_OK;  // the status of the whole COMPOUND, which then has no results
    std::vector<Operation> operations;
  };
  class ReplyWriter;

  // False: reply GARBAGE_ARGS.
  static bool parse(xdr::Decoder& x, const nfs4::channel_attrs4& limits, size_t call_bytes,
                    Compound& compound);
  static bool parse_operation(xdr::Decoder& x, Operation& operation);
  Task<ByteVector> run(Compound compound);
  // The operations after CB_SEQUENCE. The references point into the caller's frame, which awaits this
  // coroutine.
  Task<> run_operations(const Compound& compound, const nfs4::CB_SEQUENCE4args& sequence,
                        const nfs4::channel_attrs4& limits, ReplyWriter& reply);

  // --- callback_ops.cc ---
  nfs4::nfsstat4 execute(const nfs4::nfs_cb_argop4& args);
  Task<nfs4::nfsstat4> recall(nfs4::CB_RECALL4args args, std::vector<nfs4::referring_call_list4> referring);
  bool outstanding(const std::vector<nfs4::referring_call_list4>& calls) const;
  nfs4::nfsstat4 recall_any(const nfs4::CB_RECALL_ANY4args& args);
  Task<nfs4::CB_GETATTR4res> getattr(nfs4::CB_GETATTR4args args,
                                     std::vector<nfs4::referring_call_list4> referring);
  // Returns the status of `find` (NFS4_OK, or why nothing was found). Repeats it while the callback may have
  // overtaken the reply that it refers to.
  template <class Find>
  Task<nfs4::nfsstat4> find_overtaken(const std::vector<nfs4::referring_call_list4>& referring,
                                      const Find& find);
  nfs4::nfsstat4 wake_lock_waiters(const nfs4::nfs_fh4& fh);

  SlotTable& slots_;
  NodeTable& nodes_;
  Delegations& delegations_;
  const Duration race_pause_;
  BackChannel channel_;
  std::atomic<uint64_t> calls_{0};
};

}  // namespace nfsrdma::client::nfs4
