#include "cli/outcome.h"

#include <fmt/core.h>

#include <cstdio>

namespace nfsrdma::cli {

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out;
}

int report(std::string_view program, const Failure& failure) {
  // One write: several daemons starting from fstab share the console.
  const std::string line = fmt::format("{}: {}\n", program, printable(failure.text));
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
  return failure.exit_code;
}

}  // namespace nfsrdma::cli
