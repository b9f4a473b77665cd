// SPDX-License-Identifier: Apache-2.0
// How much memory this process can still get without swapping. The base is the machine's memory as Linux
// reports it (proc(5), /proc/meminfo: MemTotal, MemAvailable). The limits of the process' control group and
// its ancestors are applied to it (Linux' Documentation/admin-guide/cgroup-v2.rst: memory.max, memory.high,
// memory.current, memory.stat; version 1: cgroup-v1/memory.rst: memory.limit_in_bytes,
// memory.usage_in_bytes), and so are those of setrlimit(2). File pages count as available, as they do in
// MemAvailable. Any thread. Cost: some 20 microseconds to read files of the kernel, and as much for each
// control group with a limit.
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

// Parses the text of /proc/meminfo; nothing if a value is missing.
std::optional<Memory> parse_meminfo(std::string_view text);
// The path, beginning with '/', of the control group that limits memory in the hierarchy of version 2
// (`unified`) or 1, from the text of /proc/self/cgroup. Nothing if there is none, or if it lies outside the
// part of the hierarchy that is visible here.
std::optional<std::string> parse_membership(std::string_view text, bool unified);
// The size of this process in pages, from the text of /proc/self/statm; a missing field is 0.
struct ProcessPages {
  uint64_t all = 0;   // the whole address space
  uint64_t data = 0;  // private writable memory, and stacks
  bool operator==(const ProcessPages&) const = default;
};
ProcessPages parse_statm(std::string_view text);
// Applies the limits of control groups to `machine`. `membership` is the text of /proc/self/cgroup. `root` is
// the mount point of the version 2 hierarchy; version 1 has its memory hierarchy at `root`/memory. A group
// changes nothing if it has no limit or cannot be read.
Memory within_control_group(Memory machine, std::string_view membership, const std::string& root);
// This process' memory with all limits applied. If /proc/meminfo cannot be used, half of the installed memory
// counts as available.
Memory memory_for_us();

// The resident memory of this process (proc_pid_smaps(5), Rss and AnonHugePages of /proc/self/smaps_rollup).
struct ResidentMemory {
  uint64_t bytes = 0;
  uint64_t huge_bytes = 0;  // of these, in huge pages; buffers ask for them
  bool operator==(const ResidentMemory&) const = default;
};
// Parses the text of that file; a missing value is 0.
ResidentMemory parse_rollup(std::string_view text);
// Only for occasional use: the kernel walks the page tables for it.
ResidentMemory resident_memory();

}  // namespace nfsrdma
