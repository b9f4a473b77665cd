// SPDX-License-Identifier: Apache-2.0
// The tools' end of the control protocol: one request, one answer, of bounded size.
//
// Blocking, for command-line programs. The client also checks the peer (SO_PEERCRED): the peer must be root
// or the owner of the mount, so that a socket planted by another user is not trusted.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>

#include "cli/control/control_protocol.h"
#include "cli/support/outcome.h"
#include "transport/runtime/fd.h"

namespace nfsrdma::cli {

using Deadline = std::optional<std::chrono::steady_clock::time_point>;  // none: wait forever

inline Deadline deadline_in(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

class ControlClient {
 public:
  // Connects. The daemon must run as `owner` or as root.
  static Outcome<ControlClient> connect(const std::string& path, uid_t owner, Deadline deadline);

  // Sends the request without waiting for the answer.
  Outcome<> send(const Json& request, Deadline deadline);
  // Waits until the daemon has started to handle the request: until it sends the "later" notice or the
  // answer.
  Outcome<> wait_until_heard(Deadline deadline);
  // Waits for the answer to the request that was sent.
  Outcome<Json> receive(Deadline deadline);
  Outcome<Json> ask(const Json& request, Deadline deadline);

  pid_t peer() const { return peer_; }

 private:
  ControlClient(Fd fd, pid_t peer) : fd_(std::move(fd)), peer_(peer) {}
  // Waits until `in_` begins with a complete line; returns its size in bytes, without the newline.
  Outcome<size_t> next_line(Deadline deadline);

  Fd fd_;
  pid_t peer_ = 0;
  std::string in_;
};

// True if the socket file exists but no process listens on it, because its daemon was killed. (A daemon that
// ends normally removes the file.)
bool is_abandoned(const std::string& path);

// Waits until process `pid` has ended. Returns false if it still runs at the deadline. A process that cannot
// be watched (it is in another PID namespace, or the kernel is too old) counts as ended.
bool wait_for_exit(pid_t pid, Deadline deadline);

}  // namespace nfsrdma::cli
