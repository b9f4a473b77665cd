// SPDX-License-Identifier: Apache-2.0
// CB_NULL and CB_COMPOUND: decodes a call and encodes its reply. callback_ops.cc has the operations.
#include "client/nfs4/callbacks/callback.h"

#include <algorithm>

#include "transport/rpc/call_message.h"
#include "transport/runtime/log.h"
#include "xdr/rpc.h"

namespace nfsrdma::client::nfs4 {
namespace {

using namespace nfs4;  // NOLINT: statuses and operations

constexpr uint32_t kProcNull = 0;
constexpr uint32_t kProcCompound = 1;
constexpr uint32_t kMinorVersion = 1;
constexpr size_t kResultBytes = 8;  // operation and status
constexpr size_t kSequenceBytes =
    kResultBytes + 32;  // CB_SEQUENCE4resok: session 16, sequence, three slot IDs

// CB_GETATTR4resok: a bitmap of one word, length, size and change.
constexpr size_t kAttributeBytes = 4 + 4 + 4 + 8 + 8;

ByteVector refuse_credential(uint32_t xid, rpc::auth_stat why) {
  rpc::reply_header header;
  header.xid = rpc::Xid{xid};
  header.stat = rpc::MSG_DENIED;
  header.denied = rpc::AUTH_ERROR;
  header.why = why;
  ByteVector message;
  xdr::Encoder x(message);
  x(header);
  return message;
}

// The credential gives the server no rights here, but it must be well-formed.
rpc::auth_stat check_credential(const rpc::opaque_auth& credential) {
  switch (credential.flavor) {
    case rpc::AUTH_NONE: return credential.body.empty() ? rpc::AUTH_OK : rpc::AUTH_BADCRED;
    case rpc::AUTH_SYS:
      return xdr::decode<rpc::authsys_parms>(credential.body, "AUTH_SYS") ? rpc::AUTH_OK : rpc::AUTH_BADCRED;
    default: return rpc::AUTH_REJECTEDCRED;
  }
}

void log_malformed(uint32_t xid, const char* what, const char* why) {
  static log::Throttle throttle;
  const uint64_t n = throttle.hit();
  if (n != 0) log::warn("malformed callback, XID {:#010x}: {}: {} ({} so far)", xid, what, why, n);
}

}  // namespace

// Encodes a CB_COMPOUND reply and always knows its size.
class CallbackServer::ReplyWriter {
 public:
  ReplyWriter(uint32_t xid, ConstBytes tag) : encoder_(message_) {
    rpc::begin_reply(encoder_, xid);
    status_offset_ = encoder_.inline_bytes();
    encoder_(NFS4_OK);
    encoder_.opaque(tag, kMaxTag);
    count_offset_ = encoder_.inline_bytes();
    encoder_(uint32_t{0});
  }

  void add(nfs_cb_opnum4 op, nfsstat4 status) {
    // Section 16.2.3: an unknown operation is answered as OP_CB_ILLEGAL.
    encoder_(status == NFS4ERR_OP_ILLEGAL ? OP_CB_ILLEGAL : op);
    encoder_(status);
    status_ = status;
    ++results_;
  }
  void add(const CB_GETATTR4res& attributes) {
    encoder_(OP_CB_GETATTR);
    encoder_(attributes);
    status_ = attributes.status;
    ++results_;
  }
  void add(const CB_SEQUENCE4res& sequence) {
    encoder_(OP_CB_SEQUENCE);
    encoder_(sequence);
    status_ = sequence.status;
    ++results_;
  }
  void refuse(nfsstat4 status) { status_ = status; }

  nfsstat4 status() const { return status_; }
  size_t bytes() const { return message_.size(); }
  uint32_t results() const { return results_; }

  ByteVector finish() {
    encoder_.patch(status_offset_, status_);
    encoder_.patch(count_offset_, results_);
    return std::move(message_);
  }

