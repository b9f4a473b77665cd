#include "transport/memory/available_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace nfsrdma {
namespace {

// The number that begins a text, behind spaces.
std::optional<uint64_t> number_at(std::string_view text) {
  text.remove_prefix(std::min(text.size(), text.find_first_not_of(' ')));
  uint64_t n = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc()) return std::nullopt;
  return n;
}

// That of the first line which begins with `label`.
std::optional<uint64_t> number_behind(std::string_view text, std::string_view label) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.starts_with(label)) return number_at(line.substr(label.size()));
  }
  return std::nullopt;
}

// In bytes.
std::optional<uint64_t> kib_behind(std::string_view text, std::string_view label) {
  const auto kib = number_behind(text, label);
  if (!kib || *kib > UINT64_MAX / 1024) return std::nullopt;
  return *kib * 1024;
}

// As much of the file as fits; what these files say first is what is wanted.
std::string beginning_of(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  std::array<char, 4096> text{};
  const ssize_t n = ::read(fd, text.data(), text.size());
  ::close(fd);
  return {text.data(), n > 0 ? static_cast<size_t>(n) : 0};
}

}  // namespace

std::optional<Memory> parse_meminfo(std::string_view text) {
  const auto total = kib_behind(text, "MemTotal:"), available = kib_behind(text, "MemAvailable:");
  if (!total || !available) return std::nullopt;
  return Memory{*total, *available};
}

Memory within_control_group(Memory machine, std::string_view membership, const std::string& root) {
  constexpr std::string_view kUnified = "0::/";  // the only hierarchy of version 2
  size_t at = membership.starts_with(kUnified) ? 0 : membership.find("\n0::/");
  if (at == std::string_view::npos) return machine;
  if (at != 0) ++at;
  membership.remove_prefix(at + kUnified.size() - 1);
  std::string group(membership.substr(0, membership.find('\n')));
  // In a container it may be outside of what is seen here: "/../..".
  if (group.find("/..") != std::string::npos) return machine;
  for (;; group.resize(group.rfind('/'))) {
    if (group == "/") group.clear();
    const std::string directory = root + group;
    if (const auto most = number_at(beginning_of(directory + "/memory.max"))) {  // none: "max"
      const uint64_t used = number_at(beginning_of(directory + "/memory.current")).value_or(0);
      // Pages of files that nobody has touched for a while go first.
      const uint64_t idle =
          number_behind(beginning_of(directory + "/memory.stat"), "inactive_file ").value_or(0);
      const uint64_t busy = used - std::min(used, idle);
      machine.total = std::min(machine.total, *most);
      machine.available = std::min(machine.available, *most - std::min(*most, busy));
    }
    if (group.empty()) return machine;
  }
}

Memory memory_for_us() {
  auto machine = parse_meminfo(beginning_of("/proc/meminfo"));
  if (!machine) {
    const long pages = ::sysconf(_SC_PHYS_PAGES), bytes = ::sysconf(_SC_PAGESIZE);
    const uint64_t total =
        pages > 0 && bytes > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(bytes) : 0;
    machine = Memory{total, total / 2};
  }
  return within_control_group(*machine, beginning_of("/proc/self/cgroup"), "/sys/fs/cgroup");
}

}  // namespace nfsrdma
