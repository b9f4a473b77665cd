// SPDX-License-Identifier: Apache-2.0
#include "cli/top/top_command.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <thread>

#include "cli/stats/take_snapshot.h"
#include "cli/support/mountinfo.h"
#include "cli/support/outcome.h"
#include "cli/top/mount_watcher.h"
#include "cli/top/terminal.h"
#include "cli/top/top_view.h"

namespace nfsrdma::cli {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using top::Key;

// While answers are pending, the screen is refreshed at this interval.
constexpr milliseconds kLook{50};

std::string time_of_day() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return fmt::format("{:02}:{:02}:{:02}", local.tm_hour, local.tm_min, local.tm_sec);
}

std::vector<MountEntry> own_mounts() {
  std::vector<MountEntry> all = read_mountinfo();
  std::erase_if(all,
                [](const MountEntry& e) { return !e.ours() || (geteuid() != 0 && geteuid() != e.owner()); });
  return all;
}

// Returns a reader that finds this mount as long as it exists.
top::MountWatcher::TableReader only(const MountEntry& mount) {
  return [mount] {
    std::vector<MountEntry> all = read_mountinfo();
    std::erase_if(all, [&](const MountEntry& e) {
      return !e.ours() || e.mount_point != mount.mount_point || e.minor != mount.minor ||
             e.major != mount.major;
    });
    return all;
  };
}

class Top {
 public:
  Top(const TopVerb& verb, top::MountWatcher::TableReader mounts)
      : verb_(verb), watcher_(std::move(mounts), take_snapshot) {
    choice_.by_process = verb.processes;
  }

  // Returns false if DIR's mount no longer exists.
  bool run_live(top::Terminal& terminal) {
    Clock::time_point next = Clock::now();
    while (true) {
      if (Clock::now() >= next) {
        watcher_.ask_all();
        next = std::max(next + verb_.interval, Clock::now());
        // Most daemons answer at once: do not draw a screen without numbers before that.
        watcher_.wait(kLook);
      }
      const auto views = watcher_.views();
      if (views.empty() && !verb_.directory.empty()) return false;
      select(views);
      terminal.draw(
          top::screen(views, choice_, time_of_day(), seconds(), terminal.width(), terminal.height()));
      const auto left = std::chrono::ceil<milliseconds>(next - Clock::now());
      if (!take(terminal.wait_for_key(watcher_.pending() ? std::min(left, kLook) : left), views)) return true;
    }
  }

  bool run_batch() {
    watcher_.ask_all();
    watcher_.wait(top::MountWatcher::kPatience);
    for (unsigned n = 0; !verb_.count || n < *verb_.count; ++n) {
      std::this_thread::sleep_for(verb_.interval);
      watcher_.ask_all();
      watcher_.wait(top::MountWatcher::kPatience);
      const auto views = watcher_.views();
      if (views.empty() && !verb_.directory.empty()) return false;
      const std::string text = (n == 0 ? "" : "\n") + top::batch_text(views, time_of_day(), verb_.processes);
      if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) break;
    }
    return true;
  }

 private:
  double seconds() const { return std::chrono::duration<double>(verb_.interval).count(); }

  // Keeps the selection on the same mount while others come and go.
  void select(const std::vector<top::MountView>& views) {
    const auto same = std::find_if(views.begin(), views.end(),
                                   [&](const top::MountView& v) { return v.mount_point == selected_; });
    if (same != views.end()) choice_.selected = static_cast<size_t>(same - views.begin());
    choice_.selected = views.empty() ? 0 : std::min(choice_.selected, views.size() - 1);
    selected_ = views.empty() ? std::string() : views[choice_.selected].mount_point;
  }

  // Returns false if the user quits.
  bool take(Key key, const std::vector<top::MountView>& views) {
    switch (key) {
      case Key::kQuit: return false;
      case Key::kProcesses: choice_.by_process = !choice_.by_process; break;
      case Key::kHelp: choice_.help = !choice_.help; break;
      case Key::kUp:
        if (choice_.selected > 0) selected_ = views[choice_.selected - 1].mount_point;
        break;
      case Key::kDown:
        if (choice_.selected + 1 < views.size()) selected_ = views[choice_.selected + 1].mount_point;
        break;
      case Key::kResized:
      case Key::kNone: break;
    }
    return true;
  }

  const TopVerb verb_;
  top::MountWatcher watcher_;
  top::Choice choice_;
  std::string selected_;  // the selected mount's mount point
};

}  // namespace

int run_top(const std::string& program, const TopVerb& verb) {
  top::MountWatcher::TableReader mounts = own_mounts;
  if (!verb.directory.empty()) {
    const auto entry = find_our_mount(read_mountinfo(), verb.directory, true);
    if (!entry) return report(program, entry.error());
    mounts = only(*entry);
  }
  Top top(verb, std::move(mounts));
  bool there = true;
  if (verb.batch) {
    there = top.run_batch();
  } else {
    auto terminal = top::Terminal::open();
    if (!terminal) return report(program, terminal.error());
    there = top.run_live(**terminal);
  }
  if (there) return static_cast<int>(ToolExit::kOk);
  return report(program,
                Failure(ToolExit::kNotOurs, fmt::format("{} is not mounted any more", verb.directory)));
}

}  // namespace nfsrdma::cli
