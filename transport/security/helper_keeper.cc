// SPDX-License-Identifier: Apache-2.0
#include "transport/security/helper_keeper.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>

#include "transport/security/packets.h"

namespace nfsrdma::security {
namespace {

using namespace std::chrono_literals;
using std::chrono::seconds;
using Steady = std::chrono::steady_clock;

constexpr seconds kFirstPause{1}, kLongestPause{30};
// A helper that lived for this long worked.
constexpr seconds kLongEnough{60};

// Separates the keeper from the daemon's terminal, files and signals. `socket` becomes the only other file.
int live_alone(int socket) {
  setsid();
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, nullptr);
  signal(SIGCHLD, SIG_DFL);
  if (chdir("/") != 0) _exit(1);
  const int null = open("/dev/null", O_RDWR);
  if (null < 0) _exit(1);
  for (int fd = 0; fd < 3; ++fd) dup2(null, fd);
  constexpr int kSocket = 3;
  if (socket != kSocket && dup2(socket, kSocket) < 0) _exit(1);
  // With a file of the daemon's left open, the daemon's end of the socket perhaps, nobody would see its end.
  if (close_range(kSocket + 1, ~0U, 0) != 0) _exit(1);
  return kSocket;
}

// So that ps(1), and whoever looks for daemons by their command line, tells it from the daemon.
void take_a_name() {
  constexpr std::string_view kName = "nfsrdma-krb5";
  prctl(PR_SET_NAME, kName.data());
  const size_t room = std::strlen(program_invocation_name);  // argv[0]
  std::memset(program_invocation_name, 0, room);
  std::memcpy(program_invocation_name, kName.data(), std::min(room, kName.size()));
}

[[noreturn]] void keep_helper(int socket, const KeeperOptions& options) {
  socket = live_alone(socket);
  take_a_name();
  if (!options.give_up_rights()) _exit(1);
  for (seconds pause{0};;) {
    const auto began = Steady::now();
    const pid_t helper = fork();
    if (helper == 0) {
      serve_helper(socket, options.find, options.helper);
      _exit(0);
    }
    int status = 0;
    while (helper > 0 && waitpid(helper, &status, 0) < 0 && errno == EINTR) {
    }
    if (helper > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0) _exit(0);  // the daemon has ended
    pause = pause_after(pause, std::chrono::duration_cast<seconds>(Steady::now() - began));
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace

seconds pause_after(seconds last, seconds lived) {
  return last == 0s || lived >= kLongEnough ? kFirstPause : std::min(2 * last, kLongestPause);
}

Result<Fd> start_keeper(const KeeperOptions& options) {
  Result<std::pair<Fd, Fd>> pair = make_packet_pair(SOCK_NONBLOCK);
  if (!pair) return fail(std::move(pair.error()));
  // The child between us and the keeper ends at once, so the keeper becomes init's.
  const pid_t between = fork();
  if (between < 0) return fail(system_error(errno, "fork"));
  if (between == 0) {
    const pid_t keeper = fork();
    if (keeper == 0) {
      pair->first.reset();
      keep_helper(pair->second.get(), options);
    }
    _exit(keeper < 0 ? errno : 0);
  }
  int status = 0;
  while (waitpid(between, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return std::move(pair->first);
  return fail(system_error(WIFEXITED(status) ? WEXITSTATUS(status) : ECHILD, "fork"));
}

}  // namespace nfsrdma::security
