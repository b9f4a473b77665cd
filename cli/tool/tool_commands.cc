// SPDX-License-Identifier: Apache-2.0
#include "cli/tool/tool_commands.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <thread>

#include "cli/control/ask_daemon.h"
#include "cli/control/control_path.h"
#include "cli/mount/unmount.h"
#include "cli/persist/persist.h"
#include "cli/stats/process_load.h"
#include "cli/stats/snapshot.h"
#include "cli/stats/take_snapshot.h"
#include "cli/support/mountinfo.h"
#include "cli/support/process.h"

namespace nfsrdma::cli {
namespace {

constexpr const char* kNoMounts = "no mounts of this program\n";

void print_as_it_is(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

// Names come from servers, and mount points from other users, so control characters are escaped.
void print(const std::string& text) {
  print_as_it_is(printable_text(text));
}

// The mounts that a verb applies to: the one of DIR, or all.
Outcome<std::vector<MountEntry>> chosen(const std::string& directory) {
  const auto table = read_mountinfo();
  std::vector<MountEntry> entries;
  if (!directory.empty()) {
    auto entry = find_our_mount(table, directory, true);
    if (!entry) return tl::unexpected(std::move(entry).error());
    entries.push_back(*std::move(entry));
    return entries;
  }
  for (const MountEntry& entry : table) {
    if (entry.ours()) entries.push_back(entry);
  }
  return entries;
}

struct Snapshots {
  std::vector<Snapshot> list;
  int status = 0;  // 1 when a daemon did not answer
};

Snapshots take_snapshots(const std::string& program, const std::vector<MountEntry>& entries) {
  Snapshots out;
  for (const MountEntry& entry : entries) {
    auto snapshot = take_snapshot(entry);
    if (snapshot) {
      out.list.push_back(*std::move(snapshot));
    } else {
      out.status = report(program, snapshot.error());
    }
  }
  return out;
}

// With DIR the result is an object; without it an array, even for a single mount.
std::string json_text(const std::vector<Snapshot>& snapshots, bool single, bool processes = false) {
  Json json = Json::array();
  for (const Snapshot& snapshot : snapshots) {
    Json& one = json.emplace_back(to_json(snapshot));
    if (processes) one["processes"] = processes_json(loads_by_process(snapshot));
  }
  if (single && !json.empty()) json = Json(json.front());
  return json.dump(2, ' ', true, Json::error_handler_t::replace) + '\n';
}

Outcome<std::vector<Snapshot>> read_since(const std::string& file) {
  std::ifstream in(file);
  if (!in) return refuse(ToolExit::kFailed, fmt::format("{}: {}", file, std::strerror(errno)));
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  Json json = Json::parse(text, nullptr, false);
  if (json.is_object()) json = Json::array({json});
  if (!json.is_array())
    return refuse(ToolExit::kFailed, fmt::format("{}: not written by 'stats --format json'", file));
  std::vector<Snapshot> snapshots;
  for (const Json& element : json) {
    auto snapshot = snapshot_from_json(element);
    if (!snapshot) return refuse(ToolExit::kFailed, fmt::format("{}: {}", file, snapshot.error().text));
    snapshots.push_back(*std::move(snapshot));
  }
  return snapshots;
}

// Subtracts from each snapshot in `now` the snapshot of the same mount in `before`.
std::vector<Snapshot> differences(const std::vector<Snapshot>& now, const std::vector<Snapshot>& before) {
  std::vector<Snapshot> out;
  for (const Snapshot& snapshot : now) {
    const auto same = std::find_if(before.begin(), before.end(), [&](const Snapshot& other) {
      return other.mount_point == snapshot.mount_point && other.source == snapshot.source;
    });
    out.push_back(same == before.end() ? snapshot : difference(snapshot, *same));
  }
  return out;
}

std::string stats_text(const StatsVerb& verb, const std::vector<Snapshot>& now,
                       const std::vector<Snapshot>& before) {
  const std::vector<Snapshot> shown = differences(now, before);
  switch (verb.format) {
    case StatsFormat::kJson: return json_text(shown, !verb.directory.empty(), verb.processes);
    case StatsFormat::kPrometheus: return stats_prometheus(now);
    case StatsFormat::kMountstats: return stats_mountstats(shown);
    case StatsFormat::kTable: break;
  }
  std::string text;
  for (const Snapshot& s : shown) {
    if (!text.empty()) text += '\n';
    text += stats_table(s, static_cast<double>(s.client.age_seconds), {verb.operations, verb.transports});
    if (verb.processes)
      text += '\n' + processes_table(loads_by_process(s), static_cast<double>(s.client.age_seconds));
  }
  return text;
}

}  // namespace

int run_status(const std::string& program, const StatusVerb& verb) {
  const auto entries = chosen(verb.directory);
  if (!entries) return report(program, entries.error());
  const Snapshots snapshots = take_snapshots(program, *entries);
  if (verb.json) {
    if (!snapshots.list.empty() || verb.directory.empty())
      print_as_it_is(json_text(snapshots.list, !verb.directory.empty()));
    return snapshots.status;
  }
  if (entries->empty()) print(kNoMounts);
  for (const Snapshot& snapshot : snapshots.list) print(status_text(snapshot));
  return snapshots.status;
}

int run_stats(const std::string& program, const StatsVerb& verb) {
  const auto entries = chosen(verb.directory);
  if (!entries) return report(program, entries.error());
  std::vector<Snapshot> before;
  if (!verb.since.empty()) {
    auto since = read_since(verb.since);
    if (!since) return report(program, since.error());
    before = *std::move(since);
  }
  if (entries->empty() && verb.format == StatsFormat::kTable) print(kNoMounts);
  for (unsigned n = 1;; ++n) {
    const Snapshots now = take_snapshots(program, *entries);
    if (!now.list.empty() || verb.directory.empty()) {
      if (n > 1 && verb.format == StatsFormat::kTable) print("\n");
      const std::string text = stats_text(verb, now.list, before);
      if (verb.format == StatsFormat::kJson) {
        print_as_it_is(text);
      } else {
        print(text);
      }
    }
    if (!verb.interval || (verb.count && n >= *verb.count) || now.list.empty()) return now.status;
    before = now.list;
    std::this_thread::sleep_for(*verb.interval);
  }
}

namespace {

// Removes what `mount --persist` recorded for `directory`, which is the path in the mount table or as typed.
Outcome<> forget(const std::string& directory, bool mounted) {
  const auto done = forget_mount(directory);
  if (!done) return tl::unexpected(done.error());
  if (!*done && !mounted)
    return refuse(ToolExit::kNotOurs,
                  fmt::format("{}: not mounted, and not written down for each boot or login", directory));
  if (!*done)
    return refuse(ToolExit::kWarnings,
                  fmt::format("{}: it was not written down for each boot or login", directory));
  return {};
}

}  // namespace

int run_umount(const std::string& program, const UmountVerb& verb) {
  const auto entry = find_our_mount(read_mountinfo(), verb.directory, false);
  if (!entry && !verb.forget) return report(program, entry.error());
  Outcome<> forgotten;
  if (verb.forget)
    forgotten = forget(entry ? entry->mount_point : lexical_path(verb.directory), entry.has_value());
  if (!entry) return forgotten ? static_cast<int>(ToolExit::kOk) : report(program, forgotten.error());
  UnmountOptions options;
  options.lazy = verb.lazy;
  options.force = verb.force;
  options.timeout = verb.timeout;
  if (verb.verbose)
    options.say = [&](const std::string& text) { fmt::print(stderr, "{}: {}\n", program, printable(text)); };
  const auto done = unmount(*entry, options, system_control_places());
  if (!done) return report(program, done.error());
  if (!done->empty()) return report(program, Failure(ToolExit::kWarnings, *done));
  return forgotten ? static_cast<int>(ToolExit::kOk) : report(program, forgotten.error());
}

int run_log_level(const std::string& program, const LogLevelVerb& verb) {
  const auto entry = find_our_mount(read_mountinfo(), verb.directory, true);
  if (!entry) return report(program, entry.error());
  Json request{{"command", "log-level"}};
  if (!verb.level.empty()) request["level"] = verb.level;
  const auto answer = ask_daemon(*entry, request);
  if (!answer) return report(program, answer.error());
  if (verb.level.empty()) print(text_in(answer->json, "level") + '\n');
  return static_cast<int>(ToolExit::kOk);
}

int run_umount_helper(const std::string& program, const UmountRequest& request) {
  const auto mount_namespace = open_mount_namespace(request.mount_namespace);
  if (!mount_namespace) return report(program, mount_namespace.error());
  const auto where = enter_mount_namespace(*mount_namespace);
  if (!where) return report(program, where.error());
  const auto failed = [&](const Failure& failure) {
    return report(program, Failure(MountExit::kFailed, failure.text));
  };
  const auto table = read_mountinfo(**where);
  const auto entry = (*where)->run([&] { return find_our_mount(table, request.directory, false); });
  if (!entry) return failed(entry.error());
  UnmountOptions options;
  options.where = *where;
  options.lazy = request.lazy;
  options.force = request.force;
  options.read_only = request.read_only;
  if (request.verbose) {
    options.say = [&](const std::string& text) { fmt::print(stderr, "{}: {}\n", program, printable(text)); };
  }
  const auto done = unmount(*entry, options, system_control_places());
  if (!done) return failed(done.error());
  if (!done->empty()) report(program, Failure(MountExit::kOk, *done));
  return static_cast<int>(MountExit::kOk);
}

}  // namespace nfsrdma::cli
