#include "ceiling.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

bool send_all(int socket, iovec* parts, size_t count) {
  while (count != 0) {
    ssize_t sent = ::writev(socket, parts, static_cast<int>(count));
    if (sent < 0) return false;
    for (; count != 0 && static_cast<size_t>(sent) >= parts->iov_len; ++parts, --count) {
      sent -= static_cast<ssize_t>(parts->iov_len);
    }
    if (count != 0) {
      parts->iov_base = static_cast<char*>(parts->iov_base) + sent;
      parts->iov_len -= static_cast<size_t>(sent);
    }
  }
  return true;
}

bool receive_all(int socket, void* to, size_t size) {
  return ::recv(socket, to, size, MSG_WAITALL) == static_cast<ssize_t>(size);
}

PipedReply::PipedReply() {
  if (::pipe2(pipe_, O_CLOEXEC) == 0) ::fcntl(pipe_[0], F_SETPIPE_SZ, 1 << 20);
}

PipedReply::~PipedReply() {
  for (const int fd : pipe_) {
    if (fd >= 0) ::close(fd);
  }
}

bool PipedReply::pass_on(int socket, int fuse, fuse_req_t req, uint64_t unique, size_t size) {
  const fuse_out_header header{static_cast<uint32_t>(sizeof(header) + size), 0, unique};
  if (::write(pipe_[1], &header, sizeof(header)) != sizeof(header)) return false;
  for (size_t spliced = 0; spliced < size;) {
    const ssize_t n = ::splice(socket, nullptr, pipe_[1], nullptr, size - spliced, SPLICE_F_MOVE);
    if (n <= 0) return false;
    spliced += static_cast<size_t>(n);
  }
  const bool replied = ::splice(pipe_[0], nullptr, fuse, nullptr, header.len, SPLICE_F_MOVE) == header.len;
  fuse_reply_none(req);  // frees what libfuse keeps of it
  return replied;
}

namespace {

constexpr int kIdleMs = 10'000;

// What fuse_session_loop() does, with the far end's answers beside the kernel's requests. Requests go first:
// the far end works on the next one while this process passes on an answer.
int loop(FarEnd& far_end, fuse_session* session) {
  fuse_buf buffer{};
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
  std::free(buffer.mem);
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
    if (fuse_session_mount(session, mountpoint) == 0) {
      result = far_end != nullptr ? loop(*far_end, session) : fuse_session_loop(session) == 0 ? 0 : 1;
      fuse_session_unmount(session);
    }
    fuse_remove_signal_handlers(session);
  }
  fuse_session_destroy(session);
  fuse_opt_free_args(&args);
  return result;
}
