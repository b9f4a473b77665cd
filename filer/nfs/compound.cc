// SPDX-License-Identifier: Apache-2.0
#include "filer/nfs/compound.h"

#include "filer/nfs/ops.h"
#include "filer/nfs/security_policy.h"
#include "transport/runtime/log.h"
#include "xdr/support/utf8.h"

namespace nfsrdma::filer::nfs {

using namespace nfs4;

namespace {

// opnum and status, the shortest possible result.
constexpr size_t kBareResultBytes = 8;
// opnum, status and SEQUENCE4resok.
constexpr size_t kSequenceBytes = kBareResultBytes + NFS4_SESSIONID_SIZE + 5 * 4;
// Result of GETFH. Operations that change the current filehandle reserve space for it ("SHOULD", section
// 2.10.6.4).
constexpr size_t kGetfhBytes = 8 + 4 + NFS4_FHSIZE;

// Longest successful result of an operation that changes the server. The operation is not executed if this
// would not fit. Other operations need no bound, because their result can be removed again.
size_t success_bytes(nfs_opnum4 op) {
  switch (op) {
    case OP_OPEN: return 8 + 16 + 20 + 4 + 16 + 64 + kGetfhBytes;
    case OP_CREATE: return 8 + 20 + 16 + kGetfhBytes;
    case OP_RENAME: return 8 + 20 + 20;
    case OP_REMOVE:
    case OP_LINK: return 8 + 20;
    case OP_SETATTR:
    case OP_WRITE:
    case OP_LOCK:
    case OP_LOCKU:
    case OP_CLOSE:
    case OP_OPEN_DOWNGRADE: return 8 + 16;
    case OP_COMMIT: return 8 + 8;
    case OP_CREATE_SESSION: return 8 + 24 + 2 * 32;
    case OP_EXCHANGE_ID: return 512;
    default: return 0;
  }
}

// FNV-1a of the size and the first 4 KiB. It recognises false retries; it is no protection against an attack.
uint64_t digest_of(ConstBytes bytes, uint32_t operations) {
  constexpr size_t kDigested = 4096;
  uint64_t hash = 0xcbf29ce484222325u ^ (uint64_t{operations} << 32 | bytes.size());
  bytes = bytes.first(std::min(bytes.size(), kDigested));
  for (const std::byte b : bytes) hash = (hash ^ std::to_integer<uint8_t>(b)) * 0x100000001b3u;
  return hash;
}

// Operations that this server does not implement (pNFS), and those that "MUST NOT be implemented".
bool is_unsupported(nfs_opnum4 op) {
  switch (op) {
    case OP_OPEN_CONFIRM:
    case OP_RENEW:
    case OP_SETCLIENTID:
    case OP_SETCLIENTID_CONFIRM:
    case OP_RELEASE_LOCKOWNER:
    case OP_GETDEVICEINFO:
    case OP_GETDEVICELIST:
    case OP_LAYOUTCOMMIT:
    case OP_LAYOUTGET:
    case OP_LAYOUTRETURN: return true;
    default: return false;
  }
}

// Operations that may end sessions: a new client instance ends the sessions of the old one, and DESTROY_*
// ends sessions.
bool may_end_sessions(nfs_opnum4 op) {
  return op == OP_EXCHANGE_ID || op == OP_CREATE_SESSION || op == OP_DESTROY_SESSION ||
         op == OP_DESTROY_CLIENTID;
}

bool is_known(nfs_opnum4 op) {
  return op >= OP_ACCESS && op <= OP_RECLAIM_COMPLETE;
}

// The name in the arguments, for the journal.
template <class Args>
std::string name_in(const Args&) {
  return {};
}
std::string name_in(const LOOKUP4args& a) {
  return a.objname;
}
std::string name_in(const OPEN4args& a) {
  return a.claim.file;
}
std::string name_in(const CREATE4args& a) {
  return a.objname;
}
std::string name_in(const REMOVE4args& a) {
  return a.target;
}
std::string name_in(const LINK4args& a) {
  return a.newname;
}
std::string name_in(const RENAME4args& a) {
  return a.oldname + " -> " + a.newname;
}

constexpr size_t kUsualReplyBytes = 512;  // reserved at once, so that usual replies do not move as they grow

// Results with a data item that may be placed directly (RFC 8267 section 6.1).
size_t placeable_bytes(const READ4res& res) {
  return res.resok4.data.size();
}
size_t placeable_bytes(const READLINK4res& res) {
  return res.resok4.link.size();
}

}  // namespace

nfsstat4 need_current(const Context& c) {
  if (c.current.node == nullptr) return NFS4ERR_NOFILEHANDLE;
  return c.core.tree.refresh(*c.current.node);
}

CompoundRun::CompoundRun(Core& core, links::LinkPtr link, tree::Principal who, rpc::Xid xid,
                         ByteVector message, size_t arguments, ReplyRoom room)
    : c_(core, std::move(link), std::move(who)),
      message_(std::move(message)),
      in_(ConstBytes(message_).subspan(arguments)),
      reply_room_(room) {
  executed_.link = c_.link->id();
  executed_.xid = xid;
  executed_.who = c_.who;
}

bool CompoundRun::start(CompoundOrders orders, bool patient) {
  orders_ = std::move(orders);
  patient_ = patient;
  compound_call call;
  if (!in_(call)) return false;
  c_.operations = call.operations;
  // The sender fills in the RPC header; seal() fills in status and the number of results.
  c_.reply.reserve(kUsualReplyBytes);
  c_.reply.resize(reply_room_.front);
  xdr::Encoder x(c_.reply);
  x(uint32_t{0}) && x.opaque(call.tag, kMaxTag) && x(uint32_t{0});
  if (call.minorversion != 1) {
    status_ = NFS4ERR_MINOR_VERS_MISMATCH;
    seal();
    return true;
  }
  if (!is_utf8(as_string_view(call.tag))) {
    status_ = NFS4ERR_INVAL;  // "The tag argument is not in UTF-8 encoding" (section 16.2.4)
    seal();
    return true;
  }
  c_.core.tick();
  c_.began = c_.core.states.delegations_moved();
  const ConstBytes first = in_.rest();
  if (call.operations > 0 && first.size() >= 4 && load_be32(first.data()) == OP_SEQUENCE) {
    run_sequence();
  } else {
    run_rest();
  }
  return true;
}

void CompoundRun::resume(bool patient) {
  stopped_ = held_back_ = false;
  patient_ = patient;
  c_.session = c_.core.clients.find(c_.sequence.sa_sessionid);
  if (c_.session == nullptr) {
    c_.reply.clear();
    return;
  }
  c_.client = c_.session->client;
  run_rest();
}

void CompoundRun::run_sequence() {
  nfs_opnum4 op{};
  SEQUENCE4args args;
  if (!in_(op) || !in_(args)) {
    put_status(OP_SEQUENCE, NFS4ERR_BADXDR);
    return seal();
  }
  executed_.sequence = args;
  if (const auto order = orders_.answers.find(OP_SEQUENCE); order != orders_.answers.end()) {
    put_status(OP_SEQUENCE, order->second);
    note(OP_SEQUENCE, nullptr, true);
    return seal();
  }
  const Message message{.digest = digest_of(in_.rest(), c_.operations),
                        .request_bytes = message_.size(),
                        .reply_bytes = c_.reply.size() + reply_room_.behind + kSequenceBytes +
                                       (c_.alone() ? 0 : kBareResultBytes)};
  SequenceVerdict verdict = begin_sequence(c_, args, message);
  if (c_.client != nullptr) executed_.client = c_.client->id;
  if (verdict.kind == SequenceVerdict::Kind::kReplay) {
    take_kept(*verdict.kept);
    executed_.replay = true;
    executed_.status = static_cast<nfsstat4>(load_be32(c_.reply.data() + reply_room_.front));
    done_ = true;
    if (c_.core.options.journal) c_.core.journal.record(executed_);
    c_.core.changed.notify_all();
    return;
  }
  c_.result_at = c_.reply.size();
  put(verdict.result);
  note(OP_SEQUENCE, nullptr, false);
  if (verdict.kind == SequenceVerdict::Kind::kRefused) return seal();
  if (verdict.kind == SequenceVerdict::Kind::kUncached) {
    executed_.replay = true;
    replay_uncached();
    return seal();
  }
  sequenced_ = true;
  ++c_.index;
  if (orders_.stop_in_progress) {
    stopped_ = true;
    return;
  }
  run_rest();
}

// The retry may have another security service than the request had, and so other room in front.
void CompoundRun::take_kept(const state::Slot& kept) {
  c_.reply.resize(reply_room_.front);
  c_.reply.insert(c_.reply.end(), kept.reply.begin() + static_cast<ptrdiff_t>(kept.front), kept.reply.end());
  items_ = kept.items;
  for (rpc::BulkPlace& item : items_) item.offset = item.offset - kept.front + reply_room_.front;
}

// "the next operation in COMPOUND ... having the error NFS4ERR_RETRY_UNCACHED_REP"; an illegal operation
// never gets that error ("MUST NOT ever").
void CompoundRun::replay_uncached() {
  nfs_opnum4 op{};
  if (!in_(op)) return put_status(OP_ILLEGAL, NFS4ERR_BADXDR);
  if (!is_known(op)) return put_status(OP_ILLEGAL, NFS4ERR_OP_ILLEGAL);
  put_status(op, is_unsupported(op) ? NFS4ERR_NOTSUPP : NFS4ERR_RETRY_UNCACHED_REP);
}

void CompoundRun::run_rest() {
  for (; c_.index < c_.operations && status_ == NFS4_OK; ++c_.index) {
    const xdr::Decoder start = in_;
    nfs_opnum4 op{};
    if (!in_(op)) {
      put_status(OP_ILLEGAL, NFS4ERR_BADXDR);
      break;
    }
    run_one(op);
    if (held_back_) {  // resume() executes this operation again
      in_ = start;
      stopped_ = true;
      status_ = NFS4_OK;
      return;
    }
  }
  seal();
}

nfsstat4 CompoundRun::check_position(nfs_opnum4 op) const {
  switch (op) {
    case OP_SEQUENCE: return c_.index == 0 ? NFS4_OK : NFS4ERR_SEQUENCE_POS;
    case OP_BIND_CONN_TO_SESSION: return c_.alone() ? NFS4_OK : NFS4ERR_NOT_ONLY_OP;
    case OP_EXCHANGE_ID:
    case OP_CREATE_SESSION:
    case OP_DESTROY_SESSION:
    case OP_DESTROY_CLIENTID: return sequenced_ || c_.alone() ? NFS4_OK : NFS4ERR_NOT_ONLY_OP;
    default: return sequenced_ ? NFS4_OK : NFS4ERR_OP_NOT_IN_SESSION;
  }
}

size_t CompoundRun::room() const {
  if (c_.session == nullptr) return SIZE_MAX;
  const channel_attrs4& fore = c_.session->fore;
  size_t limit = fore.ca_maxresponsesize;
  if (c_.sequence.sa_cachethis) limit = std::min<size_t>(limit, fore.ca_maxresponsesize_cached);
  // Keep room for the error result of the next operation.
  const size_t used = c_.reply.size() + reply_room_.behind + (c_.last() ? 0 : kBareResultBytes);
  return limit > used ? limit - used : 0;
}

nfsstat4 CompoundRun::too_big() const {
  const channel_attrs4& fore = c_.session->fore;
  const bool cache_is_it =
      c_.sequence.sa_cachethis && fore.ca_maxresponsesize_cached < fore.ca_maxresponsesize;
  return cache_is_it ? NFS4ERR_REP_TOO_BIG_TO_CACHE : NFS4ERR_REP_TOO_BIG;
}

void CompoundRun::run_one(nfs_opnum4 op) {
  const tree::NodePtr before = c_.current.node;
  c_.name.clear();
  bool injected = false;
  if (!is_known(op)) {
    put_status(OP_ILLEGAL, NFS4ERR_OP_ILLEGAL);
  } else if (const nfsstat4 status = check_position(op); status != NFS4_OK) {
    put_status(op, status);
  } else if (is_unsupported(op)) {
    put_status(op, NFS4ERR_NOTSUPP);
  } else if (sequenced_ && c_.session == nullptr) {
    put_status(op, NFS4ERR_DEADSESSION);  // an earlier operation has destroyed the session or its client
  } else if (const auto order = orders_.answers.find(op); order != orders_.answers.end()) {
    injected = true;
    put_status(op, order->second);
  } else if (c_.room = room(); success_bytes(op) > c_.room) {
    put_status(op, too_big());
  } else {
    c_.result_at = c_.reply.size();
    const state::Session* session = c_.session;
    c_.delegation_in_the_way = false;
    status_ = perform(op);
    if (status_ == NFS4ERR_DELAY && c_.delegation_in_the_way && patient_) {
      held_back_ = true;
      return take_back();
    }
    if (status_ == NFS4_OK && puts_filehandle(op) && !accepts(c_, *c_.current.node) &&
        answers_for_policy(in_, c_.operations - c_.index - 1)) {
      take_back();
      put_status(op, NFS4ERR_WRONGSEC);
    }
    if (sequenced_ && may_end_sessions(op)) {
      c_.session = c_.core.clients.find(c_.sequence.sa_sessionid);
      c_.client = c_.session != nullptr ? c_.session->client : nullptr;
    }
    if (session != nullptr && c_.session == session && c_.reply.size() - c_.result_at > c_.room) {
      take_back();
      put_status(op, too_big());
    }
  }
  note(op, before, injected);
}

void CompoundRun::take_back() {
  c_.reply.resize(c_.result_at);
  while (!items_.empty() && items_.back().offset > c_.result_at) items_.pop_back();
  --results_;
}

nfsstat4 CompoundRun::perform(nfs_opnum4 op) {
  switch (op) {
#define NFSRDMA_FILER_CASE(operation) \
  case OP_##operation: {              \
    operation##4args args;            \
    if (!in_(args)) {                 \
      put_status(op, NFS4ERR_BADXDR); \
    } else {                          \
      c_.name = name_in(args);        \
      put(execute(c_, args));         \
    }                                 \
    break;                            \
  }
    NFS4_EACH_OP(NFSRDMA_FILER_CASE)
#undef NFSRDMA_FILER_CASE
    default: put_status(OP_ILLEGAL, NFS4ERR_OP_ILLEGAL);
  }
  return status_;
}

