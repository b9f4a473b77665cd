// SPDX-License-Identifier: Apache-2.0
// Delegations (RFC 8881 sections 10.4, 18.6, 20.1, 20.2): requested with OPEN, kept with the file, and
// returned.
//
// While a delegation is held, an open(2) that it covers sends no OPEN, and a file stays open on the server
// after the last close of a descriptor. The server recalls the delegation before another client may change
// the file, so attributes and names stay valid without a timeout (AttributeCache::promise). The delegation is
// returned when the server recalls it, when there are too many, when the file is removed, when a file with a
// read delegation is opened for writing, and at unmount. At most kMostReturns coroutines do the queued
// returns, so thousands of recalls at once only make a long queue.
#include <algorithm>

#include "client/nfs4/ops/delegation_service.h"
#include "transport/runtime/log.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::client::nfs4 {
namespace {

// The limit of concurrent returns; each may first write data back.
constexpr unsigned kMostReturns = 16;
// Under a delegation the kernel may cache attributes for acregmax, and at least for this time. The time is
// limited because an invalidation may cross a reply that is on its way to the kernel: the kernel's attributes
// are then wrong for no longer than nfs(5) allows.
constexpr Duration kShortestPromise = std::chrono::seconds(1);

// A return waits for the kernel to drop pages, for a time that counts from when the return was asked for. If
// that time is over already, because the return has waited behind others, it waits this long. Also the pause
// of return_unknown().
constexpr Duration kLeastWait = std::chrono::milliseconds(20);

}  // namespace

bool DelegationService::wants_delegations() const {
  return options_.delegations && !options_.noac && !stopping_ && session_.back_channel();
}

uint32_t DelegationService::delegation_wish() const {
  return wants_delegations() ? nfs4::OPEN4_SHARE_ACCESS_WANT_ANY_DELEG
                             : nfs4::OPEN4_SHARE_ACCESS_WANT_NO_DELEG;
}

DelegationRef DelegationService::take_delegation(FileState& file, const nfs4::OPEN4resok& opened,
                                                 const rpc::CredentialPtr& credential, uint64_t epoch) {
  if (!opened.delegation.granted()) return nullptr;
  auto delegation = std::make_shared<Delegation>(file.node.fh(), opened.delegation, credential, epoch);
  const DelegationStates::Again again = states_.delegation_states().comes_again(file, delegation);
  if (again == DelegationStates::Again::kGone) return nullptr;
  if (again == DelegationStates::Again::kStands) {
    if (wants_delegations() && !opened.delegation.recall) return delegation;
    give_back_soon(std::move(delegation));
    return nullptr;
  }
  if (!wants_delegations() || opened.delegation.recall ||
      !states_.delegation_states().keep(file, delegation)) {
    Loop::current()->spawn(states_.delegation_states().return_unwanted(std::move(delegation)));
    return nullptr;
  }
  for (DelegationRef& oldest : delegations_.excess()) give_back_soon(std::move(oldest));
  return delegation;
}

void DelegationService::begin_promise(const NodeRef& node, const DelegationRef& delegation, uint64_t order) {
  if (!delegation) return;
  Nfs4Node& n = nfs4_node(node);
  MutexLock lock(n.mutex);
  if (!n.file || n.file->delegation != delegation || !n.file->delegated()) return;
  n.attributes.promise(std::max<Duration>(options_.acregmax, kShortestPromise));
  n.promised_by = order;
  n.promised_since = nodes_.next_start();
  delegation->change = n.attributes.get().change;
}

Task<> DelegationService::end_delegation_of(NodeRef node, bool read_only,
                                            DelegationStates::Purpose* purpose) {
  DelegationRef delegation;
  {
    MutexLock lock(nfs4_node(node).mutex);
    const auto& file = nfs4_node(node).file;
    if (file) delegation = file->delegation;
    if (!delegation || (read_only && delegation->write)) co_return;
  }
  auto returning = give_back(std::move(delegation), Why::kOwnUse, Clock::now(), purpose);
  co_await std::move(returning);
}