 private:
  ByteVector message_;
  xdr::Encoder encoder_;
  size_t status_offset_ = 0;
  size_t count_offset_ = 0;
  nfsstat4 status_ = NFS4_OK;
  uint32_t results_ = 0;
};

Task<ByteVector> CallbackServer::serve(ByteVector call) {
  xdr::Decoder x(call);
  rpc::call_header header;
  if (!x(header)) {
    if (call.size() < rpc::kPrefixBytes || load_be32(call.data() + 4) != rpc::CALL) co_return ByteVector{};
    log_malformed(load_be32(call.data()), "RPC header", x.failure());
    co_return rpc::reply_garbage_args(load_be32(call.data()));
  }
  const uint32_t xid = static_cast<uint32_t>(header.xid);
  if (header.rpcvers != rpc::kRpcVersion) co_return rpc::reply_rpc_mismatch(xid);
  if (const rpc::auth_stat why = check_credential(header.cred); why != rpc::AUTH_OK) {
    co_return refuse_credential(xid, why);
  }
  if (header.prog != kCallbackProgram) co_return rpc::reply_prog_unavail(xid);
  if (header.vers != kCallbackVersion) {
    co_return rpc::reply_prog_mismatch(xid, kCallbackVersion, kCallbackVersion);
  }
  if (header.proc == kProcNull) {
    ByteVector reply;
    xdr::Encoder encoder(reply);
    rpc::begin_reply(encoder, xid);
    co_return reply;
  }
  if (header.proc != kProcCompound) co_return rpc::reply_proc_unavail(xid);
  Compound compound;
  compound.xid = xid;
  if (!parse(x, channel_.limits(), call.size(), compound)) {
    log_malformed(xid, "CB_COMPOUND", x.ok() ? "trailing bytes" : x.failure());
    co_return rpc::reply_garbage_args(xid);
  }
  calls_.fetch_add(1, std::memory_order_relaxed);
  co_return co_await run(std::move(compound));
}

bool CallbackServer::parse(xdr::Decoder& x, const channel_attrs4& limits, size_t call_bytes,
                           Compound& compound) {
  uint32_t minor_version = 0, ident = 0, count = 0;
  if (!x.opaque(compound.tag, kMaxTag) || !x(minor_version)) return false;
  // Section 16.2.3: with another minor version, the rest is not decoded.
  if (minor_version != kMinorVersion) {
    compound.refused = NFS4ERR_MINOR_VERS_MISMATCH;
    return true;
  }
  if (call_bytes > limits.ca_maxrequestsize) {
    compound.refused = NFS4ERR_REQ_TOO_BIG;
    return true;
  }
  if (!x(ident) || !x.count(count, UINT32_MAX, 4)) return false;
  if (count > limits.ca_maxoperations) {
    compound.refused = NFS4ERR_TOO_MANY_OPS;
    return true;
  }
  compound.operations.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    if (!parse_operation(x, compound.operations.emplace_back())) return false;
    // The start of the next operation is unknown. This operation ends the CB_COMPOUND anyway.
    if (compound.operations.back().refused != NFS4_OK) return true;
  }
  return x.left() == 0;
}

bool CallbackServer::parse_operation(xdr::Decoder& x, Operation& operation) {
  if (x.left() < 4) return x.fail("truncated");
  operation.op = static_cast<nfs_cb_opnum4>(load_be32(x.rest().data()));
  if (!x(operation.args)) {
    operation.refused = NFS4ERR_BADXDR;
  } else if (std::holds_alternative<CB_ILLEGAL4args>(operation.args.op)) {
    operation.refused = NFS4ERR_OP_ILLEGAL;  // also CB_OFFLOAD: it belongs to minor version 2
  }
  return true;
}

