// SPDX-License-Identifier: Apache-2.0
// CallbackServer: answers the server's calls on the back channel (RFC 8881 sections 2.10.3.1, 2.10.6, 19.2,
// 20).
//
// Owned by the Nfs4Filesystem of a mount; outlives its Session. serve() may run on any loop, several at a
// time; it waits for nothing but, briefly, for the reply of an OPEN that a recall has overtaken. Whatever the
// bytes are, each call gets exactly one answer: an RPC-level refusal (another program, arguments that are not
// a CB_COMPOUND), an NFS status for the operation that is wrong, or the result. Only what does not even begin
// as an RPC call gets an empty one: dropped.
//
// What is recalled is looked up in Delegations, acknowledged, and handed to the DelegationHolder, who returns
// it without the callback waiting for that. This client keeps no layout and no directory notification.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "client/nfs4/back_channel.h"
#include "client/nfs4/delegations.h"
#include "client/nfs4/node.h"
#include "client/nfs4/session.h"
#include "xdr/nfs4/cb_compound.h"

namespace nfsrdma::client {

class CallbackServer final : public CallbackService {
 public:
  // How long a recall waits at a time for the reply it has overtaken.
  static constexpr Duration kRacePause = std::chrono::milliseconds(5);

  // `slots`: the fore channel's (Session::slots()), for CB_RECALL_SLOT and referring calls. `race_pause`: for
  // tests that have no time.
  CallbackServer(SlotTable& slots, NodeTable& nodes, Delegations& delegations,
                 Duration race_pause = kRacePause)
      : slots_(slots), nodes_(nodes), delegations_(delegations), race_pause_(race_pause) {}

  Task<ByteVector> serve(ByteVector call) override;
  void session_opened(const nfs4::sessionid4& session, const nfs4::channel_attrs4& back_channel) override {
    channel_.open(session, back_channel);
  }

  // CB_COMPOUNDs answered so far, whatever the answer.
  uint64_t count() const { return calls_.load(std::memory_order_relaxed); }

 private:
  // A CB_COMPOUND, decoded; the last operation may be one that cannot be executed.
  struct Operation {
    nfs4::nfs_cb_opnum4 op{};                // as it came
    nfs4::nfsstat4 refused = nfs4::NFS4_OK;  // NFS4ERR_BADXDR or NFS4ERR_OP_ILLEGAL: `args` is not valid
    nfs4::nfs_cb_argop4 args;
  };
  struct Compound {
    uint32_t xid = 0;
    ConstBytes tag;                          // borrowed from the call
    nfs4::nfsstat4 refused = nfs4::NFS4_OK;  // as a whole: answered with no result
    std::vector<Operation> operations;
  };
  class ReplyWriter;

  // False: GARBAGE_ARGS.
  static bool parse(xdr::Decoder& x, const nfs4::channel_attrs4& limits, size_t call_bytes,
                    Compound& compound);
  static bool parse_operation(xdr::Decoder& x, Operation& operation);
  Task<ByteVector> run(Compound compound);
  // The operations after CB_SEQUENCE. References: to the frame of the caller, which awaits.
  Task<> run_operations(const Compound& compound, const nfs4::CB_SEQUENCE4args& sequence,
                        const nfs4::channel_attrs4& limits, ReplyWriter& reply);

  // --- callback_ops.cc ---
  nfs4::nfsstat4 execute(const nfs4::nfs_cb_argop4& args);
  Task<nfs4::nfsstat4> recall(nfs4::CB_RECALL4args args, std::vector<nfs4::referring_call_list4> referring);
  bool outstanding(const std::vector<nfs4::referring_call_list4>& calls) const;
  nfs4::nfsstat4 recall_any(const nfs4::CB_RECALL_ANY4args& args);
  Task<nfs4::CB_GETATTR4res> getattr(nfs4::CB_GETATTR4args args,
                                     std::vector<nfs4::referring_call_list4> referring);
  // What `find` finds, which says NFS4_OK or why not: now, or in the reply that the callback has overtaken.
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

}  // namespace nfsrdma::client
