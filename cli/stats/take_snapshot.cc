// SPDX-License-Identifier: Apache-2.0
#include "cli/stats/take_snapshot.h"

#include <cstdint>

#include "cli/control/ask_daemon.h"

namespace nfsrdma::cli {

Outcome<Snapshot> take_snapshot(const MountEntry& entry) {
  const auto answer = ask_daemon(entry, {{"command", "stats"}});
  if (!answer) return tl::unexpected(answer.error());
  auto snapshot = snapshot_from_json(answer->json);
  if (snapshot) snapshot->same_pid_namespace = static_cast<uint64_t>(answer->daemon) == snapshot->pid;
  return snapshot;
}

}  // namespace nfsrdma::cli
