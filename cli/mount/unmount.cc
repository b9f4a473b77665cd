// SPDX-License-Identifier: Apache-2.0
#include "cli/mount/unmount.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "cli/control/control_client.h"
#include "cli/mount/mount_table.h"

namespace nfsrdma::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// How long a living daemon may take to answer a question, or to notice that its mount has ended. Both take
// one turn of its loops.
constexpr seconds kAnswerTime{5};
constexpr milliseconds kLookAgain{20};

tl::unexpected<Failure> failed(std::string text) {
  return refuse(ToolExit::kFailed, std::move(text));
}

bool still_mounted(const fuse::MountNamespace& where, const MountEntry& entry) {
  const auto table = read_mountinfo(where);
  return std::any_of(table.begin(), table.end(), [&](const MountEntry& other) {
    return other.id == entry.id && other.mount_point == entry.mount_point;
  });
}

// Replaces the process. Returns only if fusermount3 does not exist.
void run_fusermount(const std::string& mount_point, bool lazy) {
  std::vector<const char*> argv{"fusermount3", "-u"};
  if (lazy) argv.push_back("-z");
  argv.insert(argv.end(), {"--", mount_point.c_str(), nullptr});
  auto* const* arguments = const_cast<char* const*>(argv.data());
  // mount(8) and systemd run helpers without PATH.
  execv("/usr/bin/fusermount3", arguments);
  execv("/bin/fusermount3", arguments);
  execvp("fusermount3", arguments);
}

struct KernelAnswer {
  int error = 0;     // errno, 0 for success
  std::string said;  // the output of fusermount3
};

std::string read_to_end(const Fd& fd) {
  std::string text;
  char buffer[512];
  for (ssize_t n; (n = read(fd.get(), buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<size_t>(n));
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

// Returns nothing if the kernel has not finished by the deadline. The child then remains, blocked in the
// kernel.
std::optional<KernelAnswer> ask_kernel(const fuse::MountNamespace& where, const MountEntry& entry, int flags,
                                       const Deadline& deadline) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return KernelAnswer{errno, {}};
  const Fd read_end(ends[0]);
  Fd write_end(ends[1]);
  const pid_t child = where.run([&] {
    const pid_t pid = fork();
    if (pid < 0) return -errno;
    if (pid > 0) return pid;
    if (geteuid() == 0) _exit(umount2(entry.mount_point.c_str(), UMOUNT_NOFOLLOW | flags) == 0 ? 0 : errno);
    dup2(write_end.get(), STDERR_FILENO);
    run_fusermount(entry.mount_point, (flags & MNT_DETACH) != 0);
    _exit(ENOENT);
  });
  if (child < 0) return KernelAnswer{-child, {}};
  write_end.reset();
  if (!wait_for_exit(child, deadline)) return std::nullopt;
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status)) return KernelAnswer{EINTR, {}};
  KernelAnswer answer{WEXITSTATUS(status), read_to_end(read_end)};
  // fusermount3 exits with 1 for every error.
  if (geteuid() != 0 && answer.error == 1)
    answer.error = answer.said.find("busy") != std::string::npos ? EBUSY : EPERM;
  return answer;
}

class Unmounter {
 public:
  Unmounter(const MountEntry& entry, const UnmountOptions& options, const ControlPlaces& places)
      : entry_(entry), options_(options), socket_(find_control_socket(places, entry)) {
    if (options.timeout) deadline_ = deadline_in(*options.timeout);
  }

  Outcome<std::string> run() {
    watch();
    if (options_.force && !abort()) abort_connection();
    if (auto done = take_away(); !done) return tl::unexpected(std::move(done).error());
    if (!stays_ && geteuid() == 0 && !options_.where->foreign()) remove_from_mount_table(entry_.mount_point);
    if (options_.lazy || stays_) return warning_;
    if (!daemon_) return dead_ ? warning_ : not_found();
    if (silent_) return warning_;
    if (!options_.force && !daemon_noticed()) {
      say(fmt::format("{}: unmounted here, but still in use elsewhere", entry_.mount_point));
      return warning_;
    }
    return wait_for_daemon();
  }

 private:
  void say(const std::string& text) const {
    if (options_.say) options_.say(text);
  }

  void warn(const std::string& text) { warning_ += (warning_.empty() ? "" : "\n") + text; }

