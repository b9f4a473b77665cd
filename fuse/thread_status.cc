// SPDX-License-Identifier: Apache-2.0
#include "fuse/thread_status.h"

#include <linux/capability.h>

#include <charconv>
#include <csignal>
#include <string>

#include "transport/runtime/proc.h"

namespace nfsrdma::fuse {

namespace {

constexpr uint64_t bit(int signal) {
  return uint64_t{1} << (signal - 1);
}

std::string_view trim(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  return s;
}

// The value of the first line "KEY:\tVALUE", or empty. `key` includes the colon. The text has sixty lines,
// and on a mount for several users it is read for every request of root: the search for the key's first
// letter passes over most of them.
std::string_view value_of(std::string_view text, std::string_view key) {
  for (size_t at = text.find(key); at != text.npos; at = text.find(key, at + 1)) {
    if (at != 0 && text[at - 1] != '\n') continue;
    text.remove_prefix(at + key.size());
    return trim(text.substr(0, text.find('\n')));
  }
  return {};
}

template <class Number>
std::optional<Number> number(std::string_view digits, int base) {
  Number v = 0;
  const auto r = std::from_chars(digits.data(), digits.data() + digits.size(), v, base);
  if (r.ec != std::errc{}) return std::nullopt;
  return v;
}

std::vector<uint32_t> parse_groups(std::string_view s) {
  std::vector<uint32_t> groups;
  for (s = trim(s); !s.empty(); s = trim(s)) {
    uint32_t v = 0;
    const auto r = std::from_chars(s.data(), s.data() + s.size(), v);
    if (r.ec != std::errc{}) break;
    groups.push_back(v);
    s.remove_prefix(static_cast<size_t>(r.ptr - s.data()));
  }
  return groups;
}

// Empty when the file cannot be read.
std::string read_file(pid_t tid, const char* file) {
  return tid > 0 ? Proc::ours().read(std::to_string(tid) + '/' + file) : std::string();
}

}  // namespace

// The kernel writes CapPrm last of what is read here: a text that has it was not cut before it.
std::optional<ThreadStatus> parse_thread_status(std::string_view text) {
  const auto own = number<uint64_t>(value_of(text, "SigPnd:"), 16);
  const auto shared = number<uint64_t>(value_of(text, "ShdPnd:"), 16);
  const auto blocked = number<uint64_t>(value_of(text, "SigBlk:"), 16);
  const auto permitted = number<uint64_t>(value_of(text, "CapPrm:"), 16);
  if (!own || !shared || !blocked || !permitted) return std::nullopt;
  ThreadStatus status;
  status.process = number<uint32_t>(value_of(text, "Tgid:"), 10).value_or(0);
  status.name = value_of(text, "Name:");
  status.pending_signals = (*own | *shared) & ~*blocked;
  return status;
}

std::optional<CallerGroups> parse_caller_groups(std::string_view text) {
  const auto permitted = number<uint64_t>(value_of(text, "CapPrm:"), 16);
  if (!permitted) return std::nullopt;
  return CallerGroups{parse_groups(value_of(text, "Groups:")), (*permitted >> CAP_SETGID & 1) != 0};
}

std::optional<ThreadStatus> read_thread_status(pid_t tid) {
  return parse_thread_status(read_file(tid, "status"));
}

std::optional<CallerGroups> read_caller_groups(pid_t tid) {
  return parse_caller_groups(read_file(tid, "status"));
}

bool parse_exiting(std::string_view stat) {
  constexpr uint64_t kPfExiting = 0x4;
  // proc(5): pid (comm) state ppid pgrp session tty_nr tpgid flags. comm may contain anything, even brackets.
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos) return false;
  stat.remove_prefix(name_end + 1);
  for (int skipped = 0; skipped < 6; ++skipped) {
    stat = trim(stat);
    const size_t space = stat.find(' ');
    if (space == std::string_view::npos) return false;
    stat.remove_prefix(space);
  }
  stat = trim(stat);
  uint64_t flags = 0;
  if (std::from_chars(stat.data(), stat.data() + stat.size(), flags).ec != std::errc{}) return false;
  return (flags & kPfExiting) != 0;
}

bool is_exiting(pid_t tid) {
  return parse_exiting(read_file(tid, "stat"));
}

SignalIntent signal_intent(const ThreadStatus& status) {
  if ((status.pending_signals & bit(SIGKILL)) != 0) return SignalIntent::kFatal;
  constexpr uint64_t kStopping = bit(SIGHUP) | bit(SIGINT) | bit(SIGQUIT) | bit(SIGABRT) | bit(SIGTERM);
  return (status.pending_signals & kStopping) != 0 ? SignalIntent::kStop : SignalIntent::kNone;
}

}  // namespace nfsrdma::fuse
