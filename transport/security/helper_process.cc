// SPDX-License-Identifier: Apache-2.0
#include "transport/security/helper_process.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <list>
#include <thread>
#include <utility>
#include <vector>

#include "transport/security/packets.h"

namespace nfsrdma::security {
namespace {

using Steady = std::chrono::steady_clock;
using std::chrono::milliseconds;

// How soon the helper looks again after workers that it has killed and that are still there.
constexpr milliseconds kShortly{100};

[[noreturn]] void work(Fd exchange, const FindCredentials& find, std::chrono::seconds limit) {
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, SIGALRM);
  signal(SIGALRM, SIG_DFL);
  sigprocmask(SIG_UNBLOCK, &only, nullptr);
  serve_exchange(exchange.get(), find, limit);
  _exit(0);
}

// Becomes readable when a worker has ended or stopped. Invalid: the kernel has no descriptor left.
Fd watch_children() {
  sigset_t children;
  sigemptyset(&children);
  sigaddset(&children, SIGCHLD);
  signal(SIGCHLD, SIG_DFL);
  sigprocmask(SIG_BLOCK, &children, nullptr);
  return Fd(signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK));
}

class Workers {
 public:
  Workers(int socket, const FindCredentials& find, const HelperOptions& options)
      : socket_(socket), find_(find), options_(options), signals_(watch_children()) {}

  // Waits for an exchange or for a worker. False: the daemon has closed its end.
  bool wait() {
    const bool room = waiting_.size() < options_.most_waiting;
    pollfd files[] = {{socket_, static_cast<short>(room ? POLLIN : 0), 0}, {signals_.get(), POLLIN, 0}};
    if (poll(files, std::size(files), patience()) <= 0) return true;
    signalfd_siginfo seen;
    while (files[1].revents != 0 && read(signals_.get(), &seen, sizeof seen) > 0) {
    }
    if ((files[0].revents & POLLHUP) != 0) return false;
    if ((files[0].revents & POLLIN) == 0) return true;
    Result<SentExchange> exchange = receive_exchange(socket_);
    if (exchange) {
      waiting_.push_back(*std::move(exchange));
      return true;
    }
    const int error = exchange.error().errnum;
    // The others pass (ENOMEM, ENFILE).
    if (error != ENOTCONN && error != EPROTO) std::this_thread::sleep_for(kShortly);
    return error != ENOTCONN;
  }

  void reap() {
    int status = 0;
    for (pid_t child; (child = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0;) {
      if (WIFSTOPPED(status)) {
        kill(child, SIGKILL);
      } else {
        std::erase_if(workers_, [child](const Worker& one) { return one.process == child; });
      }
    }
    for (const Worker& one : workers_) {
      if (Steady::now() >= one.end) kill(one.process, SIGKILL);
    }
  }

  void start() {
    for (auto it = waiting_.begin(); it != waiting_.end() && workers_.size() < options_.most_workers;) {
      if (workers_of(it->user) >= options_.most_of_a_user) {
        ++it;
        continue;
      }
      SentExchange next = std::move(*it);
      it = waiting_.erase(it);
      start(std::move(next));
    }
  }

 private:
  struct Worker {
    pid_t process;
    uint32_t user;
    Steady::time_point end;
  };

  unsigned workers_of(uint32_t user) const {
    return static_cast<unsigned>(
        std::ranges::count_if(workers_, [user](const Worker& one) { return one.user == user; }));
  }

  void start(SentExchange exchange) {
    const pid_t child = fork();
    if (child == 0) {
      // A worker has its own exchange and nothing of others.
      close(socket_);
      signals_.reset();
      waiting_.clear();
      work(std::move(exchange.socket), find_, options_.worker_limit);
    }
    // Without a worker the daemon's end is closed with ours, which is an error to it.
    if (child > 0) workers_.push_back({child, exchange.user, Steady::now() + options_.exchange_limit});
  }

  // For poll(2): until the first worker is overdue.
  int patience() const {
    if (workers_.empty()) return -1;
    const auto first = std::ranges::min(workers_, {}, &Worker::end).end;
    auto left = std::chrono::ceil<milliseconds>(first - Steady::now());
    if (!signals_) left = kShortly;
    return static_cast<int>(std::max(left, kShortly).count());
  }

  const int socket_;
  const FindCredentials& find_;
  const HelperOptions& options_;
  Fd signals_;
  std::vector<Worker> workers_;
  std::list<SentExchange> waiting_;
};

}  // namespace

void serve_helper(int socket, const FindCredentials& find, const HelperOptions& options) {
  Workers workers(socket, find, options);
  while (workers.wait()) {
    workers.reap();
    workers.start();
  }
}

}  // namespace nfsrdma::security
