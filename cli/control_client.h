// SPDX-License-Identifier: Apache-2.0
// The tools' end of the control protocol: one request, one answer, never longer than asked.
//
// Blocking, for command-line programs. The peer is checked too (SO_PEERCRED): it must be root or the owner of
// the mount, so that a socket planted by someone else is not believed.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>

#include "cli/control_protocol.h"
#include "cli/outcome.h"
#include "transport/runtime/fd.h"

namespace nfsrdma::cli {

using Deadline = std::optional<std::chrono::steady_clock::time_point>;  // none: wait for ever

inline Deadline deadline_in(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

class ControlClient {
 public:
  // Connects; `owner` is who the daemon must be, besides root.
  static Outcome<ControlClient> connect(const std::string& path, uid_t owner, Deadline deadline);

  // Sends the request without waiting for the answer.
  Outcome<> send(const Json& request, Deadline deadline);
  // Waits until the daemon has begun with what was sent: until it says so, or has answered.
  Outcome<> wait_until_heard(Deadline deadline);
  // Waits for the answer to what was sent.
  Outcome<Json> receive(Deadline deadline);
  Outcome<Json> ask(const Json& request, Deadline deadline);

  pid_t peer() const { return peer_; }

 private:
  ControlClient(Fd fd, pid_t peer) : fd_(std::move(fd)), peer_(peer) {}
  // `in_` begins with a line of this many bytes, without its newline.
  Outcome<size_t> next_line(Deadline deadline);

  Fd fd_;
  pid_t peer_ = 0;
  std::string in_;
};

// A socket whose daemon died: it is there, and nobody listens. (One that ends by itself removes it.)
bool is_abandoned(const std::string& path);

// Waits until process `pid` has gone. False when it has not by the deadline. A pid that cannot be watched
// (another PID namespace, an old kernel) counts as gone.
bool wait_for_exit(pid_t pid, Deadline deadline);

}  // namespace nfsrdma::cli
