#include "transport/memory/available_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>

namespace nfsrdma {
namespace {

// The number behind "NAME:", in bytes.
std::optional<uint64_t> kib_field(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (!line.starts_with(name) || line.substr(name.size(), 1) != ":") continue;
    line.remove_prefix(name.size() + 1);
    line.remove_prefix(std::min(line.size(), line.find_first_not_of(' ')));
    uint64_t kib = 0;
    const auto [stop, error] = std::from_chars(line.data(), line.data() + line.size(), kib);
    if (error != std::errc() || kib > UINT64_MAX / 1024) return std::nullopt;
    return kib * 1024;
  }
  return std::nullopt;
}

}  // namespace

std::optional<MachineMemory> parse_meminfo(std::string_view text) {
  const auto total = kib_field(text, "MemTotal"), available = kib_field(text, "MemAvailable");
  if (!total || !available) return std::nullopt;
  return MachineMemory{*total, *available};
}

std::optional<MachineMemory> machine_memory() {
  const int fd = ::open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  std::array<char, 4096> text{};
  const ssize_t n = ::read(fd, text.data(), text.size());
  ::close(fd);
  if (n <= 0) return std::nullopt;
  return parse_meminfo({text.data(), static_cast<size_t>(n)});
}

}  // namespace nfsrdma
