// SPDX-License-Identifier: Apache-2.0
#include "cli/bench/quantity.h"

#include <fmt/core.h>

#include <cmath>

namespace nfsrdma::cli::bench {
namespace {

constexpr Quantity kQuantities[] = {
    // measured
    {"mib_per_s", "Throughput", "MiB/s", Better::kHigher, false},
    {"ops_per_s", "Operations per second", "/s", Better::kHigher, false},
    {"cpu_per_gib", "CPU of the client per GiB", "s/GiB", Better::kLower, false},
    {"cpu_us_per_op", "CPU of the client per operation", "µs", Better::kLower, false},
    {"application_cpu_per_gib", "CPU of the application per GiB", "s/GiB", Better::kLower, false},
    {"application_cpu_us_per_op", "CPU of the application per operation", "µs", Better::kLower, false},
    {"server_cpu_per_gib", "CPU of the server per GiB", "s/GiB", Better::kLower, false},
    {"server_cpu_us_per_op", "CPU of the server per operation", "µs", Better::kLower, false},
    {"cpu_percent", "CPU of client and application", "% of a processor", Better::kLower, false},
    {"rpcs", "Calls to the server", "RPCs", Better::kLower, false},
    {"rpcs_per_op", "Calls to the server per operation", "RPCs", Better::kLower, false},
    {"p50_us", "Median latency", "µs", Better::kLower, false},
    {"p99_us", "Latency of the slowest 1 %", "µs", Better::kLower, false},
    {"p999_us", "Latency of the slowest 0.1 %", "µs", Better::kLower, false},
    {"instructions_per_gib", "Instructions of the client per GiB", "million/GiB", Better::kLower, false},
    {"syscalls_per_gib", "System calls of the client per GiB", "/GiB", Better::kLower, false},
    {"payload_calls_per_gib", "System calls of the client that move data per GiB", "/GiB", Better::kLower,
     false},
    {"resident_mib", "Memory of the daemon", "MiB", Better::kLower, false},
    {"bytes_per_inode", "Memory of the daemon per inode", "bytes", Better::kLower, false},
    // quantities of the axes
    {"block", "Read size", "bytes", Better::kNeither, true},
    {"ahead", "Read-ahead", "", Better::kNeither, true},
    {"depth", "Operations under way at once", "", Better::kNeither, true},
    {"inodes", "Cached inodes", "inodes", Better::kNeither, true},
    {"file_gib", "Size of the file", "GiB", Better::kNeither, true},
    {"delay_ms", "Delay of each answer", "ms", Better::kNeither, true},
    {"held", "Held at once", "", Better::kNeither, true},
};

std::string with_commas(double value) {
  std::string digits = fmt::format("{:.0f}", value);
  const size_t first = digits.starts_with('-') ? 1 : 0;
  for (size_t at = digits.size(); at > first + 3;) digits.insert(at -= 3, 1, ',');
  return digits;
}

std::string binary_size(double bytes) {
  for (const auto& [scale, unit] : {std::pair{1073741824.0, "GiB"}, {1048576.0, "MiB"}, {1024.0, "KiB"}}) {
    if (bytes >= scale) return fmt::format("{:g} {}", std::round(bytes / scale * 100) / 100, unit);
  }
  return fmt::format("{:g} B", bytes);
}

}  // namespace

const Quantity* find_quantity(std::string_view key) {
  for (const Quantity& quantity : kQuantities) {
    if (quantity.key == key) return &quantity;
  }
  return nullptr;
}

std::string show_value(const Quantity& quantity, double value, bool unit) {
  if (quantity.key == "block") return binary_size(value);
  const double size = std::abs(value);
  std::string text = size >= 10000                               ? with_commas(value)
                     : size >= 100 || value == std::round(value) ? fmt::format("{:.0f}", value)
                     : size >= 10                                ? fmt::format("{:.1f}", value)
                     : size >= 1                                 ? fmt::format("{:.2f}", value)
                                                                 : fmt::format("{:.3f}", value);
  if (unit && !quantity.unit.empty())
    text += fmt::format("{}{}", quantity.unit.starts_with('/') ? "" : " ", quantity.unit);
  return text;
}

std::string show_point(const Quantity& quantity, double value) {
  if (quantity.key == "block") return binary_size(value);
  if (quantity.key == "ahead") return fmt::format("read-ahead {:g}", value);
  if (quantity.key == "depth") return value == 1 ? "one at a time" : fmt::format("{:g} at once", value);
  if (quantity.key == "held") return show_value(quantity, value, false) + " held";
  return show_value(quantity, value, true);
}

}  // namespace nfsrdma::cli::bench
