// SPDX-License-Identifier: Apache-2.0
// The callback operations (RFC 8881 section 20; valid errors in section 15.3).
#include "client/nfs4/callbacks/callback.h"
#include "client/nfs4/state/file_state.h"
#include "transport/runtime/log.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::client::nfs4 {
namespace {

using namespace nfs4;  // NOLINT: statuses and operations

// How often a recall checks for the reply that it has overtaken: together a few round trips on a network that
// is good enough for NFS. After NFS4ERR_DELAY the server asks again.
constexpr int kRacePauses = 20;

// Section 20.6.3: "When a bit is set in the type mask that corresponds to an undefined type of recallable
// object, NFS4ERR_INVAL MUST be returned."
bool defined_object_types(const bitmap4& mask) {
  static const bitmap4 kDefined =
      bitmap4::of({RCA4_TYPE_MASK_RDATA_DLG, RCA4_TYPE_MASK_WDATA_DLG, RCA4_TYPE_MASK_DIR_DLG,
                   RCA4_TYPE_MASK_FILE_LAYOUT, RCA4_TYPE_MASK_BLK_LAYOUT, RCA4_TYPE_MASK_OBJ_LAYOUT_MIN,
                   RCA4_TYPE_MASK_OBJ_LAYOUT_MAX, RCA4_TYPE_MASK_OTHER_LAYOUT_MIN, 13, 14,
                   RCA4_TYPE_MASK_OTHER_LAYOUT_MAX, 16, 17});  // RFC 8435 section 15: flexible file layouts
  return kDefined.contains(mask);
}

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

}  // namespace

nfsstat4 CallbackServer::execute(const nfs_cb_argop4& args) {
  return std::visit(
      Overloaded{
          [](const CB_LAYOUTRECALL4args&) { return NFS4ERR_NOMATCHING_LAYOUT; },
          // This client never asks for notifications of directory changes or of device IDs.
          [](const CB_NOTIFY4args&) { return NFS4ERR_NOTSUPP; },
          [](const CB_NOTIFY_DEVICEID4args&) { return NFS4ERR_NOTSUPP; },
          [](const CB_PUSH_DELEG4args&) { return NFS4ERR_REJECT_DELEG; },
          [this](const CB_RECALL_ANY4args& a) { return recall_any(a); },
          [](const CB_RECALLABLE_OBJ_AVAIL4args& a) {
            return defined_object_types(a.craa_type_mask) ? NFS4_OK : NFS4ERR_INVAL;
          },
          [](const CB_WANTS_CANCELLED4args&) { return NFS4_OK; },
          [this](const CB_RECALL_SLOT4args& a) {
            slots_.recall(a.rsa_target_highest_slotid);
            return NFS4_OK;
          },
          [this](const CB_NOTIFY_LOCK4args& a) { return wake_lock_waiters(a.cnla_fh); },
          [](const CB_GETATTR4args&) { return NFS4ERR_SERVERFAULT; },  // run_operations() handles these four
          [](const CB_RECALL4args&) { return NFS4ERR_SERVERFAULT; },
          [](const CB_SEQUENCE4args&) { return NFS4ERR_SEQUENCE_POS; },
          [](const CB_ILLEGAL4args&) { return NFS4ERR_OP_ILLEGAL; }},
      args.op);
}

bool CallbackServer::outstanding(const std::vector<referring_call_list4>& calls) const {
  for (const referring_call_list4& list : calls) {
    for (const referring_call4& call : list.rcl_referring_calls) {
      if (slots_.outstanding(list.rcl_sessionid, call.rc_slotid, call.rc_sequenceid)) return true;
    }
  }
  return false;
}

