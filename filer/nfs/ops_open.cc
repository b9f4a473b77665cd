// SPDX-License-Identifier: Apache-2.0
// OPEN, OPENATTR, OPEN_DOWNGRADE and CLOSE (RFC 8881 sections 18.16 to 18.18, 18.2).

#include "filer/nfs/delegations.h"
#include "filer/nfs/ops.h"
#include "filer/nfs/security_policy.h"
#include "filer/nfs/stateid_use.h"

namespace nfsrdma::filer::nfs {

using namespace nfs4;

namespace {

constexpr uint32_t kWants = OPEN4_SHARE_ACCESS_WANT_DELEG_MASK |
                            OPEN4_SHARE_ACCESS_WANT_SIGNAL_DELEG_WHEN_RESRC_AVAIL |
                            OPEN4_SHARE_ACCESS_WANT_PUSH_DELEG_WHEN_UNCONTENDED;
const bitmap4 kTimesToSet = bitmap4::of({FATTR4_TIME_ACCESS_SET, FATTR4_TIME_MODIFY_SET});

// One OPEN in progress. Its steps are member functions, called in this order; each returns a status.
class Opening {
 public:
  Opening(Context& c, const OPEN4args& args)
      : c_(c), args_(args), access_(args.share_access & ~kWants), deny_(args.share_deny) {}

  OPEN4res run() {
    OPEN4res res;
    using Step = nfsstat4 (Opening::*)();
    for (const Step step :
         {&Opening::check_arguments, &Opening::check_grace, &Opening::find_file, &Opening::check_type,
          &Opening::check_room, &Opening::check_permission, &Opening::check_conflicts, &Opening::truncate}) {
      if (res.status = (this->*step)(); res.status != NFS4_OK) return res;
    }
    res.resok4 = take_state();
    return res;
  }

 private:
  bool by_name() const {
    return args_.claim.claim == CLAIM_NULL || args_.claim.claim == CLAIM_DELEGATE_CUR ||
           args_.claim.claim == CLAIM_DELEGATE_PREV;
  }
  bool reclaims() const { return args_.claim.claim == CLAIM_PREVIOUS; }
  bool from_delegation() const {
    return args_.claim.claim == CLAIM_DELEGATE_CUR || args_.claim.claim == CLAIM_DELEG_CUR_FH;
  }
  bool creates() const { return args_.openhow.opentype == OPEN4_CREATE; }
  bool exclusive() const {
    return creates() && (args_.openhow.how.mode == EXCLUSIVE4 || args_.openhow.how.mode == EXCLUSIVE4_1);
  }

  nfsstat4 check_arguments();
  nfsstat4 check_grace();
  nfsstat4 find_file();
  nfsstat4 found(tree::NodePtr node);
  nfsstat4 create(const tree::NodePtr& dir);
  nfsstat4 set_initial(tree::Node& node, tree::Changes changes);
  nfsstat4 check_room();
  nfsstat4 check_type();
  nfsstat4 check_permission();
  nfsstat4 check_delegation_claim();
  nfsstat4 check_reclaim();
  nfsstat4 check_conflicts();
  nfsstat4 truncate();
  OPEN4resok take_state();