Task<> DelegationService::give_back(DelegationRef delegation, Why why, TimePoint asked,
                                    DelegationStates::Purpose* purpose) {
  const NodeRef node = nodes_.find(delegation->fh);
  if (!node) co_return;
  Nfs4Node& n = nfs4_node(node);
  const std::shared_ptr<FileState> file = states_.registry().pin_file(n);
  bool first = false, opened = false, writers = false;
  for (;;) {
    MutexLock lock(n.mutex);
    if (file->delegation != delegation) {
      // The server may have sent it again with a newer stateid (comes_again()): then return the new one.
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
      delegation->phase.enter(Delegation::Phase::kReturning);
      n.attributes.promise({});
      // Expire the attributes, too: the client that caused a recall is about to change the file.
      n.attributes.expire(nodes_.next_start());
      break;
    }
    if (why == Why::kAskedFor) break;
    co_await file->delegation_ended.wait(lock);  // another coroutine returns it
  }
  if (first) {
    delegations_.leaving(delegation);
    kernel_.invalidate_attributes(node);
    // The kernel keeps data that was written through a mapping until it is told to drop the pages. And a
    // reader with a descriptor or a mapping sends no request while the kernel has the pages. So the pages are
    // dropped before another client may change the file.
    const bool drop = (delegation->write && writers) || (why == Why::kAskedFor && opened);
    if (drop && writers && !delegation->write) {
      // Do not wait here. The kernel may hold back writes of mapped pages until a SETATTR of ours ends, and
      // that SETATTR waits for this return.
      kept_.invalidate_data(node);
    } else if (drop && !stopping_) {
      // The server revokes a delegation that is not returned within a lease period. Dropping the pages may
      // take a quarter of it, or three quarters if data written through a mapping must be written back. The
      // time counts from `asked`, so thousands of delegations that are recalled at once share it.
      const Duration whole = Duration(session_.lease().period()) * (writers ? 3 : 1) / 4;
      auto dropping = drop_data_within(node, std::max(whole - (Clock::now() - asked), kLeastWait));
      co_await std::move(dropping);
    }
    if (delegation->write) co_await write_back_.write_back(node, file);
    auto returning = states_.delegation_states().give_back(node, file, delegation, purpose);
    co_await std::move(returning);
    // While DELEGRETURN was under way, reads may have filled the kernel's page cache again. No delegation
    // protects those pages.
    if (why == Why::kAskedFor && opened && !stopping_) kept_.invalidate_data(node);
  }
  states_.registry().unpin_file(n);
}

// Waits for drop_data(), but at most `most`. Pages may wait for a READ that the server does not answer, and
// they must not delay a return until the lease ends. They are then dropped when the READ is answered.
Task<> DelegationService::drop_data_within(NodeRef node, Duration most) {
  auto drop = std::make_shared<Dropping>(*Loop::current());
  Loop::current()->spawn(drop_and_tell(std::move(node), drop));
  if (!drop->over) co_await drop->timer.wait_for(most);
}

Task<> DelegationService::drop_and_tell(NodeRef node, std::shared_ptr<Dropping> drop) {
  auto dropping = kept_.drop_data(std::move(node));
  co_await std::move(dropping);
  drop->over = true;
  drop->timer.cancel();
}

void DelegationService::give_back_soon(DelegationRef delegation) {
  {
    MutexLock lock(returns_mutex_);
    if (std::exchange(delegation->queued, true)) return;
    returns_.emplace_back(std::move(delegation), Clock::now());
    if (returning_ == kMostReturns) return;
    ++returning_;
  }
  Loop::current()->spawn(give_back_queued());
}

Task<> DelegationService::give_back_queued() {
  for (;;) {
    std::pair<DelegationRef, TimePoint> next;
    {
      MutexLock lock(returns_mutex_);
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

void DelegationService::recalled(DelegationRef delegation) {
  give_back_soon(std::move(delegation));
}

void DelegationService::recalled_unknown(const nfs4::nfs_fh4& fh, const nfs4::stateid4& stateid,
                                         uint64_t begun) {
  if (stopping_) return;
  if (unknown_returning_.fetch_add(1) >= kMostReturns) {  // the server recalls it again
    unknown_returning_.fetch_sub(1);
    return;
  }
  nfs4::open_delegation4 granted;
  granted.stateid = stateid;
  Loop::current()->spawn(return_unknown(
      std::make_shared<Delegation>(fh, granted, session_.machine_credential(), session_.epoch()), begun));
}

// Waits until every OPEN that may have brought the delegation is answered and processed. Then `delegations_`
// has the delegation, or the reply that brought it was lost.
Task<> DelegationService::return_unknown(DelegationRef delegation, uint64_t begun) {
  while (!stopping_ && delegations_.being_asked_for(begun)) co_await Loop::current()->sleep(kLeastWait);
  Delegations::Found found = delegations_.find(delegation->fh, delegation->stateid);
  if (found.status == nfs4::NFS4_OK) {
    give_back_soon(std::move(found.delegation));
  } else {
    auto returning = states_.delegation_states().return_unwanted(std::move(delegation));
    co_await std::move(returning);
  }
  unknown_returning_.fetch_sub(1);
}

Task<> DelegationService::give_back_everything() {
  // Repeated, because a server restart may replace a delegation meanwhile.
  for (int attempt = 0; attempt < 3; ++attempt) {
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

std::optional<DelegationHolder::Known> DelegationService::delegated_attributes(const Delegation& delegation) {
  const NodeRef node = nodes_.find(delegation.fh);
  if (!node) return std::nullopt;
  Nfs4Node& n = nfs4_node(node);
  MutexLock lock(n.mutex);
  // The attributes that came with the delegation may not be in the cache yet.
  if (!delegation.change) return std::nullopt;
  Known answer{.size = n.attributes.get().size, .change = *delegation.change};
  if (!n.file) return answer;
  answer.size = std::max(answer.size, n.file->written_end(session_.epoch()));
  // Section 10.4.3: "The client will create a value greater than c that will be used for communicating that
  // modified data is held at the client."
  if (n.file->writing()) ++answer.change;
  return answer;
}

}  // namespace nfsrdma::client::nfs4
