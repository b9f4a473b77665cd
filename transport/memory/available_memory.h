// How much memory this machine could still give without swapping, as Linux sees it (proc(5), /proc/meminfo:
// MemTotal, MemAvailable). Any thread; reads a file of the kernel's, some 20 microseconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace nfsrdma {

struct MachineMemory {
  uint64_t total = 0;  // bytes
  uint64_t available = 0;
};

// From the text of /proc/meminfo; nothing if it does not say.
std::optional<MachineMemory> parse_meminfo(std::string_view text);
std::optional<MachineMemory> machine_memory();

}  // namespace nfsrdma
