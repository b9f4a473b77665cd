// SPDX-License-Identifier: Apache-2.0
#include "transport/memory/pipe.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "transport/runtime/mutex.h"

namespace nfsrdma {
namespace {

// Not SPLICE_F_MOVE: a socket's pages cannot be moved, and kernels have had bugs in moving our pages into the
// page cache.
constexpr unsigned kFlags = SPLICE_F_NONBLOCK;

template <class Call>
ssize_t uninterrupted(Call call) {
  ssize_t n = 0;
  do {
    n = call();
  } while (n < 0 && errno == EINTR);
  return n;
}

}  // namespace

std::unique_ptr<Pipe> Pipe::create() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return nullptr;
  std::unique_ptr<Pipe> pipe(new Pipe(ends[0], ends[1]));
  const auto bytes = static_cast<int>(kSlots) * static_cast<int>(::sysconf(_SC_PAGESIZE));
  if (::fcntl(ends[1], F_SETPIPE_SZ, bytes) < 0) return nullptr;
  return pipe;
}

Pipe::~Pipe() {
  ::close(out_);
  ::close(in_);
}

bool Pipe::full() const {
  pollfd in{in_, POLLOUT, 0};
  return ::poll(&in, 1, 0) == 0;
}

ssize_t Pipe::fill(int from, size_t bytes) {
  const ssize_t n = uninterrupted([&] { return ::splice(from, nullptr, in_, nullptr, bytes, kFlags); });
  if (n > 0) size_ += static_cast<size_t>(n);
  return n;
}

ssize_t Pipe::fill(Pipe& from, size_t bytes) {
  const ssize_t n = fill(from.out_, bytes);
  if (n > 0) from.size_ -= static_cast<size_t>(n);
  return n;
}

ssize_t Pipe::write(ConstBytes bytes) {
  const ssize_t n = uninterrupted([&] { return ::write(in_, bytes.data(), bytes.size()); });
  if (n > 0) size_ += static_cast<size_t>(n);
  return n;
}

ssize_t Pipe::read(MutableBytes into) {
  const ssize_t n = uninterrupted([&] { return ::read(out_, into.data(), into.size()); });
  if (n > 0) size_ -= static_cast<size_t>(n);
  return n;
}

ssize_t Pipe::drain(int to, size_t bytes) {
  const ssize_t n = uninterrupted([&] { return ::splice(out_, nullptr, to, nullptr, bytes, kFlags); });
  if (n > 0) size_ -= static_cast<size_t>(n);
  return n;
}

void PipeReturn::operator()(Pipe* pipe) const {
  const int errnum = errno;  // set by the system call that used the pipe
  pool->put(pipe);
  errno = errnum;
}

PipeRef PipePool::get() {
  return get_of(kMaxPipes - kReserved);
}

PipeRef PipePool::get_reserved() {
  return get_of(kMaxPipes);
}

PipeRef PipePool::get_of(size_t most) {
  std::unique_ptr<Pipe> pipe;
  MutexLock lock(mutex_);
  if (lent_ < most && std::chrono::steady_clock::now() >= paused_until_) {
    if (!free_.empty()) {
      pipe = std::move(free_.back());
      free_.pop_back();
    } else {
      pipe = Pipe::create();
      if (!pipe) pause_locked();
    }
  }
  if (pipe) ++lent_;
  return PipeRef(pipe.release(), PipeReturn{this});
}

void PipePool::pause() {
  MutexLock lock(mutex_);
  pause_locked();
}

void PipePool::pause_locked() {
  paused_until_ = std::chrono::steady_clock::now() + next_pause_;
  next_pause_ = std::min(next_pause_ * 2, kLongestPause);
}

void PipePool::put(Pipe* returned) {
  std::unique_ptr<Pipe> pipe(returned);
  MutexLock lock(mutex_);
  --lent_;
  // A pipe that still contains data is closed.
  if (pipe->size() == 0) free_.push_back(std::move(pipe));
}

}  // namespace nfsrdma
