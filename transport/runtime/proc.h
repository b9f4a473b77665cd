// SPDX-License-Identifier: Apache-2.0
// Proc: /proc as it is when this object is made, held by a descriptor. Paths are relative to it:
// "self/status", "1234/task". What is mounted on /proc later, or what a thread finds there that has entered
// another mount namespace, is never read. Without a mounted procfs every file is absent. Any thread.
#pragma once

#include <fcntl.h>

#include <string>

#include "transport/runtime/fd.h"

namespace nfsrdma {

class Proc {
 public:
  // Opened with the first call, which main makes before anything else; lasts as long as the process.
  static const Proc& ours();
  // A directory that is not procfs is not believed.
  explicit Proc(const char* directory = "/proc");

  Fd open(const std::string& path, int flags = O_RDONLY) const;
  bool has(const std::string& path) const;
  // Whole files and links; empty when there is nothing to read.
  std::string read(const std::string& path) const;
  std::string link(const std::string& path) const;
  int descriptor() const { return directory_.get(); }

 private:
  Fd directory_;
};

}  // namespace nfsrdma
