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

// The rest of the line after "\nKEY:\t", or empty.
std::string_view field(std::string_view text, std::string_view key) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == ':') {
      return line.substr(key.size() + 1);
    }
    at = end + 1;
  }
  return {};
}

std::string_view trim(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  return s;
}

std::optional<uint64_t> hex_field(std::string_view text, std::string_view key) {
  const std::string_view s = trim(field(text, key));
  uint64_t v = 0;
  const auto r = std::from_chars(s.data(), s.data() + s.size(), v, 16);
  if (r.ec != std::errc{}) return std::nullopt;
  return v;
}

uint32_t number_field(std::string_view text, std::string_view key) {
  const std::string_view s = trim(field(text, key));
  uint32_t v = 0;
  return std::from_chars(s.data(), s.data() + s.size(), v).ec == std::errc{} ? v : 0;
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

std::optional<ThreadStatus> parse_thread_status(std::string_view text) {
  const auto own = hex_field(text, "SigPnd");
  const auto shared = hex_field(text, "ShdPnd");
  const auto blocked = hex_field(text, "SigBlk");
  const auto permitted = hex_field(text, "CapPrm");
  if (!own || !shared || !blocked || !permitted) return std::nullopt;
  ThreadStatus status;
  status.process = number_field(text, "Tgid");
  status.name = trim(field(text, "Name"));
  status.groups = parse_groups(field(text, "Groups"));
  status.may_set_groups = (*permitted >> CAP_SETGID & 1) != 0;
  status.pending_signals = (*own | *shared) & ~*blocked;
  return status;
}

std::optional<ThreadStatus> read_thread_status(pid_t tid) {
  return parse_thread_status(read_file(tid, "status"));
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
