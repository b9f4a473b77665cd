// SPDX-License-Identifier: Apache-2.0
#include "cli/control/ask_daemon.h"

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <utility>

#include "cli/control/control_client.h"
#include "cli/control/control_path.h"

namespace nfsrdma::cli {
namespace {

// A living daemon answers from memory, so this is enough.
constexpr std::chrono::seconds kAnswerTime{5};

}  // namespace

Outcome<DaemonAnswer> ask_daemon(const MountEntry& entry, const Json& request) {
  const std::string mount = fmt::format("{} on {}", entry.source, entry.mount_point);
  if (geteuid() != 0 && geteuid() != entry.owner()) {
    if (entry.owner() == 0)
      return refuse(ToolExit::kFailed, fmt::format("{}: only root may ask its daemon", mount));
    return refuse(ToolExit::kFailed,
                  fmt::format("{}: only root and user {}, whose mount it is, may ask its daemon", mount,
                              entry.owner()));
  }
  const std::string socket = find_control_socket(system_control_places(), entry);
  const auto unanswered = [&](const Failure& failure) {
    return refuse(
        ToolExit::kFailed,
        fmt::format("{}: {}; if the daemon has died, run 'nfsrdma-fuse umount {}', with --force if it hangs",
                    mount, failure.text, entry.mount_point));
  };
  auto daemon = ControlClient::connect(socket, entry.owner(), deadline_in(kAnswerTime));
  if (!daemon) return unanswered(daemon.error());
  const Deadline deadline = deadline_in(kAnswerTime);
  Outcome<> heard = daemon->send(request, deadline);
  if (heard) heard = daemon->wait_until_heard(deadline);
  if (!heard) return unanswered(heard.error());
  auto answer = daemon->receive(deadline);
  if (!answer) return refuse(ToolExit::kFailed, fmt::format("{}: {}", mount, answer.error().text));
  return DaemonAnswer{*std::move(answer), daemon->peer()};
}

}  // namespace nfsrdma::cli
