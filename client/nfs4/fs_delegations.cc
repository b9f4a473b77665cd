// SPDX-License-Identifier: Apache-2.0
// Delegations as the file system uses them (RFC 8881 sections 10.4, 18.6, 20.1, 20.2): asked for with OPEN,
// kept with the file, and given back.
//
// While one is held, opens that it covers are answered here, files stay open on the server when their last
// descriptor is closed, and attributes and names are believed without the clock (AttributeCache::promise). It
// goes back when the server recalls it, when there are too many, when the file is removed or, being for
// reading, opened to be written, and at the end of the mount. What a return takes is done by a few coroutines
// of their own, so that thousands of recalls at once are no more than a queue.
#include <algorithm>

#include "client/nfs4/nfs4_filesystem.h"
#include "transport/runtime/log.h"

namespace nfsrdma::client {
namespace {

// Returns at once; each may write data back first.
constexpr unsigned kMostReturns = 16;
// For how long at a time the kernel believes attributes that are promised: where telling it otherwise crosses
// an answer that is on its way, it is wrong no longer than nfs(5) lets it be.
constexpr Duration kShortestPromise = std::chrono::seconds(1);

// For pages of the kernel, by a return that others have kept waiting.
constexpr Duration kLeastWait = std::chrono::milliseconds(20);

// What the ACE of the delegation lets everybody do without asking ACCESS (section 18.16.3).
uint32_t granted_to_everyone(const nfs4::nfsace4& ace) {
  if (ace.type != nfs4::ACE4_ACCESS_ALLOWED_ACE_TYPE || ace.who != "EVERYONE@") return 0;
  uint32_t access = 0;
  if ((ace.access_mask & nfs4::ACE4_READ_DATA) != 0) access |= nfs4::ACCESS4_READ;
  if ((ace.access_mask & nfs4::ACE4_EXECUTE) != 0) access |= nfs4::ACCESS4_EXECUTE;
  if ((ace.access_mask & nfs4::ACE4_WRITE_DATA) != 0) access |= nfs4::ACCESS4_MODIFY | nfs4::ACCESS4_EXTEND;
  return access;
}

}  // namespace

bool Nfs4Filesystem::wants_delegations() const {
  return options_.delegations && !options_.noac && !stopping_ && session_.back_channel();
}

uint32_t Nfs4Filesystem::delegation_wish() const {
  return wants_delegations() ? nfs4::OPEN4_SHARE_ACCESS_WANT_ANY_DELEG
                             : nfs4::OPEN4_SHARE_ACCESS_WANT_NO_DELEG;
}

DelegationRef Nfs4Filesystem::take_delegation(FileState& file, const nfs4::OPEN4resok& opened,
                                              const rpc::CredentialPtr& credential, uint64_t epoch) {
  if (!opened.delegation.granted()) return nullptr;
  auto delegation = std::make_shared<Delegation>(file.node.fh(), opened.delegation, credential, epoch);
  const StateManager::Again again = states_.comes_again(file, delegation);
  if (again == StateManager::Again::kGone) return nullptr;
  if (again == StateManager::Again::kStands) {
    if (wants_delegations() && !opened.delegation.recall) return delegation;
    give_back_soon(std::move(delegation));
    return nullptr;
  }
  if (!wants_delegations() || opened.delegation.recall || !states_.keep(file, delegation)) {
    Loop::current()->spawn(states_.return_unwanted(std::move(delegation)));
    return nullptr;
  }
  for (DelegationRef& oldest : delegations_.excess()) give_back_soon(std::move(oldest));
  return delegation;
}

void Nfs4Filesystem::begin_promise(const NodeRef& node, const DelegationRef& delegation, uint64_t order) {
  if (!delegation) return;
  Nfs4Node& n = nfs4_node(node);
  std::lock_guard lock(n.mutex);
  if (!n.file || n.file->delegation != delegation || !n.file->delegated()) return;
  n.attributes.promise(std::max<Duration>(options_.acregmax, kShortestPromise));
  n.promised_by = order;
  n.promised_since = nodes_.next_start();
  delegation->change = n.attributes.get().change;
}

Cause Nfs4Filesystem::cause_of_own(const NodeRef& node, uint64_t order, bool asked) const {
  if (asked) return Cause::kOwn;
  const CachedNode& n = cached_node(node);
  std::lock_guard lock(n.mutex);
  return promised(n) && n.promised_since <= order ? Cause::kOwn : Cause::kAsked;
}

Task<std::optional<Result<OpenReply>>> Nfs4Filesystem::open_under_delegation(RequestContext ctx, NodeRef node,
                                                                             int flags) {
  const uint32_t access = CachedOpen::access_of(flags);
  Nfs4Node& n = nfs4_node(node);
  for (bool asked = false;; asked = true) {
    {
      std::lock_guard lock(n.mutex);
      if (!n.file || !n.file->delegated() || !n.file->delegation->covers(access)) break;
      const std::shared_ptr<FileState> file = n.file;
      const DelegationRef delegation = file->delegation;
      uint32_t allowed = granted_to_everyone(delegation->permissions);
      const bool everyone = suffices(allowed, flags);
      const std::optional<uint32_t> known = known_access(ctx, n);
      if (known) allowed |= *known;
      if (vouched_for(n) && (known || everyone)) {
        if (!suffices(allowed, flags)) co_return fail(system_error(EACCES, "OPEN"));
        OpenReply reply;
        const uint64_t change = n.attributes.get().change;
        reply.keep_cache = n.pages_are_of(change) && !n.kernel.knows_other_than(change);
        reply.size_is_news = size_is_news(n);
        n.contents.set(change);
        const OpenStateRef state = states_.opened_locally(*file, ctx.credential, access);
        delegations_.used(delegation);
        delegations_.count_local_open();
        reply.file = std::make_shared<Nfs4File>(node, file, state, ctx.credential, access, synchronous(flags),
                                                file->write_errors);
        co_return reply;
      }
    }
    if (asked) break;
    // One question now, and none for the next open.
    const Result<uint32_t> answer = co_await ask_access(ctx, node, kEveryAccess);
    if (!answer) break;
  }
  co_return std::nullopt;
}

Task<> Nfs4Filesystem::end_delegation_of(NodeRef node, bool read_only, StateManager::Purpose* purpose) {
  DelegationRef delegation;
  {
    std::lock_guard lock(nfs4_node(node).mutex);
    const auto& file = nfs4_node(node).file;
    if (file) delegation = file->delegation;
    if (!delegation || (read_only && delegation->write)) co_return;
  }
  auto returning = give_back(std::move(delegation), Why::kOwnUse, Clock::now(), purpose);
  co_await std::move(returning);
}

Task<> Nfs4Filesystem::give_back(DelegationRef delegation, Why why, TimePoint asked,
                                 StateManager::Purpose* purpose) {
  const NodeRef node = nodes_.find(delegation->fh);
  if (!node) co_return;
  Nfs4Node& n = nfs4_node(node);
  const std::shared_ptr<FileState> file = states_.pin_file(n);
  bool first = false, opened = false, writers = false;
  for (;;) {
    std::unique_lock lock(n.mutex);
    if (file->delegation != delegation) {
      // It may have come again meanwhile (comes_again()): that is what was asked for.
      const DelegationRef& now = file->delegation;
      if (!now || now->epoch != delegation->epoch || !now->stateid.same_state(delegation->stateid)) break;
      delegation = now;
    }
    first = file->delegated();
    if (first) {
      opened = file->opened();
      writers = std::any_of(file->opens.begin(), file->opens.end(), [](const OpenStateRef& open) {
        return (open->needed_access() & CachedOpen::kWrite) != 0;
      });
      delegation->phase = Delegation::Phase::kReturning;
      n.attributes.promise({});
      // Whoever wants it back is about to change the file.
      n.attributes.expire(nodes_.next_start());
      break;
    }
    if (why == Why::kAskedFor) break;
    co_await file->delegation_ended.wait(lock);  // somebody else returns it
  }
  if (first) {
    delegations_.leaving(delegation);
    kernel_.invalidate_attributes(node);
    // What was written through a mapping is the kernel's until it is told to let go of it. And who reads on
    // through a descriptor or a mapping asks for nothing while the kernel has the pages: they go before
    // somebody else may change them.
    const bool drop = (delegation->write && writers) || (why == Why::kAskedFor && opened);
    if (drop && writers && !delegation->write) {
      // Stores may wait in the kernel for a SETATTR of ours, and that for this return.
      invalidate_data(node);
    } else if (drop && !stopping_) {
      // Of thousands that are recalled at once all pages are waited for together. What was stored through a
      // mapping takes time to be written, and the server takes its delegation away after a lease.
      const Duration whole = Duration(session_.lease()) * (writers ? 3 : 1) / 4;
      auto dropping = drop_data_within(node, std::max(whole - (Clock::now() - asked), kLeastWait));
      co_await std::move(dropping);
    }
    if (delegation->write) co_await write_back(node, file);
    auto returning = states_.give_back(node, file, delegation, purpose);
    co_await std::move(returning);
    // Who has read on meanwhile has filled pages that are nobody's promise any more.
    if (why == Why::kAskedFor && opened && !stopping_) invalidate_data(node);
  }
  states_.unpin_file(n);
}

// Pages that wait for a READ which the server does not answer must not hold up a return until the lease is
// over: they are let go when it is answered.
Task<> Nfs4Filesystem::drop_data_within(NodeRef node, Duration most) {
  auto drop = std::make_shared<Dropping>(*Loop::current());
  Loop::current()->spawn(drop_and_tell(std::move(node), drop));
  if (!drop->over) co_await drop->timer.wait_for(most);
}

Task<> Nfs4Filesystem::drop_and_tell(NodeRef node, std::shared_ptr<Dropping> drop) {
  auto dropping = drop_data(std::move(node));
  co_await std::move(dropping);
  drop->over = true;
  drop->timer.cancel();
}

void Nfs4Filesystem::give_back_soon(DelegationRef delegation) {
  {
    std::lock_guard lock(returns_mutex_);
    if (std::exchange(delegation->queued, true)) return;
    returns_.emplace_back(std::move(delegation), Clock::now());
    if (returning_ == kMostReturns) return;
    ++returning_;
  }
  Loop::current()->spawn(give_back_queued());
}

Task<> Nfs4Filesystem::give_back_queued() {
  for (;;) {
    std::pair<DelegationRef, TimePoint> next;
    {
      std::lock_guard lock(returns_mutex_);
      if (returns_.empty()) {
        --returning_;
        co_return;
      }
      next = std::move(returns_.front());
      returns_.pop_front();
      next.first->queued = false;
    }
    auto returning = give_back(std::move(next.first), Why::kAskedFor, next.second);
    co_await std::move(returning);
  }
}

void Nfs4Filesystem::recalled(DelegationRef delegation) {
  give_back_soon(std::move(delegation));
}

void Nfs4Filesystem::recalled_unknown(const nfs4::nfs_fh4& fh, const nfs4::stateid4& stateid,
                                      uint64_t begun) {
  if (stopping_) return;
  if (unknown_returning_.fetch_add(1) >= kMostReturns) {  // the server asks again
    unknown_returning_.fetch_sub(1);
    return;
  }
  nfs4::open_delegation4 granted;
  granted.stateid = stateid;
  Loop::current()->spawn(return_unknown(
      std::make_shared<Delegation>(fh, granted, session_.machine_credential(), session_.epoch()), begun));
}

// Not before every OPEN that may bring it is answered and booked: then it is known, or its answer was lost.
Task<> Nfs4Filesystem::return_unknown(DelegationRef delegation, uint64_t begun) {
  while (!stopping_ && delegations_.being_asked_for(begun)) co_await Loop::current()->sleep(kLeastWait);
  Delegations::Found found = delegations_.find(delegation->fh, delegation->stateid);
  if (found.status == nfs4::NFS4_OK) {
    give_back_soon(std::move(found.delegation));
  } else {
    auto returning = states_.return_unwanted(std::move(delegation));
    co_await std::move(returning);
  }
  unknown_returning_.fetch_sub(1);
}

Task<> Nfs4Filesystem::give_back_everything() {
  // Again for one that a restart of the server has replaced meanwhile.
  for (int turn = 0; turn < 3; ++turn) {
    const std::vector<DelegationRef> all = delegations_.all();
    for (const DelegationRef& delegation : all) give_back_soon(delegation);
    for (const DelegationRef& delegation : all) {
      auto returning = give_back(delegation, Why::kOwnUse, Clock::now());
      co_await std::move(returning);
    }
  }
  while (delegations_.statistics().returning != 0)
    co_await Loop::current()->sleep(std::chrono::milliseconds(1));
}

void Nfs4Filesystem::delegation_ended(NodeRef node) {
  // Section 10.5: "When locks and delegations are revoked, the assumptions upon which successful caching
  // depends are no longer guaranteed." An open asks by itself; who has it open would go on without asking.
  expire(node);
  bool opened = false;
  {
    std::lock_guard lock(nfs4_node(node).mutex);
    const auto& file = nfs4_node(node).file;
    opened = file && file->opened();
  }
  if (opened) return invalidate_data(node);
  kernel_.invalidate_attributes(std::move(node));
}

std::optional<DelegationHolder::Known> Nfs4Filesystem::delegated_attributes(const Delegation& delegation) {
  const NodeRef node = nodes_.find(delegation.fh);
  if (!node) return std::nullopt;
  Nfs4Node& n = nfs4_node(node);
  std::lock_guard lock(n.mutex);
  // What came with it may still be on its way into the cache.
  if (!delegation.change) return std::nullopt;
  Known answer{.size = n.attributes.get().size, .change = *delegation.change};
  if (!n.file) return answer;
  answer.size = std::max(answer.size, n.file->written_end(epoch()));
  // Section 10.4.3: "The client will create a value greater than c that will be used for communicating that
  // modified data is held at the client."
  if (!n.file->writes.empty()) ++answer.change;
  return answer;
}

}  // namespace nfsrdma::client
