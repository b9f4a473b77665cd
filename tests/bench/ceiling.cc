// SPDX-License-Identifier: Apache-2.0
#include "ceiling.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

namespace {
constexpr int kPipeBytes = 1 << 20;
constexpr size_t kLowWater = 256u << 10;

}  // namespace

bool send_all(int socket, iovec* parts, size_t count) {
  while (count != 0) {
    const ssize_t sent = ::writev(socket, parts, static_cast<int>(count));
    if (sent < 0) return false;
    step_over(parts, count, static_cast<size_t>(sent));
  }
  return true;
}

void step_over(iovec*& parts, size_t& count, size_t bytes) {
  for (; count != 0 && bytes >= parts->iov_len; ++parts, --count) bytes -= parts->iov_len;
  if (count == 0) return;
  parts->iov_base = static_cast<char*>(parts->iov_base) + bytes;
  parts->iov_len -= bytes;
}

bool receive_all(int socket, void* to, size_t size) {
  return ::recv(socket, to, size, MSG_WAITALL) == static_cast<ssize_t>(size);
}

void Inflow::set_low_water(int socket, size_t bytes) {
  if (bytes == low_water_) return;
  const int wanted = static_cast<int>(bytes);
  ::setsockopt(socket, SOL_SOCKET, SO_RCVLOWAT, &wanted, sizeof(wanted));
  low_water_ = bytes;
}

// SPLICE_F_NONBLOCK applies to the pipe only.
ssize_t Inflow::some(int socket, int pipe) {
  if (begun_) {
    set_low_water(socket, std::min(left_, kLowWater));
    pollfd ready{socket, POLLIN, 0};
    ::poll(&ready, 1, -1);
  }
  begun_ = true;
  const ssize_t n = ::splice(socket, nullptr, pipe, nullptr, left_, SPLICE_F_NONBLOCK);
  if (n > 0) left_ -= static_cast<size_t>(n);
  return n;
}

std::array<int, 2> make_pipe() {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0 || ::fcntl(ends[0], F_SETPIPE_SZ, kPipeBytes) < kPipeBytes)
    std::perror("no pipe of 1 MiB, large reads are slower");
  return ends;
}

PipedReply::~PipedReply() {
  for (const int fd : pipe_) {
    if (fd >= 0) ::close(fd);
  }
}

bool PipedReply::begin(uint64_t unique, size_t size) {
  const fuse_out_header header{static_cast<uint32_t>(sizeof(header) + size), 0, unique};
  size_ = header.len;
  piped_ = sizeof(header);
  return ::write(pipe_[1], &header, sizeof(header)) == sizeof(header);
}

bool PipedReply::add(int socket, size_t size) {
  Inflow inflow(size);
  while (inflow.left() != 0 && landed_.empty()) {
    const ssize_t n = inflow.some(socket, pipe_[1]);
    if (n > 0) {
      piped_ += static_cast<size_t>(n);
    } else if (n == 0 || errno != EAGAIN || !land()) {
      return false;
    }
  }
  inflow.end(socket);
  if (inflow.left() == 0) return true;
  const size_t before = landed_.size();
  landed_.resize(before + inflow.left());
  return receive_all(socket, landed_.data() + before, inflow.left());
}

bool PipedReply::move(int pipe, size_t size) {
  piped_ += size;
  return ::splice(pipe, nullptr, pipe_[1], nullptr, size, SPLICE_F_NONBLOCK) == static_cast<ssize_t>(size);
}

// Called when the pipe has no slot left: the data arrived in more fragments than it has slots. A reply must
// be one splice or one write, so all of it moves to memory.
bool PipedReply::land() {
  landed_.reserve(size_);
  landed_.resize(std::exchange(piped_, 0));
  return ::read(pipe_[0], landed_.data(), landed_.size()) == static_cast<ssize_t>(landed_.size());
}