template <class Res>
const char* CompoundRun::encode(const Res& res) {
  c_.reply.resize(c_.result_at);
  xdr::Encoder x(c_.reply);
  return x(op_of<Res>) && x(res) ? nullptr : x.failure();
}

// READ's data is already in place (see Context::data_room); put its header in front of it.
const char* CompoundRun::encode(const READ4res& res) {
  ByteVector head;
  head.reserve(Context::kBeforeData);
  std::vector<xdr::Bulk> beside;
  xdr::Encoder x(head, &beside);
  if (!x(OP_READ) || !x(res)) return x.failure();
  const size_t bytes = res.resok4.data.size();
  c_.reply.resize(c_.result_at + head.size() + xdr_padded(bytes));
  std::copy(head.begin(), head.end(), c_.reply.begin() + static_cast<ptrdiff_t>(c_.result_at));
  return nullptr;
}

template <class Res>
void CompoundRun::put(const Res& res) {
  if (const char* failure = encode(res)) {
    log::error("filer: the result of {} cannot be encoded: {}", op_name(op_of<Res>), failure);
    c_.reply.resize(c_.result_at);
    return put_status(op_of<Res>, NFS4ERR_SERVERFAULT);
  }
  status_ = res.status;
  ++results_;
  if constexpr (requires { placeable_bytes(res); }) {  // the placeable item is at the end of the result
    const size_t bytes = status_ == NFS4_OK ? placeable_bytes(res) : 0;
    items_.push_back({c_.reply.size() - xdr_padded(bytes), bytes});
  }
}

