// SPDX-License-Identifier: Apache-2.0
// roundtrip: the time of one request and its reply over TCP on loopback, between two processes that do
// nothing else. Every client of a server in another process has to wait at least as long.
//
// usage: roundtrip --request BYTES --reply BYTES --count N
//
// Both ends wait in epoll, as a program with several event sources must, then receive and send. The far end
// is a child process, which inherits the processor affinity. The first calls are not counted. Prints one JSON
// object: operations, latencies.
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "loopback.h"

namespace {

constexpr size_t kNotCounted = 20;

// One end of the connection.
class End {
 public:
  explicit End(int socket) : socket_(socket), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    epoll_event event{};
    event.events = EPOLLIN;
    ready_ = epoll_ >= 0 && ::epoll_ctl(epoll_, EPOLL_CTL_ADD, socket_, &event) == 0;
  }
  End(const End&) = delete;
  End& operator=(const End&) = delete;
  ~End() {
    ::close(epoll_);
    ::close(socket_);
  }

  bool send(const std::vector<char>& message) {
    return ready_ && ::send(socket_, message.data(), message.size(), MSG_NOSIGNAL) ==
                         static_cast<ssize_t>(message.size());
  }
  // Receives the whole message, which may come in parts. False when the other end is gone.
  bool receive(std::vector<char>& message) {
    for (size_t done = 0; done < message.size();) {
      epoll_event event{};
      if (!ready_ || ::epoll_wait(epoll_, &event, 1, -1) != 1) return false;
      const ssize_t n = ::recv(socket_, message.data() + done, message.size() - done, 0);
      if (n <= 0) return false;
      done += static_cast<size_t>(n);
    }
    return true;
  }

 private:
  int socket_;
  int epoll_;
  bool ready_ = false;
};

struct Arguments {
  size_t request = 0, reply = 0, count = 0;
};

bool parse(int argc, char** argv, Arguments& out) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    size_t* const value = name == "--request" ? &out.request
                          : name == "--reply" ? &out.reply
                          : name == "--count" ? &out.count
                                              : nullptr;
    if (value == nullptr) return false;
    *value = std::strtoull(argv[i + 1], nullptr, 10);
  }
  return argc % 2 == 1 && out.request != 0 && out.reply != 0 && out.count != 0;
}

void answer(int socket, const Arguments& arguments) {
  End end(socket);
  std::vector<char> request(arguments.request), reply(arguments.reply, 'r');
  while (end.receive(request) && end.send(reply)) {
  }
}

// Microseconds of each counted call; fewer than requested if the far end ended early.
std::vector<double> ask(int socket, const Arguments& arguments) {
  using Clock = std::chrono::steady_clock;
  End end(socket);
  std::vector<char> request(arguments.request, 'q'), reply(arguments.reply);
  std::vector<double> taken;
  for (size_t i = 0; i < kNotCounted + arguments.count; ++i) {
    const Clock::time_point begin = Clock::now();
    if (!end.send(request) || !end.receive(reply)) break;
    if (i >= kNotCounted)
      taken.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  return taken;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  if (!parse(argc, argv, arguments)) {
    std::fprintf(stderr, "usage: roundtrip --request BYTES --reply BYTES --count N\n");
    return 2;
  }
  const int socket = start_far_end([&](int far) { answer(far, arguments); });
  if (socket < 0) {
    std::perror("roundtrip: no far end");
    return 1;
  }
  std::vector<double> taken = ask(socket, arguments);
  if (taken.size() != arguments.count) {
    std::fprintf(stderr, "roundtrip: the far end is gone\n");
    return 1;
  }
  std::sort(taken.begin(), taken.end());
  const auto at = [&](double share) {
    return taken[static_cast<size_t>(share * static_cast<double>(taken.size() - 1) + 0.5)];
  };
  std::printf("{\"operations\": %zu, \"p50_us\": %.1f, \"p99_us\": %.1f}\n", taken.size(), at(0.5), at(0.99));
  return 0;
}
