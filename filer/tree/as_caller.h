// AsCaller: this thread's file system identity is the caller's for as long as the object lives.
//
// Only this thread's (setfsuid(2), setfsgid(2), the raw setgroups system call); with it go the capabilities
// that override permissions. Where the way back fails the process ends: no thread goes on with somebody
// else's rights. Nothing happens when the process may not do it (can_impersonate() is false) or the caller is
// root: then the process acts as who it is. Not to be kept across anything that may leave the thread.
#pragma once

#include <sys/types.h>

#include <vector>

#include "filer/tree/principal.h"

namespace nfsrdma::filer {

// Whether the process may take on other identities: tried once, on the thread that asks.
bool can_impersonate();

class AsCaller {
 public:
  explicit AsCaller(const Principal& who);
  ~AsCaller();
  AsCaller(const AsCaller&) = delete;
  AsCaller& operator=(const AsCaller&) = delete;

  // False: the identity could not be taken; nothing may be done for this caller.
  bool ok() const { return ok_; }

 private:
  void go_back();

  bool active_ = false;
  bool ok_ = true;
  std::vector<gid_t> groups_;  // what to go back to
};

}  // namespace nfsrdma::filer