  // The owner of a mount decides which program answers on its socket. So other users wait for it only for a
  // limited time.
  Deadline for_daemon() const {
    if (deadline_) return deadline_;
    if (options_.force) return deadline_in(2 * kAnswerTime);
    const bool others = entry_.owner() != geteuid();
    return others ? deadline_in(options_.others_time) : Deadline{};
  }

  Deadline soon() const {
    const Deadline answer = deadline_in(kAnswerTime);
    return deadline_ ? std::min(*deadline_, *answer) : answer;
  }

  Outcome<ControlClient> connect() const { return ControlClient::connect(socket_, entry_.owner(), soon()); }

  // Connects before the unmount, so that the daemon's final answer is not missed.
  void watch() {
    auto daemon = connect();
    if (!daemon) {
      dead_ = is_abandoned(socket_);
      say(fmt::format("{}: no daemon answers ({})", entry_.mount_point, daemon.error().text));
      return;
    }
    // Wait until the daemon has received the request: it may exit just after the mount ends. A daemon that
    // does not acknowledge is still alive, and may have data to write.
    heard_ = daemon->send({{"command", "watch"}}, soon()) && daemon->wait_until_heard(soon());
    if (!heard_)
      say(fmt::format("{}: the daemon, process {}, does not answer", entry_.mount_point, daemon->peer()));
    daemon_ = *std::move(daemon);
  }

  // The daemon has ended, or this process does not know its socket.
  std::string not_found() const {
    return fmt::format(
        "{}: unmounted, but its daemon was not found: it may still be writing ('pgrep -a nfsrdma-fuse' shows "
        "it)",
        entry_.mount_point);
  }

  // Returns false if a daemon may exist that does not answer. The request is sent in any case: if the daemon
  // continues later (after SIGSTOP, for example), it gives up its unwritten data.
  bool abort() {
    auto daemon = connect();
    if (!daemon) return dead_;
    const Outcome<> sent = daemon->send({{"command", "abort"}}, soon());
    // Do not wait a second time for a daemon that was silent before.
    if (!sent || !heard_) return false;
    const auto answer = daemon->receive(soon());
    if (!answer) {
      say(fmt::format("{}: {}", entry_.mount_point, answer.error().text));
      return false;
    }
    const uint64_t lost = number_in(*answer, "unwritten_bytes");
    if (lost != 0) warn(fmt::format("{}: {} bytes were given up", entry_.mount_point, lost));
    return true;
  }

