// SPDX-License-Identifier: Apache-2.0
// ThreadStatus: what /proc/<tid>/status tells about the thread that made a request: its process and name, its
// supplementary groups, whether it could change them, and which signals wait for it.
//
// FUSE gives the thread ID; /proc/<tid> exists for every thread, listed or not. Reading it costs 10-20 us, so
// callers cache (credentials) or ask rarely (interrupts). Absent when the thread is gone, lives in another
// PID namespace (the kernel then reports 0) or /proc hides it. Any thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nfsrdma::fuse {

struct ThreadStatus {
  uint32_t process = 0;  // thread group; 0: not told
  std::string name;      // of the thread: at most 15 bytes, with the escapes of proc(5)
  std::vector<uint32_t> groups;
  bool may_set_groups = false;   // CAP_SETGID is permitted
  uint64_t pending_signals = 0;  // of the thread or its process, not blocked; bit n-1 is signal n
};

std::optional<ThreadStatus> read_thread_status(pid_t tid);
std::optional<ThreadStatus> parse_thread_status(std::string_view text);

// What a waiting thread's pending signals ask of its request.
enum class SignalIntent : uint8_t {
  kNone,   // timers, children, job control...: programs do not expect EINTR from a regular file because of
           // these
  kStop,   // somebody wants the program to stop: HUP, INT, QUIT, ABRT, TERM
  kFatal,  // SIGKILL. The kernel marks every thread of a dying process with it, whatever signal was sent
};
SignalIntent signal_intent(const ThreadStatus& status);

// Whether the thread is on its way out (PF_EXITING): its signals are taken, but it still waits for its files.
bool is_exiting(pid_t tid);
bool parse_exiting(std::string_view stat);  // of the text of /proc/<tid>/stat

}  // namespace nfsrdma::fuse