  Context& c_;
  const OPEN4args& args_;
  const uint32_t access_;
  const uint32_t deny_;
  tree::NodePtr node_;
  bool created_ = false;
  bool again_ = false;      // an exclusive create that was executed before
  bool truncates_ = false;  // UNCHECKED4 with size zero found an existing file
  change_info4 cinfo_;
  bitmap4 attrset_;
};

nfsstat4 Opening::check_arguments() {
  if (const nfsstat4 status = need_current(c_); status != NFS4_OK) return status;
  // "MUST be one of OPEN4_SHARE_ACCESS_READ, OPEN4_SHARE_ACCESS_WRITE, or OPEN4_SHARE_ACCESS_BOTH"
  // (section 18.16.4).
  if (access_ < OPEN4_SHARE_ACCESS_READ || access_ > OPEN4_SHARE_ACCESS_BOTH) return NFS4ERR_INVAL;
  if (deny_ > OPEN4_SHARE_DENY_BOTH) return NFS4ERR_INVAL;
  const uint32_t want = args_.share_access & OPEN4_SHARE_ACCESS_WANT_DELEG_MASK;
  if (want > OPEN4_SHARE_ACCESS_WANT_CANCEL) return NFS4ERR_INVAL;
  // "If opentype is OPEN4_CREATE, then the claim ... MUST be one of CLAIM_NULL, CLAIM_DELEGATE_CUR, or
  // CLAIM_DELEGATE_PREV, because these claim methods include a component of a file name."
  if (creates() && !by_name()) return NFS4ERR_INVAL;
  // Delegations do not survive their client (section 10.2.1: "A server MAY support").
  if (args_.claim.claim == CLAIM_DELEGATE_PREV || args_.claim.claim == CLAIM_DELEG_PREV_FH)
    return NFS4ERR_NOTSUPP;
  if (args_.claim.claim == CLAIM_DELEG_CUR_FH && !c_.core.switches.claims_by_handle) return NFS4ERR_NOTSUPP;
  return NFS4_OK;
}

nfsstat4 Opening::check_grace() {
  if (reclaims()) return c_.core.recovery.may_reclaim(*c_.client);
  if (from_delegation()) return NFS4_OK;  // "valid both during and after the grace period"
  if (c_.core.recovery.in_grace()) return NFS4ERR_GRACE;
  // "If non-reclaim locking operations are done before the RECLAIM_COMPLETE, an NFS4ERR_GRACE error will be
  // returned."
  return c_.client->reclaim_complete ? NFS4_OK : NFS4ERR_GRACE;
}

nfsstat4 Opening::find_file() {
  if (!by_name()) return found(c_.current.node);
  const tree::NodePtr dir = c_.current.node;
  if (!dir->is_directory()) return NFS4ERR_NOTDIR;
  // A file that the name leads to is of the directory's file system.
  if (!accepts(c_, *dir)) return NFS4ERR_WRONGSEC;
  if (const nfsstat4 status = c_.core.tree.check_name(*dir->fs, args_.claim.file); status != NFS4_OK)
    return status;
  if (!tree::may(*dir, c_.who, tree::kMayExecute)) return NFS4ERR_ACCESS;
  cinfo_ = ChangeInfo(c_, dir).done();
  const tree::Answer<tree::NodePtr> node = c_.core.tree.lookup(*dir, args_.claim.file);
  if (node) return found(*node);
  // A delegation can exist only for an existing file, so CLAIM_DELEGATE_CUR creates none.
  if (node.error() != NFS4ERR_NOENT || !creates() || from_delegation()) return node.error();
  const nfsstat4 status = create(dir);
  cinfo_.after = dir->change;
  return status;
}

nfsstat4 Opening::found(tree::NodePtr node) {
  node_ = std::move(node);
  if (!creates()) return NFS4_OK;
  if (args_.openhow.how.mode == GUARDED4) return NFS4ERR_EXIST;
  if (exclusive()) {
    // "If the object does exist and the stored verifier matches the client provided verifier, the server uses
    // the existing object as the newly created object."
    if (!c_.core.was_created_by(*node_, args_.openhow.how.createverf)) return NFS4ERR_EXIST;
    again_ = true;
    if (args_.openhow.how.mode == EXCLUSIVE4_1) attrset_ = args_.openhow.how.createattrs.attrmask;
    if (c_.core.switches.verifier_in_times) attrset_ = attrset_ | kTimesToSet;
    return NFS4_OK;
  }
  const fattr4& attributes = args_.openhow.how.createattrs;
  truncates_ = attributes.has(FATTR4_SIZE) && attributes.size == 0;
  return NFS4_OK;
}

nfsstat4 Opening::create(const tree::NodePtr& dir) {
  const createhow4& how = args_.openhow.how;
  if (!tree::may(*dir, c_.who, tree::kMayWrite)) return NFS4ERR_ACCESS;
  // The room is checked here, before the file is created. check_room() would be too late.
  if (!c_.core.room_for_open(*c_.client, *dir->fs)) return NFS4ERR_DELAY;
  // "not in suppattr_exclcreat, the server MUST return NFS4ERR_INVAL".
  if (how.mode == EXCLUSIVE4_1 && !tree::exclusive_create_attributes().contains(how.createattrs.attrmask)) {
    return NFS4ERR_INVAL;
  }
  tree::Answer<tree::Changes> changes = tree::Changes{};
  if (how.mode != EXCLUSIVE4) changes = tree::parse_changes(how.createattrs);
  if (!changes) return changes.error();
  // "SHOULD NOT leave the file's access control to anyone but the owner" if the client gave no attributes.
  const tree::Initial initial{.type = NF4REG,
                              .mode = changes->mode.value_or(how.mode == EXCLUSIVE4 ? 0600u : 0644u) & 01777,
                              .uid = tree::acting(*dir->fs, c_.who).uid,
                              .gid = tree::inherited_group(*dir, c_.who)};
  const tree::Answer<tree::NodePtr> node =
      c_.core.tree.create(*dir, args_.claim.file, initial, tree::acting(*dir->fs, c_.who));
  if (!node) return node.error();
  node_ = *node;
  created_ = true;
  tree::settle_initial(*node_, *changes, attrset_);
  const nfsstat4 status = set_initial(*node_, *changes);
  if (status != NFS4_OK) c_.core.tree.remove(*dir, args_.claim.file, tree::acting(*dir->fs, c_.who));
  return status;
}

nfsstat4 Opening::set_initial(tree::Node& node, tree::Changes changes) {
  const verifier4& verifier = args_.openhow.how.createverf;
  if (exclusive() && !c_.core.switches.verifier_in_times) c_.core.created(node, verifier);
  if (exclusive() && c_.core.switches.verifier_in_times) {
    // "the server SHOULD use time_modify_set or time_access_set to store the verifier" (section 18.16.4).
    const auto [accessed, modified] = Core::times_of(verifier);
    changes.accessed = settime4{SET_TO_CLIENT_TIME4, accessed};
    changes.modified = settime4{SET_TO_CLIENT_TIME4, modified};
  }
  if (changes.size) {
    if (*changes.size != 0) {
      if (const nfsstat4 status = c_.core.tree.resize(node, *changes.size, c_.who); status != NFS4_OK)
        return status;
    }
    attrset_.set(FATTR4_SIZE);
  }
  return tree::apply_changes(c_.core.tree, node, changes, c_.who, attrset_);
}

nfsstat4 Opening::check_type() {
  switch (node_->type) {
    case NF4REG: return NFS4_OK;
    case NF4DIR: return NFS4ERR_ISDIR;
    case NF4LNK: return NFS4ERR_SYMLINK;
    default: return NFS4ERR_WRONG_TYPE;
  }
}

// An open by the same open-owner adds no state. A client at its state limit must still be able to return a
// delegation, so claims from a delegation pass.
nfsstat4 Opening::check_room() {
  if (created_ || c_.core.states.find_open(*c_.client, args_.owner.owner, node_->id) != nullptr)
    return NFS4_OK;
  const bool only_his_part =
      c_.core.states.room_for_state(*c_.client) == state::StateTable::Room::kClientFull;
  if (from_delegation() && only_his_part) return NFS4_OK;
  const bool room =
      node_->holds > 0 ? c_.core.room_for_state(*c_.client) : c_.core.room_for_open(*c_.client, *node_->fs);
  return room ? NFS4_OK : NFS4ERR_DELAY;
}

nfsstat4 Opening::check_permission() {
  if (from_delegation()) {
    if (const nfsstat4 status = check_delegation_claim(); status != NFS4_OK) return status;
  }
  if (node_->fs->read_only && ((access_ & OPEN4_SHARE_ACCESS_WRITE) != 0 || truncates_)) return NFS4ERR_ROFS;
  // The creator may open its new file whatever the mode says, and the owner may reclaim an open.
  if (created_ || (tree::owns(*node_, c_.who) && (again_ || reclaims()))) return NFS4_OK;
  const bool reads = (access_ & OPEN4_SHARE_ACCESS_READ) != 0;
  const bool writes = (access_ & OPEN4_SHARE_ACCESS_WRITE) != 0 || truncates_;
  const bool may_read =
      tree::may(*node_, c_.who, tree::kMayRead) || tree::may(*node_, c_.who, tree::kMayExecute);
  if ((reads && !may_read) || (writes && !tree::may(*node_, c_.who, tree::kMayWrite))) return NFS4ERR_ACCESS;
  return NFS4_OK;
}

nfsstat4 Opening::check_delegation_claim() {
  const stateid4& id = args_.claim.delegate_stateid;
  const tree::Answer<state::State*> state =
      c_.core.states.check(id, *c_.client, node_.get(), mask(state::StateKind::kDelegation));
  if (!state) return state.error();
  if (!(*state)->write && (access_ & OPEN4_SHARE_ACCESS_WRITE) != 0) return NFS4ERR_INVAL;
  return NFS4_OK;
}

nfsstat4 Opening::check_reclaim() {
  if (!c_.core.switches.verify_reclaims) return NFS4_OK;
  const state::ReclaimRecord* record = c_.core.recovery.record(*c_.client);
  if (!state::Recovery::covers(*record,
                               state::ReclaimRecord::Open{node_->id, args_.owner.owner, access_, deny_})) {
    return NFS4ERR_RECLAIM_BAD;
  }
  const open_delegation_type4 type = args_.claim.delegate_type;
  if (type != OPEN_DELEGATE_READ && type != OPEN_DELEGATE_WRITE) return NFS4_OK;
  const state::ReclaimRecord::Delegation delegation{node_->id, type == OPEN_DELEGATE_WRITE};
  return state::Recovery::covers(*record, delegation) ? NFS4_OK : NFS4ERR_RECLAIM_BAD;
}

nfsstat4 Opening::check_conflicts() {
  if (reclaims()) {
    if (const nfsstat4 status = check_reclaim(); status != NFS4_OK) return status;
  }
  if (!created_) {
    const bool disturbs_readers =
        (access_ & OPEN4_SHARE_ACCESS_WRITE) != 0 || (deny_ & OPEN4_SHARE_DENY_READ) != 0 || truncates_;
    if (recall_conflicting(c_, *node_, disturbs_readers)) return NFS4ERR_DELAY;
  }
  // "checking of share reservations for the new OPEN proceeds normally, with no exception for the existing
  // OPEN held by the same open-owner". A truncation counts as write access.
  const uint32_t needed = access_ | (truncates_ ? uint32_t{OPEN4_SHARE_ACCESS_WRITE} : 0);
  while (state::State* other = c_.core.states.share_conflict(node_->id, needed, deny_)) {
    if (c_.core.take_from_expired(*other)) continue;
    return reclaims() ? NFS4ERR_RECLAIM_CONFLICT : NFS4ERR_SHARE_DENIED;
  }
  return NFS4_OK;
}

nfsstat4 Opening::truncate() {
  if (!truncates_) return NFS4_OK;
  const nfsstat4 status = c_.core.tree.resize(*node_, 0, c_.who);
  if (status != NFS4_OK) return status;
  c_.core.tree.clear_set_id(*node_, c_.who);
  attrset_.set(FATTR4_SIZE);
  return NFS4_OK;
}

OPEN4resok Opening::take_state() {
  state::StateTable& states = c_.core.states;
  state::State* open = states.find_open(*c_.client, args_.owner.owner, node_->id);
  if (open == nullptr) {
    open = &states.add(state::StateKind::kOpen, *c_.client, node_);
    open->owner = args_.owner.owner;
    open->reclaimed = reclaims();
  }
  open->access |= access_;
  open->deny |= deny_;
  open->combinations = static_cast<uint16_t>(open->combinations | 1u << (access_ * 4 + deny_));

  OPEN4resok r;
  r.stateid = state::StateTable::advance(*open);
  r.cinfo = cinfo_;
  r.rflags = OPEN4_RESULT_LOCKTYPE_POSIX;
  if (c_.core.switches.preserve_unlinked && node_->fs->keeps_unlinked)
    r.rflags |= OPEN4_RESULT_PRESERVE_UNLINKED;
  if (c_.core.switches.notify_locks) r.rflags |= OPEN4_RESULT_MAY_NOTIFY_LOCK;
  r.attrset = attrset_;
  if (reclaims()) c_.core.recovery.reclaimed(c_.core.clock.now());
  // As Linux' server and nfs-ganesha: a client that wants no delegation gets none, not even one that it
  // reclaims.
  const bool wants_none =
      (args_.share_access & OPEN4_SHARE_ACCESS_WANT_DELEG_MASK) == OPEN4_SHARE_ACCESS_WANT_NO_DELEG;
  r.delegation = reclaims() ? (wants_none ? open_delegation4{}
                                          : reclaim_delegation(c_, node_, args_.claim.delegate_type))
                            : offer_delegation(c_, node_, args_.share_access);
  c_.current = {node_, r.stateid};
  return r;
}

}  // namespace

OPEN4res execute(Context& c, const OPEN4args& args) {
  return Opening(c, args).run();
}

// The server has no named attributes: "an error of NFS4ERR_NOTSUPP will be returned" (section 18.17.4).
OPENATTR4res execute(Context& c, const OPENATTR4args&) {
  const nfsstat4 status = need_current(c);
  return refused<OPENATTR4res>(status == NFS4_OK ? NFS4ERR_NOTSUPP : status);
}

OPEN_DOWNGRADE4res execute(Context& c, const OPEN_DOWNGRADE4args& args) {
  using Res = OPEN_DOWNGRADE4res;
  if (const nfsstat4 status = need_current(c); status != NFS4_OK) return refused<Res>(status);
  const uint32_t access = args.share_access & ~kWants;
  if (access < OPEN4_SHARE_ACCESS_READ || access > OPEN4_SHARE_ACCESS_BOTH)
    return refused<Res>(NFS4ERR_INVAL);
  if (args.share_deny > OPEN4_SHARE_DENY_BOTH) return refused<Res>(NFS4ERR_INVAL);
  const tree::Answer<state::State*> state =
      named_state(c, args.open_stateid, mask(state::StateKind::kOpen), true);
  if (!state) return refused<Res>(state.error());
  // "SHOULD equal the union of the share_access bits ... specified for some subset of the OPENs in effect":
  // keep the largest subset within the requested bits. OPENs outside of it are no longer in effect.
  uint16_t kept = 0;
  uint32_t access_union = 0;
  uint32_t deny_union = 0;
  for (uint32_t a = OPEN4_SHARE_ACCESS_READ; a <= OPEN4_SHARE_ACCESS_BOTH; ++a) {
    for (uint32_t d = OPEN4_SHARE_DENY_NONE; d <= OPEN4_SHARE_DENY_BOTH; ++d) {
      const auto bit = static_cast<uint16_t>(1u << (a * 4 + d));
      if (((*state)->combinations & bit) == 0 || (a & ~access) != 0 || (d & ~args.share_deny) != 0) continue;
      kept |= bit;
      access_union |= a;
      deny_union |= d;
    }
  }
  if (access_union != access || deny_union != args.share_deny) return refused<Res>(NFS4ERR_INVAL);
  (*state)->access = access;
  (*state)->deny = args.share_deny;
  (*state)->combinations = kept;
  Res res;
  res.resok4.open_stateid = c.current.stateid = state::StateTable::advance(**state);
  return res;
}

CLOSE4res execute(Context& c, const CLOSE4args& args) {
  if (const nfsstat4 status = need_current(c); status != NFS4_OK) return refused<CLOSE4res>(status);
  const tree::Answer<state::State*> state =
      named_state(c, args.open_stateid, mask(state::StateKind::kOpen), true);
  if (!state) return refused<CLOSE4res>(state.error());
  const tree::NodePtr node = c.current.node;
  // "The server MAY free all outstanding locks on CLOSE, but some servers may not support the CLOSE of a file
  // that still has byte-range locks held. The server MUST return failure if any locks would exist after the
  // CLOSE." (section 18.2.3)
  for (const state::State* lock : (*state)->locks) {
    const bool held =
        lock->live() && c.core.states.locks(node->id).holds(state::StateTable::lock_owner(*lock), lock);
    if (held && !c.core.switches.close_frees_locks) return refused<CLOSE4res>(NFS4ERR_LOCKS_HELD);
  }
  c.core.states.remove(**state);
  c.core.locks_changed(*node);
  CLOSE4res res;
  // "the server SHOULD return the invalid special stateid" (section 18.2.4).
  res.open_stateid = c.current.stateid = kInvalidStateid;
  return res;
}

}  // namespace nfsrdma::filer::nfs
