// SPDX-License-Identifier: Apache-2.0
// MountWatcher: asks the daemons of mounts, again and again, without waiting for any of them.
//
// Each question has a thread of its own, which ends when the daemon has answered or its time is over; a
// daemon that does not answer has one such thread at a time. These threads may outlive the watcher: they own
// what they touch. Everything else belongs to the thread that made the watcher.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/mountinfo.h"
#include "cli/outcome.h"
#include "cli/snapshot.h"
#include "cli/top/top_view.h"

namespace nfsrdma::cli::top {

class MountWatcher {
 public:
  // A daemon that answers from memory does so in milliseconds; after this it is shown as silent.
  static constexpr std::chrono::milliseconds kPatience{1500};

  using TableReader = std::function<std::vector<MountEntry>()>;             // the mounts to watch, now
  using Asker = std::function<Outcome<Snapshot>(const MountEntry& entry)>;  // called on any thread

  MountWatcher(TableReader mounts, Asker ask);
  ~MountWatcher();

  // Asks all that there are and that have answered the last question. Mounts that are gone are forgotten.
  void ask_all();
  // Whether somebody still has time to answer.
  bool pending() const;
  // Returns when nobody has, at the latest after `time`.
  void wait(std::chrono::milliseconds time) const;

  // What is known, in the order of the mount table. `processes` from the next question on.
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
