// SPDX-License-Identifier: Apache-2.0
#include "cli/mount/mount_command.h"

#include <fmt/core.h>
#include <netinet/in.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cli/mount/launch.h"
#include "cli/mount/mount_daemon.h"
#include "cli/mount/mount_plan.h"
#include "cli/mount/mount_point.h"
#include "cli/mount/mount_table.h"
#include "cli/mount/remount.h"
#include "cli/options/option_table.h"
#include "cli/persist/persist.h"
#include "cli/persist/sidebar.h"
#include "cli/server/explain.h"
#include "cli/server/retry.h"
#include "cli/stats/take_snapshot.h"
#include "cli/support/process.h"
#include "transport/runtime/fd.h"

namespace nfsrdma::cli {
namespace {

Outcome<> check_given(const MountPlan& plan, const MountEntry& entry) {
  const std::vector<RawOption>& given = plan.request.options;
  // A remount to ro must work even if the daemon does not answer.
  if (std::none_of(given.begin(), given.end(), may_need_new_mount)) return {};
  const auto snapshot = take_snapshot(entry);
  if (!snapshot) return refuse(MountExit::kFailed, snapshot.error().text);
  return check_remount(snapshot->mount_options, snapshot->found_transport, given);
}

// mount -o remount: the kernel changes ro, rw, nosuid... of a FUSE mount. All other options belong to the
// daemon.
Outcome<> remount(const MountPlan& plan, const fuse::MountNamespace& where) {
  const auto table = read_mountinfo(where);
  const auto entry = where.run([&] { return find_our_mount(table, plan.request.directory, false); });
  if (!entry) return refuse(MountExit::kFailed, entry.error().text);
  if (auto done = check_given(plan, *entry); !done || plan.request.fake) return done;
  const MountOptions& o = plan.options;
  // The owner of a user's mount controls its content, so root must not allow suid or dev on it.
  if (entry->owner() != geteuid() && (o.suid || o.dev)) {
    return refuse(MountExit::kUsage, fmt::format("{}: user {}'s mount may have neither suid nor dev",
                                                 entry->mount_point, entry->owner()));
  }
  unsigned long flags = MS_REMOUNT;
  if (o.read_only) flags |= MS_RDONLY;
  if (!o.dev) flags |= MS_NODEV;
  if (!o.suid) flags |= MS_NOSUID;
  if (!o.exec) flags |= MS_NOEXEC;
  if (has_option(entry->fs_options, "sync")) flags |= MS_SYNCHRONOUS;
  if (has_option(entry->fs_options, "dirsync")) flags |= MS_DIRSYNC;
  const int error = where.run(
      [&] { return mount(nullptr, entry->mount_point.c_str(), nullptr, flags, nullptr) == 0 ? 0 : errno; });
  if (error != 0) {
    const bool permission = error == EPERM || error == EACCES;
    return refuse(permission ? MountExit::kUsage : MountExit::kFailed,
                  fmt::format("{}: remount: {}", entry->mount_point, std::strerror(error)));
  }
  return {};
}

Outcome<> check_places(const MountPlan& plan, const fuse::MountNamespace& where) {
  if (auto done = check_fuse(geteuid()); !done) return done;
  const auto table = read_mountinfo(where);
  const auto path = where.run([&] { return check_mount_point(table, plan.request.directory, geteuid()); });
  if (path || (path.error().passing && plan.options.background)) return {};
  return tl::unexpected(path.error().failure);
}

// True unless the system refuses a port below 1024 to this user (resvport).
bool may_have_reserved_port() {
  const Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(IPPORT_RESERVED - 1);
  return !fd || bind(fd.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0 || errno != EACCES;
}

// Enters the mount namespace for one step. The thread inside the namespace has ended when this returns,
// because the daemon must be forked while the process has only one thread.
Outcome<> inside(const MountPlan& plan, Outcome<> (*step)(const MountPlan&, const fuse::MountNamespace&)) {
  const auto where = enter_mount_namespace(plan.mount_namespace);
  if (!where) return tl::unexpected(where.error());
  return step(plan, **where);
}

// A failure here only prints a warning: the mount works without the table's line.
void put_into_mount_table(const std::string& program, const MountPlan& plan) {
  if (!plan.root || plan.mount_namespace || plan.request.no_mount_table) return;
  // With the option bg, the daemon may mount later. The line is added now all the same: it has no effect
  // while nothing is mounted on the directory.
  const std::vector<RawOption>& options =
      plan.request.written.empty() ? plan.request.options : plan.request.written;
  if (const auto done = add_to_mount_table(plan.source.text, plan.mount_point, options); !done) {
    fmt::print(stderr, "{}: {}: umount(8) will not wait for the data; use 'nfsrdma-fuse umount'\n", program,
               done.error().text);
  }
}

// Records what should outlive the mount (--persist, --bookmark). The mount stays even if this fails.
int write_down(const std::string& program, const MountPlan& plan) {
  const auto failed = [&](const std::string& text) {
    return report(program, Failure(MountExit::kFailed, fmt::format("{}: {}", plan.mount_point, text)));
  };
  const auto table = read_mountinfo();
  const MountEntry* entry = mount_at(table, plan.mount_point);
  if (entry == nullptr || !entry->ours()) return failed("not mounted yet, so it is not written down");
  if (!plan.request.bookmark.empty()) {
    if (const auto done = add_to_sidebars(entry->mount_point, plan.request.bookmark); !done)
      return failed("mounted, but not written down: " + done.error().text);
  }
  if (!plan.request.persist) return 0;
  const auto where = persist_mount(plan.source.text, entry->mount_point, plan.request.options);
  if (!where) return failed("mounted, but not written down: " + where.error().text);
  fmt::print("{}: mounted at each {} from now on ({}); 'nfsrdma-fuse umount --forget {}' ends that\n",
             printable(plan.mount_point), plan.root ? "boot" : "login", printable(*where),
             printable(plan.mount_point));
  return 0;
}

}  // namespace

int run_mount(const std::string& program, const MountRequest& request) {
  // Close inherited descriptors: a program that waits for the end of a pipe or for a file lock must not wait
  // for the daemon.
  if (!request.foreground && !request.debug) close_range(3, ~0U, 0);
  const auto mount_namespace = open_mount_namespace(request.mount_namespace);
  if (!mount_namespace) return report(program, mount_namespace.error());
  auto plan = make_mount_plan(program, request);
  if (!plan) return report(program, plan.error());
  plan->mount_namespace = *mount_namespace;
  if (request.verbose) {
    for (const std::string& text : plan->skipped)
      fmt::print(stderr, "{}: skipped: {}\n", program, printable(text));
    fmt::print(stderr, "{}: {} on {}: {}\n", program, printable(plan->source.text),
               printable(plan->mount_point), printable(show_options(plan->options)));
  }
  const auto done = plan->options.remount ? inside(*plan, remount) : inside(*plan, check_places);
  if (!done) return report(program, done.error());
  if (plan->options.remount) return 0;
  if (plan->options.reserved_port.value_or(false) && !may_have_reserved_port()) {
    fmt::print(
        stderr,
        "{}: resvport: ports below 1024 are root's; going on without one, which servers take that export "
        "with \"insecure\"\n",
        program);
  }
  if (request.fake) return 0;
  if (plan->foreground) {
    ForegroundReporter reporter(program, request.verbose);
    return run_mount_daemon(*plan, reporter);
  }
  LaunchOptions launch;
  launch.program = program;
  launch.source = plan->source.text;
  launch.advice = probe_advice(plan->source, plan->options);
  launch.verbose = request.verbose;
  launch.bound = longest_wait(plan->options);
  const pid_t waiting = getpid();
  const int status =
      launch_in_background(launch, [&](Reporter& reporter) { return run_mount_daemon(*plan, reporter); });
  // The daemon's process also returns here when it ends.
  if (status != 0 || getpid() != waiting) return status;
  put_into_mount_table(program, *plan);
  if (!request.persist && request.bookmark.empty()) return status;
  return write_down(program, *plan);
}

}  // namespace nfsrdma::cli