Task<ByteVector> CallbackServer::run(Compound compound) {
  ReplyWriter reply(compound.xid, compound.tag);
  if (compound.refused != NFS4_OK || compound.operations.empty()) {
    reply.refuse(compound.refused);
    co_return reply.finish();
  }
  // Section 20.9.3: "If any other operation is in the first position of CB_COMPOUND,
  // NFS4ERR_OP_NOT_IN_SESSION MUST be returned."
  const Operation& first = compound.operations.front();
  if (first.op != OP_CB_SEQUENCE || first.refused != NFS4_OK) {
    const bool unknown = first.op == OP_CB_SEQUENCE || first.refused == NFS4ERR_OP_ILLEGAL;
    reply.add(first.op, unknown ? first.refused : NFS4ERR_OP_NOT_IN_SESSION);
    co_return reply.finish();
  }
  const auto& args = std::get<CB_SEQUENCE4args>(first.args.op);
  const channel_attrs4 limits = channel_.limits();
  const size_t room = args.csa_cachethis
                          ? std::min(limits.ca_maxresponsesize, limits.ca_maxresponsesize_cached)
                          : limits.ca_maxresponsesize;
  const size_t needed = reply.bytes() + kSequenceBytes + (compound.operations.size() > 1 ? kResultBytes : 0);
  if (needed > room) {
    reply.add(OP_CB_SEQUENCE,
              needed > limits.ca_maxresponsesize ? NFS4ERR_REP_TOO_BIG : NFS4ERR_REP_TOO_BIG_TO_CACHE);
    co_return reply.finish();
  }
  BackChannel::Admission admission = channel_.begin(args);
  if (admission.status != NFS4_OK) {
    reply.add(OP_CB_SEQUENCE, admission.status);
    co_return reply.finish();
  }
  if (admission.replay) {
    store_be32(admission.reply.data(), compound.xid);
    co_return std::move(admission.reply);
  }
  CB_SEQUENCE4res sequence;
  sequence.resok4 = {args.csa_sessionid, args.csa_sequenceid, args.csa_slotid, admission.highest_slot,
                     admission.highest_slot};
  reply.add(sequence);
  co_await run_operations(compound, args, limits, reply);

  const uint32_t results = reply.results();
  ByteVector message = reply.finish();
  if (results <= 2 || message.size() <= limits.ca_maxresponsesize_cached) {
    channel_.finish(admission.generation, args.csa_slotid, message);
  } else {
    // Section 2.10.6.1.3: the first result, and "the next operation in [...] CB_COMPOUND having the error
    // NFS4ERR_RETRY_UNCACHED_REP".
    ReplyWriter uncached(compound.xid, compound.tag);
    uncached.add(sequence);
    uncached.add(compound.operations[1].op, NFS4ERR_RETRY_UNCACHED_REP);
    channel_.finish(admission.generation, args.csa_slotid, uncached.finish());
  }
  co_return message;
}

Task<> CallbackServer::run_operations(const Compound& compound, const CB_SEQUENCE4args& sequence,
                                      const channel_attrs4& limits, ReplyWriter& reply) {
  for (size_t i = 1; i < compound.operations.size() && reply.status() == NFS4_OK; ++i) {
    const Operation& operation = compound.operations[i];
    const bool more = i + 1 < compound.operations.size();
    // An operation is executed only if its result, and an error of the next operation, still fit into the
    // reply.
    const auto* asked = std::get_if<CB_GETATTR4args>(&operation.args.op);
    const size_t needed =
        reply.bytes() + kResultBytes + (asked != nullptr ? kAttributeBytes : 0) + (more ? kResultBytes : 0);
    if (operation.refused != NFS4_OK) {
      reply.add(operation.op, operation.refused);
    } else if (operation.op == OP_CB_SEQUENCE) {
      reply.add(operation.op, NFS4ERR_SEQUENCE_POS);
    } else if (needed > limits.ca_maxresponsesize) {
      reply.add(operation.op, NFS4ERR_REP_TOO_BIG);
    } else if (sequence.csa_cachethis && needed > limits.ca_maxresponsesize_cached) {
      reply.add(operation.op, NFS4ERR_REP_TOO_BIG_TO_CACHE);
    } else if (const auto* recalled = std::get_if<CB_RECALL4args>(&operation.args.op)) {
      const nfsstat4 status = co_await recall(*recalled, sequence.csa_referring_call_lists);
      reply.add(operation.op, status);
    } else if (asked != nullptr) {
      const CB_GETATTR4res answer = co_await getattr(*asked, sequence.csa_referring_call_lists);
      reply.add(answer);
    } else {
      reply.add(operation.op, execute(operation.args));
    }
  }
}

}  // namespace nfsrdma::client::nfs4
