#include "transport/memory/pipe.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>

namespace nfsrdma {
namespace {

constexpr int kPageBytes = 4096;
constexpr unsigned kFlags = SPLICE_F_NONBLOCK | SPLICE_F_MOVE;

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
  if (::fcntl(ends[1], F_SETPIPE_SZ, static_cast<int>(kSlots) * kPageBytes) < 0) return nullptr;
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

bool Pipe::clear() {
  std::array<std::byte, 16384> scratch;
  while (size_ > 0) {
    if (read(scratch) <= 0) return false;
  }
  return true;
}

void PipeReturn::operator()(Pipe* pipe) const {
  pool->put(pipe);
}

PipeRef PipePool::get() {
  std::lock_guard lock(mutex_);
  if (!free_.empty()) {
    PipeRef pipe(free_.back().release(), PipeReturn{this});
    free_.pop_back();
    return pipe;
  }
  if (refused_ || made_ == kMaxPipes) return PipeRef(nullptr, PipeReturn{this});
  std::unique_ptr<Pipe> pipe = Pipe::create();
  refused_ = pipe == nullptr;
  if (pipe) ++made_;
  return PipeRef(pipe.release(), PipeReturn{this});
}

void PipePool::put(Pipe* returned) {
  std::unique_ptr<Pipe> pipe(returned);
  std::lock_guard lock(mutex_);
  // What is left in it is of no use to anybody.
  if (pipe->size() == 0) return free_.push_back(std::move(pipe));
  --made_;
}

}  // namespace nfsrdma
