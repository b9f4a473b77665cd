// SPDX-License-Identifier: Apache-2.0
// The content of /proc/<tid>/status of a thread that made a request. ThreadStatus: its process and name, and
// its pending signals. CallerGroups: its supplementary groups, and whether it could change them.
//
// FUSE gives the thread ID; /proc/<tid> exists for every thread, listed or not. Reading it costs 10-20 us, so
// callers cache it (credentials) or read it rarely (interrupts). Absent when the thread is gone, lives in
// another PID namespace (the kernel then reports 0) or /proc hides it. Any thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nfsrdma::fuse {

struct ThreadStatus {
  uint32_t process = 0;          // thread group; 0: unknown
  std::string name;              // of the thread: at most 15 bytes, with the escapes of proc(5)
  uint64_t pending_signals = 0;  // of the thread or its process, not blocked; bit n-1 is signal n
};

std::optional<ThreadStatus> read_thread_status(pid_t tid);
std::optional<ThreadStatus> parse_thread_status(std::string_view text);

struct CallerGroups {
  std::vector<uint32_t> groups;
  bool may_set_groups = false;  // CAP_SETGID is permitted
};

std::optional<CallerGroups> read_caller_groups(pid_t tid);
std::optional<CallerGroups> parse_caller_groups(std::string_view text);

// What the pending signals of a waiting thread mean for its request.
enum class SignalIntent : uint8_t {
  kNone,   // timers, children, job control...: programs do not expect EINTR from a regular file for these
  kStop,   // a signal that asks the program to stop: HUP, INT, QUIT, ABRT, TERM
  kFatal,  // SIGKILL. The kernel marks every thread of a dying process with it, whatever signal killed it
};
SignalIntent signal_intent(const ThreadStatus& status);

// Whether the thread is exiting (PF_EXITING): its signals are no longer pending, but it still closes its
// files.
bool is_exiting(pid_t tid);
bool parse_exiting(std::string_view stat);  // of the text of /proc/<tid>/stat

}  // namespace nfsrdma::fuse