// Section 2.10.6.3: the callback may have overtaken the reply to the OPEN that granted the delegation. Wait
// for that reply a little. Without referring calls, any OPEN in progress may be that OPEN. (Servers that send
// no referring calls repeat the callback after an error; the wait saves them that.)
template <class Find>
Task<nfsstat4> CallbackServer::find_overtaken(const std::vector<referring_call_list4>& referring,
                                              const Find& find) {
  bool settled = referring.empty();
  const uint64_t begun = delegations_.begun_so_far();
  for (int pause = 0;; ++pause) {
    const bool racing = referring.empty() ? delegations_.being_asked_for(begun) : outstanding(referring);
    const nfsstat4 status = find();
    if (status == NFS4_OK) co_return status;
    // The slot becomes free before the reply's reader registers the delegation. So look once more after a
    // pause.
    if (!racing && settled) co_return status;
    settled = !racing;
    if (pause == kRacePauses) co_return referring.empty() ? status : NFS4ERR_DELAY;
    co_await Loop::current()->sleep(race_pause_);
  }
}

Task<nfsstat4> CallbackServer::recall(CB_RECALL4args args, std::vector<referring_call_list4> referring) {
  Delegations::Found found;
  const auto find = [&] {
    found = delegations_.find(args.fh, args.stateid);
    return found.status;
  };
  const uint64_t begun = delegations_.begun_so_far();
  const nfsstat4 status = co_await find_overtaken(referring, find);
  DelegationHolder* const holder = delegations_.holder();
  if (status != NFS4_OK) {
    if (holder != nullptr && status != NFS4ERR_DELAY) holder->recalled_unknown(args.fh, args.stateid, begun);
    co_return status;
  }
  delegations_.count_recall();
  // The hint `truncate` would allow us not to write data that is about to be truncated. But the truncation
  // may fail, so the data is written.
  if (holder != nullptr) holder->recalled(found.delegation);
  co_return NFS4_OK;
}

// Section 20.6: "the server wishes the client to return enough objects" of these types that only
// craa_objects_to_keep remain.
nfsstat4 CallbackServer::recall_any(const CB_RECALL_ANY4args& args) {
  if (!defined_object_types(args.craa_type_mask)) return NFS4ERR_INVAL;
  DelegationHolder* const holder = delegations_.holder();
  if (holder == nullptr) return NFS4_OK;
  const bool read = args.craa_type_mask.test(RCA4_TYPE_MASK_RDATA_DLG);
  const bool write = args.craa_type_mask.test(RCA4_TYPE_MASK_WDATA_DLG);
  for (const DelegationRef& d : delegations_.oldest_beyond(args.craa_objects_to_keep, read, write)) {
    delegations_.count_recall();
    holder->recalled(d);
  }
  return NFS4_OK;
}

Task<CB_GETATTR4res> CallbackServer::getattr(CB_GETATTR4args args,
                                             std::vector<referring_call_list4> referring) {
  DelegationRef delegation;
  DelegationHolder* const holder = delegations_.holder();
  // Section 20.1.3: "If the filehandle specified is not one for which the client holds an OPEN_DELEGATE_WRITE
  // delegation, an NFS4ERR_BADHANDLE error is returned."
  const auto find = [&] {
    delegation = delegations_.find_write(args.fh);
    return delegation && holder != nullptr ? NFS4_OK : NFS4ERR_BADHANDLE;
  };
  CB_GETATTR4res res;
  res.status = co_await find_overtaken(referring, find);
  if (res.status != NFS4_OK) co_return res;
  const std::optional<DelegationHolder::Known> known = holder->delegated_attributes(*delegation);
  if (!known) {
    res.status = NFS4ERR_DELAY;
    co_return res;
  }
  fattr4& a = res.resok4.obj_attributes;
  if (args.attr_request.test(FATTR4_SIZE)) {
    a.attrmask.set(FATTR4_SIZE);
    a.size = known->size;
  }
  if (args.attr_request.test(FATTR4_CHANGE)) {
    a.attrmask.set(FATTR4_CHANGE);
    a.change = known->change;
  }
  co_return res;
}

// Section 20.11: a hint. Coroutines that wait for a lock of the file retry at once.
nfsstat4 CallbackServer::wake_lock_waiters(const nfs_fh4& fh) {
  const NodeRef node = nodes_.find(fh);
  if (!node) return NFS4ERR_BADHANDLE;
  MutexLock lock(nfs4_node(node).mutex);
  if (nfs4_node(node).file) nfs4_node(node).file->unlocked.notify_all();
  return NFS4_OK;
}

}  // namespace nfsrdma::client::nfs4
