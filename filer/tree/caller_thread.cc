#include "filer/tree/caller_thread.h"

#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

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

// What a thread is when it is nobody's.
class Own {
 public:
  Own() : groups_(groups_of_thread()) {}

  bool become(const Principal& who) const {
    const std::vector<gid_t> theirs(who.groups.begin(), who.groups.end());
    return set_groups_of_thread(theirs.data(), theirs.size()) && set_fsgid(who.gid) && set_fsuid(who.uid);
  }
  void go_back() const {
    if (set_fsuid(geteuid()) && set_fsgid(getegid()) && set_groups_of_thread(groups_.data(), groups_.size()))
      return;
    log::error("filer: cannot give up a caller's rights");
    std::abort();
  }
  // In a user namespace without all of these identities, or without the capability, it cannot.
  bool can_become_another() const {
    const bool can = set_groups_of_thread(groups_.data(), groups_.size()) &&
                     set_fsgid(Principal::kAnonymous) && set_fsuid(Principal::kAnonymous);
    if (!set_fsuid(geteuid()) || !set_fsgid(getegid())) std::abort();
    return can;
  }

 private:
  const std::vector<gid_t> groups_;
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
  if (who.root() || !can_impersonate()) {
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

}  // namespace nfsrdma::filer
