// SPDX-License-Identifier: Apache-2.0
#include "cli/persist/persist.h"

#include <fmt/core.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "cli/persist/fstab.h"
#include "cli/persist/login.h"
#include "cli/persist/sidebar.h"

extern char** environ;

namespace nfsrdma::cli {
namespace {

constexpr const char* kFstab = "/etc/fstab";

std::string fstab() {
  const char* other = std::getenv("LIBMOUNT_FSTAB");
  return other != nullptr && *other != '\0' ? other : kFstab;
}

// Makes systemd generate units from fstab's lines now. If that fails or there is no systemd, the next boot
// reads fstab.
void tell_systemd() {
  if (fstab() != kFstab || access("/run/systemd/system", F_OK) != 0) return;
  const char* argv[] = {"systemctl", "daemon-reload", nullptr};
  pid_t pid = 0;
  if (posix_spawnp(&pid, argv[0], nullptr, nullptr, const_cast<char* const*>(argv), environ) != 0) return;
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace

std::string list_of(const std::vector<RawOption>& options) {
  std::string out;
  for (const RawOption& option : options) {
    if (!out.empty()) out += ',';
    out += escape_option(option.name);
    if (!option.value) continue;
    std::string value;
    for (const char c : *option.value) value += c == '\\' ? std::string("\\\\") : std::string(1, c);
    const bool quote = value.find(',') != std::string::npos;
    out += quote ? fmt::format("=\"{}\"", value) : "=" + value;
  }
  return out;
}

Outcome<std::string> persist_mount(const std::string& source, const std::string& directory,
                                   const std::vector<RawOption>& options) {
  const std::string list = list_of(options);
  if (geteuid() != 0) return add_login_mount(login_places(), {source, directory, list});
  const std::string line = fstab_line(source, directory, list);
  const auto done =
      rewrite_file(fstab(), [&](const std::string& text) { return with_fstab_line(text, directory, line); });
  if (!done) return tl::unexpected(done.error());
  tell_systemd();
  return fstab();
}

Outcome<bool> forget_mount(const std::string& directory) {
  const auto shown = remove_from_sidebars(directory);
  if (!shown) return shown;
  if (geteuid() != 0) {
    auto removed = remove_login_mount(login_places(), directory);
    if (removed) *removed = *removed || *shown;
    return removed;
  }
  bool found = false;
  const auto done = rewrite_file(fstab(), [&](const std::string& text) -> Outcome<std::string> {
    std::string without = without_fstab_lines(text, directory);
    found = without != text;
    return without;
  });
  if (!done) return tl::unexpected(done.error());
  if (found) tell_systemd();
  return found || *shown;
}

}  // namespace nfsrdma::cli
