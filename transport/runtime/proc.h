// SPDX-License-Identifier: Apache-2.0
// Proc: the procfs mounted on /proc when this object was created, held open by a descriptor. Paths are
// relative to it: "self/status", "1234/task". It never reads a file system that is mounted over /proc later,
// or the /proc of another mount namespace that a thread has entered. If no procfs was mounted, every file is
// absent. Any thread.
#pragma once

#include <fcntl.h>

#include <string>

#include "transport/runtime/fd.h"

namespace nfsrdma {

class Proc {
 public:
  // The process-wide object, created by the first call. main makes that call before anything else.
  static const Proc& ours();
  // If `directory` is not procfs, every file is absent.
  explicit Proc(const char* directory = "/proc");

  Fd open(const std::string& path, int flags = O_RDONLY) const;
  bool has(const std::string& path) const;
  // The content of a whole file, and the target of a symbolic link. Empty if it cannot be read.
  std::string read(const std::string& path) const;
  std::string link(const std::string& path) const;
  int descriptor() const { return directory_.get(); }

 private:
  Fd directory_;
};

}  // namespace nfsrdma
