// SPDX-License-Identifier: Apache-2.0
#include "cli/mount/launch.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "cli/control/control_client.h"

namespace nfsrdma::cli {
namespace {

using Clock = std::chrono::steady_clock;

// How long a child may take to end after SIGTERM before it is killed: it may have to unmount.
constexpr std::chrono::seconds kEndTime{5};

class Parent {
 public:
  Parent(const LaunchOptions& options, Fd pipe, pid_t child, const sigset_t& signals)
      : options_(options),
        pipe_(std::move(pipe)),
        child_(child),
        signals_(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK)),
        deadline_(Clock::now() + options.bound) {}

  int wait() {
    while (true) {
      pollfd entries[] = {{pipe_.get(), POLLIN, 0}, {signals_.get(), POLLIN, 0}};
      const int timeout = static_cast<int>(std::clamp<int64_t>(
          std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now()).count(), 0, 60'000));
      if (poll(entries, 2, timeout) < 0 && errno != EINTR) {
        return end_child(failure(MountExit::kSystem, fmt::format("poll: {}", std::strerror(errno))));
      }
      if (entries[1].revents != 0) return end_child(failure(MountExit::kInterrupted, "interrupted"));
      if (entries[0].revents != 0) {
        if (const auto status = read_reports()) return *status;
      } else if (Clock::now() >= deadline_) {
        const auto waited = std::chrono::duration_cast<std::chrono::seconds>(options_.bound);
        return end_child(failure(MountExit::kFailed,
                                 fmt::format("the daemon did not answer within {} s", waited.count())));
      }
    }
  }

 private:
  Failure failure(MountExit code, const std::string& cause) const {
    return {code, fmt::format("{}: mount: {}; {}", options_.source, cause, options_.advice)};
  }

  std::optional<int> read_reports() {
    char buffer[4096];
    const ssize_t n = read(pipe_.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) return std::nullopt;
    if (n <= 0) return child_died();
    reader_.append(std::string_view(buffer, static_cast<size_t>(n)));
    Report report;
    while (reader_.next(report)) {
      if (const auto status = handle(report)) return status;
    }
    return std::nullopt;
  }

  std::optional<int> handle(const Report& report) {
    switch (report.kind) {
      case Report::Kind::kReady: return static_cast<int>(MountExit::kOk);
      case Report::Kind::kFailed:
        return cli::report(options_.program, Failure(int{report.code}, report.text));
      case Report::Kind::kBackground: show(report.text); return static_cast<int>(MountExit::kOk);
      case Report::Kind::kProgress: show(report.text); return std::nullopt;
      case Report::Kind::kEnd: return child_died();
    }
    return child_died();
  }

  // On a terminal every attempt is shown. On a boot console or in a script's log each cause is shown once.
  void show(const std::string& line) {
    if (!options_.verbose && isatty(STDERR_FILENO) == 0 && !shown_.insert(line).second) return;
    fmt::print(stderr, "{}: {}\n", options_.program, printable(line));
  }

  int child_died() {
    int status = 0;
    std::string how = "ended without a word";
    if (waitpid(child_, &status, 0) == child_) {
      if (WIFSIGNALED(status)) how = fmt::format("was killed by signal {}", WTERMSIG(status));
      if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS)
        how = "made a system call that its filter does not allow: 'dmesg' shows its number at type=1326";
      if (WIFEXITED(status)) how = fmt::format("ended with status {} and no word", WEXITSTATUS(status));
    }
    return cli::report(options_.program, failure(MountExit::kInternal, "the daemon " + how));
  }

  int end_child(const Failure& failure) {
    kill(child_, SIGTERM);
    if (!wait_for_exit(child_, deadline_in(kEndTime))) kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    return cli::report(options_.program, failure);
  }

  const LaunchOptions& options_;
  Fd pipe_;
  pid_t child_;
  Fd signals_;
  Clock::time_point deadline_;
  ReportReader reader_;
  std::set<std::string> shown_;
};

}  // namespace

int launch_in_background(const LaunchOptions& options, const std::function<int(Reporter&)>& daemon) {
  const auto failed = [&](const char* what) {
    return report(options.program,
                  Failure(MountExit::kSystem, fmt::format("{}: {}", what, std::strerror(errno))));
  };
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return failed("pipe");
  Fd read_end(ends[0]);
  Fd write_end(ends[1]);
  sigset_t signals;
  sigset_t before;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, number);
  sigprocmask(SIG_BLOCK, &signals, &before);
  std::fflush(nullptr);  // buffered output must not be written twice
  const pid_t child = fork();
  if (child < 0) {
    const int status = failed("fork");
    sigprocmask(SIG_SETMASK, &before, nullptr);
    return status;
  }
  if (child == 0) {
    sigprocmask(SIG_SETMASK, &before, nullptr);
    read_end.reset();
    PipeReporter reporter(std::move(write_end));
    return daemon(reporter);
  }
  write_end.reset();
  // The signals stay blocked: otherwise a pending one would kill the parent and so replace the exit status.
  return Parent(options, std::move(read_end), child, signals).wait();
}

}  // namespace nfsrdma::cli
