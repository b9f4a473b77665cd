// SPDX-License-Identifier: Apache-2.0
#include "cli/top/mount_watcher.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "transport/runtime/mutex.h"

namespace nfsrdma::cli::top {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

struct MountWatcher::Watched {
  Watched(MountEntry of, MountView first) : entry(std::move(of)), view(std::move(first)) {}
  const MountEntry entry;

  mutable Mutex mutex;  // protects all members below
  bool asking NFSRDMA_GUARDED_BY(mutex) = false;
  Clock::time_point asked_at NFSRDMA_GUARDED_BY(mutex);
  std::optional<Snapshot> last NFSRDMA_GUARDED_BY(mutex);  // as received from the daemon
  Clock::time_point last_at NFSRDMA_GUARDED_BY(mutex);
  MountView view NFSRDMA_GUARDED_BY(mutex);
};

MountWatcher::MountWatcher(TableReader mounts, Asker ask)
    : mounts_(std::move(mounts)), ask_(std::move(ask)) {}
MountWatcher::~MountWatcher() = default;

void MountWatcher::ask_all() {
  std::vector<std::shared_ptr<Watched>> now;
  for (MountEntry& entry : mounts_()) {
    const auto same = std::find_if(watched_.begin(), watched_.end(), [&](const auto& w) {
      return w->entry.id == entry.id && w->entry.mount_point == entry.mount_point &&
             w->entry.minor == entry.minor;
    });
    if (same != watched_.end()) {
      now.push_back(*same);
      continue;
    }
    MountView view;
    view.source = entry.source;
    view.mount_point = entry.mount_point;
    now.push_back(std::make_shared<Watched>(std::move(entry), std::move(view)));
  }
  watched_ = std::move(now);
  for (const auto& w : watched_) {
    const MutexLock lock(w->mutex);
    if (std::exchange(w->asking, true)) continue;
    w->asked_at = Clock::now();
    std::thread([w, ask_it = ask_, processes = processes_] { ask(w, ask_it, processes); }).detach();
  }
}

void MountWatcher::ask(const std::shared_ptr<Watched>& w, const Asker& ask, bool processes) {
  auto snapshot = ask(w->entry);
  const Clock::time_point now = Clock::now();
  MountView view;
  view.source = w->entry.source;
  view.mount_point = w->entry.mount_point;
  if (!snapshot) {
    view.problem = snapshot.error().text;
    const MutexLock lock(w->mutex);
    w->last.reset();
    w->view = std::move(view);
    w->asking = false;
    return;
  }
  std::optional<Snapshot> before;
  {
    const MutexLock lock(w->mutex);
    before = w->last;
    view.seconds = std::chrono::duration<double>(now - w->last_at).count();
  }
  view.known = true;
  view.since_mount = !before || before->pid != snapshot->pid;
  view.shown = view.since_mount ? *snapshot : difference(*snapshot, *before);
  if (view.since_mount) view.seconds = std::max<double>(1, static_cast<double>(snapshot->client.age_seconds));
  // Reading /proc may block until a thread ends. No other thread waits for this one.
  if (processes) view.processes = loads_by_process(view.shown);
  const MutexLock lock(w->mutex);
  w->last = *std::move(snapshot);
  w->last_at = now;
  w->view = std::move(view);
  w->asking = false;
}

bool MountWatcher::pending() const {
  const Clock::time_point now = Clock::now();
  return std::any_of(watched_.begin(), watched_.end(), [&](const auto& w) {
    const MutexLock lock(w->mutex);
    return w->asking && now - w->asked_at < kPatience;
  });
}

void MountWatcher::wait(std::chrono::milliseconds time) const {
  const Clock::time_point end = Clock::now() + time;
  while (pending() && Clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

MountView MountWatcher::view_of(const Watched& w) {
  const MutexLock lock(w.mutex);
  MountView view = w.view;
  const auto silent = Clock::now() - w.asked_at;
  if (w.asking && silent >= kPatience) {
    view.problem = fmt::format("the daemon does not answer, for {} s",
                               std::chrono::duration_cast<std::chrono::seconds>(silent).count());
    view.known = false;  // old rates could be mistaken for current ones
  }
  return view;
}

std::vector<MountView> MountWatcher::views() const {
  std::vector<MountView> views;
  for (const auto& w : watched_) views.push_back(view_of(*w));
  return views;
}

}  // namespace nfsrdma::cli::top
