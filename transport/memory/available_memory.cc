// SPDX-License-Identifier: Apache-2.0
#include "transport/memory/available_memory.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "transport/runtime/proc.h"

namespace nfsrdma {
namespace {

// The number at the beginning of the text, after spaces.
std::optional<uint64_t> number_at(std::string_view text) {
  text.remove_prefix(std::min(text.size(), text.find_first_not_of(' ')));
  uint64_t n = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc()) return std::nullopt;
  return n;
}

// The number behind `label`, in the first line that begins with it.
std::optional<uint64_t> number_behind(std::string_view text, std::string_view label) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.starts_with(label)) return number_at(line.substr(label.size()));
  }
  return std::nullopt;
}

// Converts the kernel's KiB to bytes.
std::optional<uint64_t> kib_behind(std::string_view text, std::string_view label) {
  const auto kib = number_behind(text, label);
  if (!kib || *kib > UINT64_MAX / 1024) return std::nullopt;
  return *kib * 1024;
}

// The first 4096 bytes of a file: what we need is at the beginning.
std::string beginning_of(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  std::array<char, 4096> text{};
  const ssize_t n = ::read(fd, text.data(), text.size());
  ::close(fd);
  return {text.data(), n > 0 ? static_cast<size_t>(n) : 0};
}

// The names of a control group's files, and of fields in memory.stat.
struct Names {
  std::array<const char*, 2> limits;  // the second one is optional: above it the kernel slows the group down
                                      // and refuses nothing
  const char* used;
  std::string_view inactive_file, active_file, slab;  // fields of memory.stat; they include the groups inside
                                                      // this one
};
constexpr Names kVersion1{
    {"/memory.limit_in_bytes"}, "/memory.usage_in_bytes", "total_inactive_file ", "total_active_file ", {}};
constexpr Names kVersion2{{"/memory.max", "/memory.high"},
                          "/memory.current",
                          "inactive_file ",
                          "active_file ",
                          "slab_reclaimable "};

// The lowest limit of the group, if it has one. Version 2 writes "max" for no limit.
std::optional<uint64_t> limit_of(const std::string& directory, const Names& names) {
  std::optional<uint64_t> least;
  for (const char* name : names.limits) {
    const auto limit = name == nullptr ? std::nullopt : number_at(beginning_of(directory + name));
    if (limit) least = std::min(*limit, least.value_or(*limit));
  }
  return least;
}

// The part of a group's memory that Linux reclaims before it refuses an allocation, calculated as for
// MemAvailable (si_mem_available() in mm/page_alloc.c). It consists of both lists of file pages, and of
// reclaimable slabs. The kernel subtracts the machine's low watermark from each of the two values, but never
// more than half of the value. A group has no watermark: a 128th of its limit, which is about the watermark
// of a small machine, takes its place.
uint64_t reclaimable(const Names& names, const std::string& stat, uint64_t limit) {
  const auto without_watermark = [limit](uint64_t bytes) { return bytes - std::min(bytes / 2, limit / 128); };
  const auto bytes_of = [&stat](std::string_view label) {
    return label.empty() ? 0 : number_behind(stat, label).value_or(0);
  };
  return without_watermark(bytes_of(names.inactive_file) + bytes_of(names.active_file)) +
         without_watermark(bytes_of(names.slab));
}

// Applies the limits of the group and of its ancestors.
Memory within(Memory machine, const Names& names, const std::string& root, std::string group) {
  for (;; group.resize(group.rfind('/'))) {
    if (group == "/") group.clear();
    const std::string directory = root + group;
    if (const auto most = limit_of(directory, names)) {
      const uint64_t used = number_at(beginning_of(directory + names.used)).value_or(0);
      const uint64_t idle = reclaimable(names, beginning_of(directory + "/memory.stat"), *most);
      const uint64_t busy = used - std::min(used, idle);
      machine.total = std::min(machine.total, *most);
      machine.available = std::min(machine.available, *most - std::min(*most, busy));
    }
    if (group.empty()) return machine;
  }
}

}  // namespace

std::optional<Memory> parse_meminfo(std::string_view text) {
  const auto total = kib_behind(text, "MemTotal:"), available = kib_behind(text, "MemAvailable:");
  if (!total || !available) return std::nullopt;
  return Memory{*total, *available};
}

// A line is "hierarchy:controllers:path"; version 2 has "0::path" (cgroups(7)).
std::optional<std::string> parse_membership(std::string_view text, bool unified) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const size_t controllers = line.find(':'), path = line.find(":/");
    if (controllers == std::string_view::npos || path == std::string_view::npos) continue;
    const std::string named = "," + std::string(line.substr(controllers + 1, path - controllers - 1)) + ",";
    const bool wanted = unified ? line.starts_with("0::") : named.find(",memory,") != std::string::npos;
    if (!wanted) continue;
    std::string group(line.substr(path + 1));
    // In a container the path may lie outside the visible hierarchy: "/../..".
    if (group.find("/..") != std::string::npos) return std::nullopt;
    return group;
  }
  return std::nullopt;
}

ProcessPages parse_statm(std::string_view text) {
  std::array<uint64_t, 6> fields{};
  for (uint64_t& field : fields) {
    field = number_at(text).value_or(0);
    text.remove_prefix(std::min(text.size(), text.find(' ')));
    text.remove_prefix(std::min(text.size(), text.find_first_not_of(' ')));
  }
  return {fields[0], fields[5]};
}

Memory within_control_group(Memory machine, std::string_view membership, const std::string& root) {
  if (auto group = parse_membership(membership, true))
    machine = within(machine, kVersion2, root, *std::move(group));
  if (auto group = parse_membership(membership, false))
    machine = within(machine, kVersion1, root + "/memory", *std::move(group));
  return machine;
}

namespace {

// setrlimit(2): RLIMIT_AS limits the whole address space, RLIMIT_DATA private writable memory.
Memory within_process_limits(Memory memory, const ProcessPages& size) {
  const auto bound = [&memory](auto resource, uint64_t pages) {
    const uint64_t used = pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    rlimit limit{};
    if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
    memory.total = std::min<uint64_t>(memory.total, limit.rlim_cur);
    memory.available =
        std::min<uint64_t>(memory.available, limit.rlim_cur - std::min<uint64_t>(limit.rlim_cur, used));
  };
  bound(RLIMIT_AS, size.all);
  bound(RLIMIT_DATA, size.data);
  return memory;
}

}  // namespace

Memory memory_for_us() {
  const Proc& proc = Proc::ours();
  auto machine = parse_meminfo(proc.read("meminfo"));
  if (!machine) {
    const long pages = ::sysconf(_SC_PHYS_PAGES), bytes = ::sysconf(_SC_PAGESIZE);
    const uint64_t total =
        pages > 0 && bytes > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(bytes) : 0;
    machine = Memory{total, total / 2};
  }
  const Memory ours = within_control_group(*machine, proc.read("self/cgroup"), "/sys/fs/cgroup");
  return within_process_limits(ours, parse_statm(proc.read("self/statm")));
}

ResidentMemory parse_rollup(std::string_view text) {
  return {kib_behind(text, "Rss:").value_or(0), kib_behind(text, "AnonHugePages:").value_or(0)};
}

ResidentMemory resident_memory() {
  return parse_rollup(Proc::ours().read("self/smaps_rollup"));
}

}  // namespace nfsrdma
