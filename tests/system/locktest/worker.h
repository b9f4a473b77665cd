// SPDX-License-Identifier: Apache-2.0
// A process that takes locks on command. The coordinator forks one per owner, because POSIX locks belong to
// processes.
//
// Commands and answers are fixed structs over a socket pair. A worker does one command at a time. A blocking
// lock keeps it busy until the lock is granted or a SIGUSR1 interrupts it. The coordinator calls all methods.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "lock_model.h"

namespace locktest {

enum class What : int { Set, SetWait, Get, Flock, FlockWait, ReopenAndClose, Increment };

struct Command {
  What what = What::Set;
  short type = F_UNLCK;  // for flock: F_RDLCK shared, F_WRLCK exclusive, F_UNLCK unlock
  Range range;
  unsigned count = 0;  // Increment: number of times
};

struct Answer {
  int error = 0;
  short type = F_UNLCK;  // Get: type of the conflicting lock
  Range range;
};

class Worker {
 public:
  // `path`: the file that it opens, and keeps open, for all commands.
  explicit Worker(std::string path) : path_(std::move(path)) { start(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() { kill_now(); }

  Answer ask(const Command& command);
  void begin(const Command& command);
  // The answer to `begin`, if it arrives within this time.
  std::optional<Answer> finish(int timeout_ms);
  void interrupt();
  void kill_now();
  void start();
  const std::string& path() const { return path_; }

 private:
  [[noreturn]] void serve(int fd);

  std::string path_;
  pid_t pid_ = -1;
  int fd_ = -1;
};

}  // namespace locktest
