// SPDX-License-Identifier: Apache-2.0
// MountWatcher: asks the daemons of mounts repeatedly without waiting for any of them.
//
// Each question runs on its own thread, which ends when the daemon has answered or the time limit is over. A
// daemon that does not answer has at most one such thread. The threads may outlive the watcher, so they own
// what they use. Everything else belongs to the thread that created the watcher.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/stats/snapshot.h"
#include "cli/support/mountinfo.h"
#include "cli/support/outcome.h"
#include "cli/top/top_view.h"

namespace nfsrdma::cli::top {

class MountWatcher {
 public:
  // A daemon answers from memory within milliseconds. After this time it is shown as silent.
  static constexpr std::chrono::milliseconds kPatience{1500};

  using TableReader = std::function<std::vector<MountEntry>()>;             // returns the mounts to watch now
  using Asker = std::function<Outcome<Snapshot>(const MountEntry& entry)>;  // called on any thread

  MountWatcher(TableReader mounts, Asker ask);
  ~MountWatcher();

  // Asks every mount whose daemon has answered its last question. Forgets mounts that no longer exist.
  void ask_all();
  // True if a daemon may still answer within its time.
  bool pending() const;
  // Returns when no answer is pending, or after `time`.
  void wait(std::chrono::milliseconds time) const;

  // The latest results, in the order of the mount table.
  std::vector<MountView> views() const;
  void want_processes(bool want) { processes_ = want; }

 private:
  struct Watched;
  static void ask(const std::shared_ptr<Watched>& watched, const Asker& ask, bool processes);
  static MountView view_of(const Watched& watched);

  const TableReader mounts_;
  const Asker ask_;
  bool processes_ = true;
  std::vector<std::shared_ptr<Watched>> watched_;
};

}  // namespace nfsrdma::cli::top
