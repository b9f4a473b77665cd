// SPDX-License-Identifier: Apache-2.0
#include "cli/stats/process_load.h"

#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string_view>

#include "fuse/thread_status.h"
#include "transport/runtime/proc.h"

namespace nfsrdma::cli {
namespace {

using Kind = ProcessLoad::Kind;

// Tolerance when a thread's age is compared with the age of its first request: the two are measured at
// different times.
constexpr uint64_t kSlackMs = 1000;

// The start time of a thread: proc_pid_stat(5), field 22, in clock ticks since boot. Field 2, the command,
// may contain spaces and parentheses.
std::optional<uint64_t> start_ticks(std::string_view stat) {
  size_t at = stat.rfind(')');
  for (int field = 2; field < 22 && at != std::string_view::npos; ++field) at = stat.find(' ', at + 1);
  uint64_t ticks = 0;
  if (at == std::string_view::npos) return std::nullopt;
  const auto [stop, error] = std::from_chars(stat.data() + at + 1, stat.data() + stat.size(), ticks);
  if (error != std::errc{}) return std::nullopt;
  return ticks;
}

uint64_t age_ms(std::string_view stat) {
  const auto ticks = start_ticks(stat);
  timespec now{};
  if (!ticks || clock_gettime(CLOCK_BOOTTIME, &now) != 0) return 0;
  const uint64_t started = *ticks * 1000 / static_cast<uint64_t>(sysconf(_SC_CLK_TCK));
  const uint64_t ms =
      static_cast<uint64_t>(now.tv_sec) * 1000 + static_cast<uint64_t>(now.tv_nsec) / 1'000'000;
  return ms > started ? ms - started : 0;
}

ProcessLoad& place_for(std::vector<ProcessLoad>& loads, Kind kind, pid_t id) {
  const auto same = std::find_if(loads.begin(), loads.end(),
                                 [&](const ProcessLoad& l) { return l.kind == kind && l.id == id; });
  if (same != loads.end()) return *same;
  ProcessLoad& made = loads.emplace_back();
  made.kind = kind;
  made.id = id;
  return made;
}

void add(ProcessLoad& load, const Caller& caller) {
  load.requests += caller.requests;
  load.read_bytes += caller.read_bytes;
  load.write_bytes += caller.write_bytes;
  load.total_us += caller.total_us;
}

ProcessLoad& load_of(std::vector<ProcessLoad>& loads, const Caller& caller, bool same_namespace,
                     const FindOwner& find) {
  if (caller.tid == 0) return place_for(loads, Kind::kKernel, 0);
  if (!same_namespace) return place_for(loads, Kind::kHidden, caller.tid);
  const auto owner = find(caller.tid);
  if (!owner || (!owner->hidden && owner->age_ms + kSlackMs < caller.seen_ms))
    return place_for(loads, Kind::kEnded, caller.tid);
  if (owner->hidden) return place_for(loads, Kind::kHidden, caller.tid);
  ProcessLoad& load = place_for(loads, Kind::kRunning, owner->pid);
  load.command = owner->command;
  return load;
}

}  // namespace

std::string ProcessLoad::name() const {
  switch (kind) {
    case Kind::kRunning: return command;
    case Kind::kEnded: return "(ended)";
    case Kind::kHidden: return "(not visible)";
    case Kind::kKernel: return "(kernel)";
    case Kind::kEarlier: return "(earlier ones)";
  }
  return {};
}

std::optional<ThreadOwner> owner_in_proc(pid_t tid) {
  const auto status = fuse::read_thread_status(tid);
  ThreadOwner owner;
  if (!status) {
    owner.hidden = kill(tid, 0) != 0 && errno == EPERM;
    if (owner.hidden) return owner;
    return std::nullopt;
  }
  owner.pid = static_cast<pid_t>(status->process);
  owner.age_ms = age_ms(Proc::ours().read(fmt::format("{}/stat", tid)));
  owner.command = Proc::ours().read(fmt::format("{}/comm", owner.pid));
  if (owner.command.ends_with('\n')) owner.command.pop_back();
  return owner;
}

std::vector<ProcessLoad> loads_by_process(const Snapshot& snapshot, const FindOwner& find) {
  std::vector<ProcessLoad> loads;
  for (const Caller& caller : snapshot.fuse.callers) {
    ProcessLoad& load = load_of(loads, caller, snapshot.same_pid_namespace, find);
    ++load.threads;
    add(load, caller);
  }
  if (snapshot.fuse.replaced_callers.requests != 0)
    add(place_for(loads, Kind::kEarlier, 0), snapshot.fuse.replaced_callers);
  std::stable_sort(loads.begin(), loads.end(),
                   [](const ProcessLoad& a, const ProcessLoad& b) { return a.total_us > b.total_us; });
  return loads;
}

std::string processes_table(const std::vector<ProcessLoad>& loads, double seconds) {
  if (seconds <= 0) seconds = 1;
  const auto rate = [&](uint64_t n) { return static_cast<double>(n) / seconds; };
  std::string out = fmt::format("  {:>10} {:<16}{:>8}{:>12}{:>10}{:>13}{:>13}{:>11}\n", "PID", "COMMAND",
                                "threads", "requests", "op/s", "read kB/s", "written kB/s", "avg ms");
  for (const ProcessLoad& l : loads) {
    const std::string id = l.id == 0 ? "-" : fmt::format("{}", l.id);
    const double average =
        l.requests == 0 ? 0 : static_cast<double>(l.total_us) / 1000 / static_cast<double>(l.requests);
    out += fmt::format("  {:>10} {:<16}{:>8}{:>12}{:>10.1f}{:>13.1f}{:>13.1f}{:>11.3f}\n", id,
                       printable(l.name()), l.threads, l.requests, rate(l.requests),
                       rate(l.read_bytes) / 1024, rate(l.write_bytes) / 1024, average);
  }
  if (loads.empty()) out += "  none\n";
  return out;
}

Json processes_json(const std::vector<ProcessLoad>& loads) {
  constexpr const char* kKinds[] = {"running", "ended", "hidden", "kernel", "earlier"};
  Json array = Json::array();
  for (const ProcessLoad& l : loads) {
    Json one{{"kind", kKinds[static_cast<size_t>(l.kind)]},
             {"threads", l.threads},
             {"requests", l.requests},
             {"read_bytes", l.read_bytes},
             {"write_bytes", l.write_bytes},
             {"total_us", l.total_us}};
    if (l.kind == Kind::kRunning) {
      one["pid"] = l.id;
      one["command"] = l.command;
    } else if (l.id != 0) {
      one["tid"] = l.id;
    }
    array.push_back(std::move(one));
  }
  return array;
}

}  // namespace nfsrdma::cli
