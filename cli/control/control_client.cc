// SPDX-License-Identifier: Apache-2.0
#include "cli/control/control_client.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cli/control/control_path.h"

namespace nfsrdma::cli {
namespace {

tl::unexpected<Failure> failed(std::string text) {
  return refuse(ToolExit::kFailed, std::move(text));
}

tl::unexpected<Failure> timed_out() {
  return failed("the daemon does not answer");
}

// Milliseconds for poll(2): -1 for no limit, 0 if the deadline has passed.
int time_left(const Deadline& deadline) {
  if (!deadline) return -1;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(*deadline - std::chrono::steady_clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
}

Fd local_socket() {
  return Fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// True when `fd` is ready, false when the deadline has passed.
bool wait_ready(int fd, short events, const Deadline& deadline) {
  while (true) {
    pollfd entry{fd, events, 0};
    const int timeout = time_left(deadline);
    const int n = poll(&entry, 1, timeout);
    if (n > 0) return true;
    if (n < 0 && errno != EINTR) return true;  // the next system call reports it
    if (n == 0 && time_left(deadline) == 0) return false;
  }
}

}  // namespace

Outcome<ControlClient> ControlClient::connect(const std::string& path, uid_t owner, Deadline deadline) {
  const std::optional<sockaddr_un> address = control_address(path);
  if (!address) return failed("there is no control socket");
  Fd fd = local_socket();
  if (!fd) return failed(fmt::format("socket: {}", std::strerror(errno)));
  // EAGAIN: the daemon's backlog is full. poll(2) cannot wait for room in it.
  while (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0) {
    if (errno == EAGAIN && time_left(deadline) != 0) {
      poll(nullptr, 0, 10);
    } else if (errno == EAGAIN) {
      return timed_out();
    } else if (errno != EINTR) {
      return failed(fmt::format("{}: {}", path, std::strerror(errno)));
    }
  }
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return failed(fmt::format("{}: {}", path, std::strerror(errno)));
  }
  if (peer.uid != 0 && peer.uid != owner) {
    return failed(fmt::format("{}: belongs to user {}, not to the mount's", path, peer.uid));
  }
  return ControlClient(std::move(fd), peer.pid);
}

Outcome<> ControlClient::send(const Json& request, Deadline deadline) {
  const std::string line = encode_line(request);
  size_t sent = 0;
  while (sent < line.size()) {
    const ssize_t n = ::send(fd_.get(), line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (n >= 0) {
      sent += static_cast<size_t>(n);
    } else if (errno == EAGAIN) {
      if (!wait_ready(fd_.get(), POLLOUT, deadline)) return timed_out();
    } else if (errno != EINTR) {
      return failed(fmt::format("the daemon hung up: {}", std::strerror(errno)));
    }
  }
  return {};
}

Outcome<> ControlClient::wait_until_heard(Deadline deadline) {
  if (auto line = next_line(deadline); !line) return tl::unexpected(std::move(line).error());
  return {};
}

Outcome<Json> ControlClient::receive(Deadline deadline) {
  while (true) {
    const auto size = next_line(deadline);
    if (!size) return tl::unexpected(size.error());
    const std::string line = in_.substr(0, *size);
    if (!is_later_notice(line)) return decode_response(line);
    in_.erase(0, *size + 1);
  }
}

Outcome<size_t> ControlClient::next_line(Deadline deadline) {
  char buffer[16384];
  size_t searched = 0;
  while (true) {
    if (const size_t end = in_.find('\n', searched); end != std::string::npos) return end;
    searched = in_.size();
    if (in_.size() > kMaxResponseBytes) return failed("the daemon's answer is too long");
    const ssize_t n = recv(fd_.get(), buffer, sizeof buffer, 0);
    if (n > 0) {
      in_.append(buffer, static_cast<size_t>(n));
    } else if (n == 0) {
      return failed("the daemon hung up");
    } else if (errno == EAGAIN) {
      if (!wait_ready(fd_.get(), POLLIN, deadline)) return timed_out();
    } else if (errno != EINTR) {
      return failed(fmt::format("the daemon hung up: {}", std::strerror(errno)));
    }
  }
}

Outcome<Json> ControlClient::ask(const Json& request, Deadline deadline) {
  if (auto sent = send(request, deadline); !sent) return tl::unexpected(std::move(sent).error());
  return receive(deadline);
}

bool is_abandoned(const std::string& path) {
  const std::optional<sockaddr_un> address = control_address(path);
  const Fd fd = local_socket();
  return address && fd &&
         ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0 &&
         errno == ECONNREFUSED;
}

bool wait_for_exit(pid_t pid, Deadline deadline) {
  if (pid <= 0) return true;
  const Fd fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!fd) return true;
  return wait_ready(fd.get(), POLLIN, deadline);
}

}  // namespace nfsrdma::cli