  // Makes the kernel fail every request that waits for the daemon. These requests keep the mount busy, and
  // would block the child that unmounts. The path contains the minor number of the file system's device.
  void abort_connection() {
    // Read the table again: the number of a mount that has ended may already belong to another one.
    if (!still_mounted(*options_.where, entry_)) return;
    silent_ = true;
    if (daemon_) {
      warn(
          fmt::format("{}: the daemon, process {}, does not answer; data that it has not written is given up",
                      entry_.mount_point, daemon_->peer()));
    }
    const std::string path = fmt::format("/sys/fs/fuse/connections/{}/abort", entry_.minor);
    const Fd file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!file || write(file.get(), "1", 1) != 1)
      say(fmt::format("{}: {}: {}", entry_.mount_point, path, std::strerror(errno)));
  }

  Outcome<> take_away() {
    const int flags = (options_.lazy ? MNT_DETACH : 0) | (options_.force ? MNT_FORCE : 0);
    auto answer = ask_kernel(*options_.where, entry_, flags, silent_ ? soon() : deadline_);
    // The connection is aborted, so the mount is useless even to programs with open files: detach it.
    if (silent_ && (!answer || answer->error == EBUSY) && still_mounted(*options_.where, entry_))
      answer = ask_kernel(*options_.where, entry_, flags | MNT_DETACH, soon());
    if (silent_ && !answer && !still_mounted(*options_.where, entry_)) return {};
    if (!answer) {
      return failed(
          fmt::format("{}: the kernel is still writing data back; --force gives it up", entry_.mount_point));
    }
    if (answer->error == 0 || !still_mounted(*options_.where, entry_)) return {};
    // With force the kernel and the daemon remove the mount at the same time, so wait a moment; it may be
    // gone soon.
    if (options_.force && answer->error == EBUSY && gone_soon()) return {};
    if (answer->error == EBUSY && options_.read_only && geteuid() == 0) return remount_read_only();
    const std::string reason = answer->said.empty() ? std::strerror(answer->error) : answer->said;
    if (answer->error == EBUSY) {
      return failed(fmt::format("{}: busy; 'fuser -vm {}' shows who uses it, --lazy detaches it anyway",
                                entry_.mount_point, entry_.mount_point));
    }
    if (answer->error == ENOENT && geteuid() != 0) {
      return failed(fmt::format("{}: fusermount3 is missing; install the package fuse3", entry_.mount_point));
    }
    return failed(fmt::format("{}: {}", entry_.mount_point, reason));
  }

  bool gone_soon() const {
    const Deadline deadline = soon();
    while (still_mounted(*options_.where, entry_)) {
      if (std::chrono::steady_clock::now() >= *deadline) return false;
      std::this_thread::sleep_for(kLookAgain);
    }
    return true;
  }

  // As in libmount, a successful remount counts as done, although the mount stays.
  Outcome<> remount_read_only() {
    unsigned long flags = MS_REMOUNT | MS_RDONLY;
    const std::string options = "," + entry_.options + ",";
    for (const auto& [name, flag] : {std::pair(",nosuid,", MS_NOSUID), std::pair(",nodev,", MS_NODEV),
                                     std::pair(",noexec,", MS_NOEXEC)}) {
      if (options.find(name) != std::string::npos) flags |= flag;
    }
    const int error = options_.where->run(
        [&] { return mount(nullptr, entry_.mount_point.c_str(), nullptr, flags, nullptr) == 0 ? 0 : errno; });
    if (error != 0) {
      return failed(
          fmt::format("{}: busy, and not remounted read-only: {}", entry_.mount_point, std::strerror(error)));
    }
    stays_ = true;
    warn(fmt::format("{}: busy; remounted read-only", entry_.mount_point));
    return {};
  }

  // Returns false if the file system is still mounted elsewhere: through a bind mount or in another mount
  // namespace.
  bool daemon_noticed() const {
    const Deadline deadline = soon();
    while (true) {
      auto daemon = connect();
      if (!daemon) return true;  // gone already
      const auto answer = daemon->ask({{"command", "status"}}, deadline);
      if (!answer || text_in(*answer, "state") != "mounted") return true;
      if (std::chrono::steady_clock::now() >= *deadline) return false;
      std::this_thread::sleep_for(kLookAgain);
    }
  }

  Outcome<std::string> wait_for_daemon() {
    const pid_t pid = daemon_->peer();
    say(fmt::format("{}: waiting for the daemon, process {}", entry_.mount_point, pid));
    const Deadline deadline = for_daemon();
    const auto answer = daemon_->receive(deadline);
    if (!wait_for_exit(pid, deadline)) {
      return failed(
          fmt::format("{}: unmounted, but process {} still waits for the server; it goes on by itself, and "
                      "'kill {}' gives up what is not written",
                      entry_.mount_point, pid, pid));
    }
    if (options_.force) return warning_;
    if (!answer) {
      std::string text = fmt::format(
          "{}: unmounted, but the daemon ended without saying that all data was written", entry_.mount_point);
      // The daemon may already have been ending when the request arrived.
      if (!heard_) return text;
      return failed(std::move(text));
    }
    const uint64_t lost = number_in(*answer, "unwritten_bytes");
    if (lost != 0)
      return failed(fmt::format("{}: unmounted, but {} bytes were not written", entry_.mount_point, lost));
    return warning_;
  }

  const MountEntry& entry_;
  const UnmountOptions& options_;
  std::string socket_;
  Deadline deadline_;
  std::optional<ControlClient> daemon_;
  bool heard_ = false;   // daemon_ has acknowledged the watch request
  bool dead_ = false;    // the socket exists, but no process listens
  bool stays_ = false;   // still mounted, now read-only
  bool silent_ = false;  // abort() got no answer: do not wait for the daemon
  std::string warning_;
};

}  // namespace

Outcome<std::string> unmount(const MountEntry& entry, const UnmountOptions& options,
                             const ControlPlaces& places) {
  return Unmounter(entry, options, places).run();
}

}  // namespace nfsrdma::cli
