#include "filer/tree/as_caller.h"

#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>

#include "transport/runtime/log.h"

namespace nfsrdma::filer {

namespace {

// glibc's setgroups() would change every thread of the process.
bool set_groups_of_thread(const gid_t* groups, size_t count) {
  return syscall(SYS_setgroups, count, groups) == 0;
}

// These two tell what was before, never whether it worked: a second call that changes nothing does.
bool set_fsuid(uid_t uid) {
  setfsuid(uid);
  return static_cast<uid_t>(setfsuid(static_cast<uid_t>(-1))) == uid;
}
bool set_fsgid(gid_t gid) {
  setfsgid(gid);
  return static_cast<gid_t>(setfsgid(static_cast<gid_t>(-1))) == gid;
}

std::vector<gid_t> groups_of_thread() {
  const int count = getgroups(0, nullptr);
  std::vector<gid_t> groups(count > 0 ? static_cast<size_t>(count) : 0);
  if (!groups.empty()) groups.resize(static_cast<size_t>(std::max(0, getgroups(count, groups.data()))));
  return groups;
}

bool try_to_impersonate() {
  if (geteuid() != 0) return false;
  const std::vector<gid_t> groups = groups_of_thread();
  const bool can = set_groups_of_thread(groups.data(), groups.size()) && set_fsgid(Principal::kAnonymous) &&
                   set_fsuid(Principal::kAnonymous);
  if (!set_fsuid(geteuid()) || !set_fsgid(getegid())) std::abort();
  return can;
}

}  // namespace

bool can_impersonate() {
  static const bool can = try_to_impersonate();
  return can;
}

AsCaller::AsCaller(const Principal& who) {
  if (!can_impersonate() || who.root()) return;
  groups_ = groups_of_thread();
  active_ = true;
  const std::vector<gid_t> theirs(who.groups.begin(), who.groups.end());
  ok_ = set_groups_of_thread(theirs.data(), theirs.size()) && set_fsgid(who.gid) && set_fsuid(who.uid);
  if (!ok_) log::error("filer: cannot act as user {}, group {}", who.uid, who.gid);
}

AsCaller::~AsCaller() {
  if (active_) go_back();
}

void AsCaller::go_back() {
  if (set_fsuid(geteuid()) && set_fsgid(getegid()) && set_groups_of_thread(groups_.data(), groups_.size()))
    return;
  log::error("filer: cannot give up a caller's rights");
  std::abort();
}

}  // namespace nfsrdma::filer