bool PipedReply::end(int fuse, fuse_req_t req) {
  const ssize_t n = landed_.empty() ? ::splice(pipe_[0], nullptr, fuse, nullptr, size_, 0)
                                    : ::write(fuse, landed_.data(), landed_.size());
  landed_.clear();
  fuse_reply_none(req);  // frees libfuse's state of the request
  return n == static_cast<ssize_t>(size_);
}

void negotiate(fuse_conn_info* conn, uint32_t max_io) {
  conn->max_write = conn->max_read = max_io;
  conn->max_background = 256;
  conn->congestion_threshold = 192;
  conn->want = conn->capable & (FUSE_CAP_ASYNC_READ | FUSE_CAP_ASYNC_DIO | FUSE_CAP_PARALLEL_DIROPS |
                                FUSE_CAP_HANDLE_KILLPRIV);
}

void spare_flush(fuse_file_info* info) {
  info->noflush = (info->flags & O_ACCMODE) == O_RDONLY;
}

namespace {

constexpr int kIdleMs = 10'000;

// libfuse 3.14 omits two flags in its INIT reply, which is the first reply written.
ssize_t write_reply(int fd, iovec* pieces, int count, void*) {
  static bool first = true;
  if (std::exchange(first, false) && count == 2 && pieces[1].iov_len >= sizeof(fuse_init_out)) {
    static_cast<fuse_init_out*>(pieces[1].iov_base)->flags |= FUSE_PARALLEL_DIROPS | FUSE_HANDLE_KILLPRIV;
  }
  return ::writev(fd, pieces, count);
}

ssize_t read_request(int fd, void* to, size_t size, void*) {
  return ::read(fd, to, size);
}

bool answer_init_ourselves(fuse_session* session) {
  fuse_custom_io io{};
  io.writev = write_reply;
  io.read = read_request;
  return fuse_session_custom_io(session, &io, fuse_session_fd(session)) == 0;
}

// Like fuse_session_loop(), but also handles the far end's answers. Requests go first, so that the far end
// works on the next one while this process passes on an answer.
int loop(FarEnd& far_end, fuse_session* session) {
  fuse_buf& buffer = far_end.handled;
  far_end.fuse = fuse_session_fd(session);
  pollfd ready[] = {{far_end.fuse, POLLIN, 0}, {far_end.socket(), POLLIN, 0}};
  bool working = true;
  while (working && !fuse_session_exited(session)) {
    const int count = ::poll(ready, 2, kIdleMs);
    if (count < 0) break;
    if (count == 0) {
      far_end.idle();
    } else if (ready[0].revents != 0) {
      working = fuse_session_receive_buf(session, &buffer) > 0;
      if (!working) break;
      far_end.unique = static_cast<const fuse_in_header*>(buffer.mem)->unique;
      fuse_session_process_buf(session, &buffer);
    } else if (ready[1].revents != 0) {
      working = far_end.answer();
    }
  }
  std::free(std::exchange(buffer.mem, nullptr));
  return working || fuse_session_exited(session) ? 0 : 1;
}

}  // namespace

int serve(const fuse_lowlevel_ops& ops, void* userdata, FarEnd* far_end, const char* options,
          const char* mountpoint) {
  char name[] = "ceiling";
  char opt[] = "-o";
  std::string mount_options = options;
  char* argv[] = {name, opt, mount_options.data(), nullptr};
  fuse_args args = FUSE_ARGS_INIT(3, argv);
  fuse_session* session = fuse_session_new(&args, &ops, sizeof(ops), userdata);
  if (session == nullptr) return 1;
  int result = 1;
  if (fuse_set_signal_handlers(session) == 0) {
    if (fuse_session_mount(session, mountpoint) == 0 && answer_init_ourselves(session)) {
      result = far_end != nullptr ? loop(*far_end, session) : fuse_session_loop(session) == 0 ? 0 : 1;
      fuse_session_unmount(session);
    }
    fuse_remove_signal_handlers(session);
  }
  fuse_session_destroy(session);
  fuse_opt_free_args(&args);
  return result;
}
