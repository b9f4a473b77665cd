// SPDX-License-Identifier: Apache-2.0
#include "fuse/credentials.h"

#include <unistd.h>

#include <utility>

#include "fuse/thread_status.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::fuse {

namespace {

std::vector<uint32_t> own_groups() {
  const int n = ::getgroups(0, nullptr);
  std::vector<gid_t> groups(n > 0 ? static_cast<size_t>(n) : 0);
  if (!groups.empty() && ::getgroups(n, groups.data()) != n) groups.clear();
  return {groups.begin(), groups.end()};
}

}  // namespace

CredentialCache::CredentialCache(std::string machine, bool per_caller, UserIds ids)
    : ids_(std::move(ids)), machine_(std::move(machine)), per_caller_(per_caller) {
  std::vector<uint32_t> groups = own_groups();
  ids_.make_outer(groups);
  own_ = std::make_shared<const rpc::Credential>(machine_, ids_.outer_user(::getuid()),
                                                 ids_.outer_group(::getgid()), std::move(groups));
}

rpc::CredentialPtr CredentialCache::get(const Caller& caller) {
  if (!per_caller_) return own_;
  const TimePoint now = Clock::now();
  {
    MutexLock lock(mutex_);
    const auto it = callers_.find(caller);
    if (it != callers_.end() && now < it->second.expires) return it->second.credential;
  }
  auto known = read_caller_groups(caller.tid);
  std::vector<uint32_t> groups = known ? std::move(known->groups) : std::vector<uint32_t>{};
  ids_.make_outer(groups);
  if (groups.size() > rpc::Credential::kMaxGroups) groups.resize(rpc::Credential::kMaxGroups);

  MutexLock lock(mutex_);
  rpc::CredentialPtr credential =
      shared(ids_.outer_user(caller.uid), ids_.outer_group(caller.gid), std::move(groups));
  if (known && !known->may_set_groups) {
    // Threads come and go. Clearing the whole table now and then costs each live thread one read of /proc.
    if (callers_.size() >= kMaxCallers) callers_.clear();
    callers_.insert_or_assign(caller, Known{credential, now + kLifetime});
  }
  return credential;
}

rpc::CredentialPtr CredentialCache::shared(uint32_t uid, uint32_t gid, std::vector<uint32_t> groups) {
  Identity identity(uid, gid, std::move(groups));
  const auto it = identities_.find(identity);
  if (it != identities_.end()) return it->second;
  if (identities_.size() >= kMaxIdentities) identities_.clear();
  auto credential = std::make_shared<const rpc::Credential>(machine_, uid, gid, std::get<2>(identity));
  identities_.emplace(std::move(identity), credential);
  return credential;
}

}  // namespace nfsrdma::fuse
