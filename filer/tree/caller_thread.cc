// SPDX-License-Identifier: Apache-2.0
#include "filer/tree/caller_thread.h"

#include <linux/capability.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <vector>

#include "transport/runtime/log.h"

namespace nfsrdma::filer::tree {

namespace {

// glibc's setgroups() would change every thread of the process.
bool set_groups_of_thread(const gid_t* groups, size_t count) {
  return syscall(SYS_setgroups, count, groups) == 0;
}

// setfsuid() and setfsgid() return the previous ID, not success. A second call that changes nothing returns
// the present one.
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

// The calling thread's capabilities.
struct Capabilities {
  mutable __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> data{};

  bool get() { return syscall(SYS_capget, &header, data.data()) == 0; }
  bool set() const { return syscall(SYS_capset, &header, data.data()) == 0; }
};

// The thread's own identity, to return to.
class Own {
 public:
  Own() : groups_(groups_of_thread()) { known_ = capabilities_.get(); }

  bool become(const Principal& who) const {
    const std::vector<gid_t> theirs(who.groups.begin(), who.groups.end());
    return set_groups_of_thread(theirs.data(), theirs.size()) && set_fsgid(who.gid) && set_fsuid(who.uid) &&
           (who.root() || give_up_capabilities());
  }
  void go_back() const {
    if (known_ && capabilities_.set() && set_fsuid(geteuid()) && set_fsgid(getegid()) &&
        set_groups_of_thread(groups_.data(), groups_.size()))
      return;
    log::error("filer: cannot give up a caller's rights");
    std::abort();
  }
  // False in a user namespace that does not map these IDs, or without the capability.
  bool can_become_another() const {
    const bool can = known_ && set_groups_of_thread(groups_.data(), groups_.size()) &&
                     set_fsgid(Principal::kAnonymous) && set_fsuid(Principal::kAnonymous);
    if (!set_fsuid(geteuid()) || !set_fsgid(getegid())) std::abort();
    return can;
  }

 private:
  // setfsuid(2) drops only the capabilities that override permissions. CAP_SYS_RESOURCE, which overrides
  // quotas and the blocks reserved for root, and CAP_SYS_PTRACE, which /proc checks, must be dropped too.
  bool give_up_capabilities() const {
    if (!known_) return false;
    Capabilities none = capabilities_;
    for (__user_cap_data_struct& word : none.data) word.effective = 0;
    return none.set();
  }

  const std::vector<gid_t> groups_;
  Capabilities capabilities_;
  bool known_ = false;
};

}  // namespace

bool CallerThread::can_impersonate() {
  if (geteuid() != 0) return false;
  if (!thread_.joinable()) {
    thread_ = std::thread([this] { serve(); });
    answered_.acquire();
  }
  return can_;
}

bool CallerThread::act_as(const Principal& who, const std::function<void()>& act) {
  // The process is already root in its own group.
  if ((who.root() && who.gid == getegid()) || !can_impersonate()) {
    act();
    return true;
  }
  who_ = &who;
  act_ = &act;
  asked_.release();
  answered_.acquire();
  return ok_;
}

CallerThread::~CallerThread() {
  if (!thread_.joinable()) return;
  act_ = nullptr;
  asked_.release();
  thread_.join();
}

void CallerThread::serve() {
  const Own own;
  can_ = own.can_become_another();
  answered_.release();
  while (true) {
    asked_.acquire();
    if (act_ == nullptr) return;
    ok_ = own.become(*who_);
    if (ok_) {
      (*act_)();
    } else {
      log::error("filer: cannot act as user {}, group {}", who_->uid, who_->gid);
    }
    own.go_back();
    answered_.release();
  }
}

}  // namespace nfsrdma::filer::tree
