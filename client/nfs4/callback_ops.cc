// The callback operations (RFC 8881 section 20; valid errors in section 15.3).
#include <algorithm>

#include "client/nfs4/callback.h"
#include "client/nfs4/file_state.h"
#include "transport/runtime/log.h"

namespace nfsrdma::client {
namespace {

using namespace nfs4;  // NOLINT: statuses and operations

// How often a recall waits for the reply it has overtaken: in all some round trips on a network worth
// mounting over. The server asks again after NFS4ERR_DELAY.
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
          // Section 20.1.3: no file is under a write delegation.
          [](const CB_GETATTR4args&) { return NFS4ERR_BADHANDLE; },
          [](const CB_LAYOUTRECALL4args&) { return NFS4ERR_NOMATCHING_LAYOUT; },
          // No directory delegation, no device ID, and nothing of either was ever asked for.
          [](const CB_NOTIFY4args&) { return NFS4ERR_NOTSUPP; },
          [](const CB_NOTIFY_DEVICEID4args&) { return NFS4ERR_NOTSUPP; },
          [](const CB_PUSH_DELEG4args&) { return NFS4ERR_REJECT_DELEG; },
          // No delegation is kept, so none are too many.
          [](const CB_RECALL_ANY4args& a) {
            return defined_object_types(a.craa_type_mask) ? NFS4_OK : NFS4ERR_INVAL;
          },
          [](const CB_RECALLABLE_OBJ_AVAIL4args& a) {
            return defined_object_types(a.craa_type_mask) ? NFS4_OK : NFS4ERR_INVAL;
          },
          [](const CB_WANTS_CANCELLED4args&) { return NFS4_OK; },
          [this](const CB_RECALL_SLOT4args& a) {
            slots_.recall(a.rsa_target_highest_slotid);
            return NFS4_OK;
          },
          [this](const CB_NOTIFY_LOCK4args& a) { return wake_lock_waiters(a.cnla_fh); },
          [](const CB_RECALL4args&) { return NFS4ERR_SERVERFAULT; },  // run_operations() does these three
          [](const CB_SEQUENCE4args&) { return NFS4ERR_SEQUENCE_POS; },
          [](const CB_ILLEGAL4args&) { return NFS4ERR_OP_ILLEGAL; }},
      args.op);
}

void CallbackServer::delegation_granted(const nfs_fh4& fh, const stateid4& stateid) {
  std::lock_guard lock(mutex_);
  delegations_.push_back({fh, stateid});
}

void CallbackServer::delegation_returned(const stateid4& stateid) {
  std::lock_guard lock(mutex_);
  const auto it = std::find_if(delegations_.begin(), delegations_.end(),
                               [&](const Delegation& d) { return d.stateid.same_state(stateid); });
  if (it != delegations_.end()) delegations_.erase(it);
}

nfsstat4 CallbackServer::find_delegation(const CB_RECALL4args& args) const {
  std::lock_guard lock(mutex_);
  nfsstat4 status = NFS4ERR_BADHANDLE;
  for (const Delegation& d : delegations_) {
    if (!(d.fh == args.fh)) continue;
    if (d.stateid.same_state(args.stateid)) return NFS4_OK;
    status = NFS4ERR_BAD_STATEID;
  }
  return status;
}

bool CallbackServer::outstanding(const std::vector<referring_call_list4>& calls) const {
  for (const referring_call_list4& list : calls) {
    for (const referring_call4& call : list.rcl_referring_calls) {
      if (slots_.outstanding(list.rcl_sessionid, call.rc_slotid, call.rc_sequenceid)) return true;
    }
  }
  return false;
}

// Section 2.10.6.3: the recall may have overtaken the reply to the OPEN that granted the delegation. Wait for
// that reply a little; then NFS4ERR_DELAY, while it is still on its way.
Task<nfsstat4> CallbackServer::recall(CB_RECALL4args args, std::vector<referring_call_list4> referring) {
  bool booked = referring.empty();
  for (int pause = 0;; ++pause) {
    const bool racing = outstanding(referring);
    const nfsstat4 status = find_delegation(args);
    if (status == NFS4_OK) {
      log::debug("CB_RECALL of a delegation that is being returned");
      co_return status;
    }
    // The slot is free before the reply's reader has registered what came with it: look once more after a
    // pause.
    if (!racing && booked) co_return status;
    booked = !racing;
    if (pause == kRacePauses) co_return NFS4ERR_DELAY;
    co_await Loop::current()->sleep(race_pause_);
  }
}

// Section 20.11: a hint. Who waits for a lock of the file asks for it again at once.
nfsstat4 CallbackServer::wake_lock_waiters(const nfs_fh4& fh) {
  const NodeRef node = nodes_.find(fh);
  if (!node) return NFS4ERR_BADHANDLE;
  std::lock_guard lock(nfs4_node(node).mutex);
  if (nfs4_node(node).file) nfs4_node(node).file->unlocked.notify_all();
  return NFS4_OK;
}

}  // namespace nfsrdma::client
