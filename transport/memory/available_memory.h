// SPDX-License-Identifier: Apache-2.0
// How much memory this process could still get without swapping: of the machine as Linux sees it (proc(5),
// /proc/meminfo: MemTotal, MemAvailable), within the limits of its control group and of those around it
// (Linux' Documentation/admin-guide/cgroup-v2.rst: memory.max, memory.high, memory.current, memory.stat;
// version 1: cgroup-v1/memory.rst: memory.limit_in_bytes, memory.usage_in_bytes). Pages of files count as
// available, as they do in MemAvailable. Any thread; reads files of the kernel's, some 20 microseconds, and
// as much for each control group that has a limit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace nfsrdma {

struct Memory {
  uint64_t total = 0;  // bytes
  uint64_t available = 0;
  bool operator==(const Memory&) const = default;
};

// From the text of /proc/meminfo; nothing if it does not say.
std::optional<Memory> parse_meminfo(std::string_view text);
// The group that limits memory in the hierarchy of version 2 (`unified`) or 1, a path that begins with '/',
// from the text of /proc/self/cgroup. Nothing when there is none, or when it lies outside of what is seen
// here.
std::optional<std::string> parse_membership(std::string_view text, bool unified);
// The size of this process, from the text of /proc/self/statm; what it does not say is 0.
struct ProcessPages {
  uint64_t all = 0;   // of its address space
  uint64_t data = 0;  // private and writable, and stacks
  bool operator==(const ProcessPages&) const = default;
};
ProcessPages parse_statm(std::string_view text);
// What `machine` comes to in a control group, of which `membership` is the text of /proc/self/cgroup, with
// the hierarchy mounted on `root`, or that of version 1 which has memory on `root`/memory. Groups without a
// limit, and whatever cannot be read, take nothing away.
Memory within_control_group(Memory machine, std::string_view membership, const std::string& root);
// Where /proc/meminfo is of no use: half of what the machine was made with.
Memory memory_for_us();

// What this process has of memory (proc_pid_smaps(5), Rss and AnonHugePages of /proc/self/smaps_rollup).
struct ResidentMemory {
  uint64_t bytes = 0;
  uint64_t huge_bytes = 0;  // of them: in huge pages, as buffers ask to be
  bool operator==(const ResidentMemory&) const = default;
};
// From that file's text; what it does not say is 0.
ResidentMemory parse_rollup(std::string_view text);
// For who asks once in a while: the kernel walks the page tables for it.
ResidentMemory resident_memory();

}  // namespace nfsrdma
