#include "cli/outcome.h"

#include <fmt/core.h>

#include <cstdio>

namespace nfsrdma::cli {
namespace {

std::string without_controls(std::string_view text, std::string_view but) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 || byte == 0x7f) && but.find(c) == std::string_view::npos) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::string printable(std::string_view text) {
  return without_controls(text, "");
}

std::string printable_text(std::string_view text) {
  return without_controls(text, "\n\t");
}

int report(std::string_view program, const Failure& failure) {
  std::fflush(stdout);  // what was said before comes before, in one file or pipe too
  // One write: several daemons starting from fstab share the console.
  const std::string line = fmt::format("{}: {}\n", program, printable(failure.text));
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
  return failure.exit_code;
}

}  // namespace nfsrdma::cli
