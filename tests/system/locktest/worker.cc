// SPDX-License-Identifier: Apache-2.0
#include "worker.h"

#include <poll.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace locktest {

namespace {

[[noreturn]] void die(const std::string& what) {
  std::fprintf(stderr, "locktest: %s: %s\n", what.c_str(), std::strerror(errno));
  std::exit(1);
}

struct flock as_flock(const Command& command) {
  struct flock lock {};
  lock.l_type = command.type;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(command.range.begin);
  lock.l_len = command.range.end == kToEof ? 0 : static_cast<off_t>(command.range.end - command.range.begin);
  return lock;
}

int flock_operation(const Command& command) {
  const int mode = command.type == F_UNLCK ? LOCK_UN : command.type == F_RDLCK ? LOCK_SH : LOCK_EX;
  return mode | (command.what == What::Flock ? LOCK_NB : 0);
}

// Adds 1 to the number in the file `count` times, each time under an exclusive lock on the whole file.
int increment(int fd, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    Command lock{What::SetWait, F_WRLCK, {}, 0};
    struct flock whole = as_flock(lock);
    if (fcntl(fd, F_SETLKW, &whole) != 0) return errno;
    char text[32] = {};
    if (pread(fd, text, sizeof(text) - 1, 0) < 0) return errno;
    const int length = std::snprintf(text, sizeof(text), "%ld\n", std::strtol(text, nullptr, 10) + 1);
    if (pwrite(fd, text, static_cast<size_t>(length), 0) != length) return errno;
    whole.l_type = F_UNLCK;
    if (fcntl(fd, F_SETLK, &whole) != 0) return errno;
  }
  return 0;
}

Answer perform(int fd, const std::string& path, const Command& command) {
  Answer answer;
  struct flock lock = as_flock(command);
  switch (command.what) {
    case What::Set:
    case What::SetWait:
      answer.error = fcntl(fd, command.what == What::Set ? F_SETLK : F_SETLKW, &lock) == 0 ? 0 : errno;
      break;
    case What::Get:
      answer.error = fcntl(fd, F_GETLK, &lock) == 0 ? 0 : errno;
      answer.type = lock.l_type;
      answer.range.begin = static_cast<uint64_t>(lock.l_start);
      answer.range.end = lock.l_len == 0 ? kToEof : answer.range.begin + static_cast<uint64_t>(lock.l_len);
      break;
    case What::Flock:
    case What::FlockWait: answer.error = flock(fd, flock_operation(command)) == 0 ? 0 : errno; break;
    case What::ReopenAndClose: {
      const int other = open(path.c_str(), O_RDWR | O_CLOEXEC);
      answer.error = other >= 0 && close(other) == 0 ? 0 : errno;
      break;
    }
    case What::Increment: answer.error = increment(fd, command.count); break;
  }
  return answer;
}

}  // namespace

void Worker::start() {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) die("socketpair");
  pid_ = fork();
  if (pid_ < 0) die("fork");
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(pair[0]);
    serve(pair[1]);
  }
  close(pair[1]);
  fd_ = pair[0];
}

void Worker::serve(int fd) {
  struct sigaction action {};
  action.sa_handler = [](int) {};
  sigaction(SIGUSR1, &action, nullptr);  // without SA_RESTART: a blocked lock call returns EINTR
  const int file = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) die("open " + path_);
  Command command;
  while (true) {
    const ssize_t count = recv(fd, &command, sizeof(command), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count != sizeof(command)) _exit(0);
    const Answer answer = perform(file, path_, command);
    if (send(fd, &answer, sizeof(answer), 0) != sizeof(answer)) _exit(1);
  }
}

void Worker::begin(const Command& command) {
  if (send(fd_, &command, sizeof(command), 0) != sizeof(command)) die("a worker is gone");
}

std::optional<Answer> Worker::finish(int timeout_ms) {
  pollfd pfd{fd_, POLLIN, 0};
  if (poll(&pfd, 1, timeout_ms) <= 0) return std::nullopt;
  Answer answer;
  if (recv(fd_, &answer, sizeof(answer), 0) != sizeof(answer)) die("a worker is gone");
  return answer;
}

Answer Worker::ask(const Command& command) {
  begin(command);
  const auto answer = finish(120000);
  if (!answer) {
    std::fprintf(stderr, "locktest: STUCK: no answer within 120 s\n");
    std::exit(3);
  }
  return *answer;
}

void Worker::interrupt() {
  kill(pid_, SIGUSR1);
}

void Worker::kill_now() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (fd_ >= 0) close(fd_);
  pid_ = fd_ = -1;
}

}  // namespace locktest
