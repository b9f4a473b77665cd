// SPDX-License-Identifier: Apache-2.0
#include "client/nfs4/state/state_registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "transport/runtime/log.h"
#include "transport/runtime/mutex.h"
#include "xdr/nfs4/state_ops.h"

namespace nfsrdma::client::nfs4 {

StateRegistry::Counts StateRegistry::counts() const {
  Counts counts;
  counts.locks_lost = locks_lost_.load(std::memory_order_relaxed);
  for (const NodeRef& node : files()) {
    const MutexLock lock(nfs4_node(node).mutex);
    const auto& file = nfs4_node(node).file;
    if (!file) continue;
    for (const auto& open : file->opens) {
      if (!open->idle()) ++counts.opens;
      for (const LockState& lock_state : open->locks) counts.locks += lock_state.ranges.size();
    }
  }
  return counts;
}

nfs4::open_owner4 StateRegistry::open_owner(uint32_t uid) const {
  return {session_.client_id(), fmt::format("open {}", uid)};
}

OpenStateRef StateRegistry::opened(FileState& file, const rpc::CredentialPtr& credential, uint32_t access,
                                   const nfs4::OPEN4resok& result, uint64_t epoch) {
  OpenStateRef opened;
  std::vector<nfs4::stateid4> gone;  // locks first
  bool lost_locks = false;
  {
    MutexLock lock(file.node.mutex);
    const auto it = std::find_if(file.opens.begin(), file.opens.end(),
                                 [&](const auto& o) { return o->uid == credential->uid(); });
    if (it != file.opens.end()) {
      opened = *it;
    } else {
      opened = file.opens.emplace_back(std::make_shared<OpenState>());
      opened->uid = credential->uid();
      opened->credential = credential;
    }
    OpenState& state = *opened;
    file.preserve_unlinked = (result.rflags & nfs4::OPEN4_RESULT_PRESERVE_UNLINKED) != 0;
    ++state.openers[access];
    state.failed = 0;
    state.refused_access &= ~access;
    // If the OPEN was sent before a restart and this state was reclaimed since, the OPEN's stateid is gone,
    // and StateManager::run() opens what is missing.
    if (state.established && epoch < state.epoch) return opened;
    const bool same = state.established && state.stateid.same_state(result.stateid);
    if (!same) {
      // The server had dropped the earlier open. For openers with another access, run() opens the file again.
      if (state.established) {
        gone = stateids_of(state);
        lost_locks = lose(state);
      }
      ++state.version;
    }
    if (!same || is_newer(result.stateid, state.stateid)) state.stateid = result.stateid;
    state.established = true;
    state.epoch = epoch;
    state.held_access |= access;
    state.opened |= 1u << access;
  }
  if (lost_locks) report_lost_locks(NodeRef(&file.node), "the server revoked them");
  if (!gone.empty()) Loop::current()->spawn(free_stateids(std::move(gone), credential));
  return opened;
}

OpenStateRef StateRegistry::opened_locally(FileState& file, const rpc::CredentialPtr& credential,
                                           uint32_t access) {
  const auto it = std::find_if(file.opens.begin(), file.opens.end(),
                               [&](const auto& o) { return o->uid == credential->uid(); });
  OpenStateRef state = it != file.opens.end() ? *it : nullptr;
  if (!state) {
    state = file.opens.emplace_back(std::make_shared<OpenState>());
    state->uid = credential->uid();
    state->credential = credential;
  }
  ++state->openers[access];
  state->failed = 0;
  state->refused_access &= ~access;
  return state;
}

OpenStateRef StateRegistry::opened_as_held(FileState& file, const rpc::CredentialPtr& credential,
                                           uint32_t access) {
  MutexLock lock(file.node.mutex);
  for (const OpenStateRef& state : file.opens) {
    if (state->uid != credential->uid()) continue;
    const uint32_t held = state->established && state->failed == 0 ? state->held_access : 0;
    if ((access & ~held) != 0 || held == access) return nullptr;
    ++state->openers[access];
    return state;
  }
  return nullptr;
}

std::vector<nfs4::stateid4> stateids_of(const OpenState& state) {
  std::vector<nfs4::stateid4> all;
  for (const LockState& owner : state.locks) {
    if (owner.established) all.push_back(owner.stateid);
  }
  if (state.established) all.push_back(state.stateid);
  return all;
}

bool StateRegistry::note_upgrade(const nfs4::stateid4& stateid, uint32_t access) {
  for (const NodeRef& node : files()) {
    MutexLock lock(nfs4_node(node).mutex);
    const auto& file = nfs4_node(node).file;
    for (size_t i = 0; file && i < file->opens.size(); ++i) {
      OpenState& state = *file->opens[i];
      if (!state.established || !state.stateid.same_state(stateid)) continue;
      if (is_newer(stateid, state.stateid)) state.stateid = stateid;
      state.held_access |= access;
      state.opened |= 1u << access;
      return true;
    }
  }
  return false;
}

bool lose(OpenState& state) {
  state.established = false;
  state.held_access = state.opened = 0;
  ++state.version;
  bool lost_locks = false;
  for (LockState& lock : state.locks) {
    lock.established = false;
    lock.asked.clear();
    if (lock.ranges.empty() || lock.local) continue;
    if (!std::exchange(lock.lost, true)) lost_locks = true;
  }
  return lost_locks;
}

std::string StateRegistry::describe_file(const NodeRef& node) {
  if (log::on(log::Level::kDebug)) {
    if (const auto found = names_.name_of(*node.get())) return fmt::format("\"{}\"", found->name);
  }
  MutexLock lock(nfs4_node(node).mutex);
  return fmt::format("inode {0} ('find -inum {0}' in the mount names it)",
                     nfs4_node(node).attributes.get().ino);
}

void StateRegistry::report_lost_locks(const NodeRef& node, const char* why) {
  locks_lost_.fetch_add(1, std::memory_order_relaxed);
  log::error("locks of {} are lost ({}): I/O under them fails until they are released", describe_file(node),
             why);
  hooks_.locks_lost(node);
}

Task<> StateRegistry::free_stateid(nfs4::stateid4 stateid, rpc::CredentialPtr credential) {
  auto build = [&](CompoundBuilder& b) { b.add(nfs4::FREE_STATEID4args{stateid}); };
  const Request request{
      .op = nfs4::OP_FREE_STATEID, .credential = std::move(credential), .cache_this = true, .build = build};
  (void)co_await session_.run(request);  // ignores errors: the server may have freed it already
}

Task<> StateRegistry::free_stateids(std::vector<nfs4::stateid4> stateids, rpc::CredentialPtr credential) {
  for (const nfs4::stateid4& stateid : stateids) co_await free_stateid(stateid, credential);
}

}  // namespace nfsrdma::client::nfs4