void CompoundRun::put_status(nfs_opnum4 op, nfsstat4 status) {
  xdr::Encoder x(c_.reply);
  x(op) && x(status);
  // A failed SETATTR, and LOCK and LOCKT with NFS4ERR_DENIED, return more than a status.
  if (op == OP_SETATTR) x(bitmap4{});
  if (status == NFS4ERR_DENIED && (op == OP_LOCK || op == OP_LOCKT))
    x(LOCK4denied{0, NFS4_UINT64_MAX, WRITE_LT, {}});
  status_ = status;
  ++results_;
}

void CompoundRun::note(nfs_opnum4 op, const tree::NodePtr& before, bool injected) {
  if (!c_.core.options.journal) return;
  const bool moved = status_ == NFS4_OK && (op == OP_LOOKUP || op == OP_OPEN || op == OP_CREATE);
  const tree::NodePtr& node = moved ? c_.current.node : before;
  executed_.ops.push_back({op, status_, node != nullptr ? node->id : 0, c_.name, injected});
}

void CompoundRun::seal() {
  if (done_) return;
  done_ = true;
  c_.core.save_clients();
  std::byte* const results = c_.reply.data() + reply_room_.front;
  store_be32(results, status_);
  store_be32(results + 8 + xdr_padded(load_be32(results + 4)), results_);
  if (sequenced_) finish_sequence(c_.core, c_.sequence, c_.operations, {c_.reply, items_, reply_room_.front});
  executed_.status = status_;
  if (c_.core.options.journal) c_.core.journal.record(executed_);
  c_.core.changed.notify_all();
}

}  // namespace nfsrdma::filer::nfs
