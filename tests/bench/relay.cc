#include "relay.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "loopback.h"

namespace {

// Smaller replies are cheaper through memory, as in the daemon.
constexpr size_t kMinSplicedBytes = 64u << 10;

struct Message {
  uint32_t read;
  uint32_t size;
};

bool receive(int socket, void* to, size_t size) {
  return ::recv(socket, to, size, MSG_WAITALL) == static_cast<ssize_t>(size);
}

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

// The filer: a READ is answered with bytes, a WRITE with nothing.
void serve(int socket, size_t max_io) {
  std::vector<char> memory(max_io, 'r');
  for (Message message{}; receive(socket, &message, sizeof(message));) {
    if (message.size > max_io) return;
    iovec part{memory.data(), message.size};
    if (message.read != 0 ? !send_all(socket, &part, 1) : !receive(socket, memory.data(), message.size))
      return;
  }
}

}  // namespace

std::unique_ptr<Relay> Relay::start(size_t max_io) {
  const int socket = start_far_end([max_io](int far) { serve(far, max_io); });
  return socket < 0 ? nullptr : std::unique_ptr<Relay>(new Relay(socket, max_io));
}

Relay::Relay(int socket, size_t max_io) : socket_(socket), memory_(max_io) {
  if (::pipe2(pipe_, O_CLOEXEC) == 0) ::fcntl(pipe_[0], F_SETPIPE_SZ, 1 << 20);
}

Relay::~Relay() {
  for (const int fd : {socket_, pipe_[0], pipe_[1]}) {
    if (fd >= 0) ::close(fd);
  }
}

void Relay::read(fuse_req_t req, uint64_t unique, size_t size) {
  Message message{1, static_cast<uint32_t>(size)};
  iovec part{&message, sizeof(message)};
  if (send_all(socket_, &part, 1)) {
    pending_.push_back({req, unique, size});
  } else {
    fuse_reply_err(req, EIO);
  }
}

void Relay::write(fuse_req_t req, const char* data, size_t size) {
  fuse_reply_write(req, size);
  Message message{0, static_cast<uint32_t>(size)};
  iovec parts[] = {{&message, sizeof(message)}, {const_cast<char*>(data), size}};
  send_all(socket_, parts, 2);
}

bool Relay::answer(int fuse) {
  if (pending_.empty()) return false;  // readable without a question: the far end is gone
  const Pending request = pending_.front();
  pending_.pop_front();
  if (request.size < kMinSplicedBytes) {
    if (!receive(socket_, memory_.data(), request.size)) return false;
    fuse_reply_buf(request.req, memory_.data(), request.size);
    return true;
  }
  const fuse_out_header header{static_cast<uint32_t>(sizeof(header) + request.size), 0, request.unique};
  if (::write(pipe_[1], &header, sizeof(header)) != sizeof(header)) return false;
  size_t spliced = 0;
  while (spliced < request.size) {
    const ssize_t n = ::splice(socket_, nullptr, pipe_[1], nullptr, request.size - spliced, SPLICE_F_MOVE);
    if (n <= 0) return false;
    spliced += static_cast<size_t>(n);
  }
  const bool replied = ::splice(pipe_[0], nullptr, fuse, nullptr, header.len, SPLICE_F_MOVE) == header.len;
  fuse_reply_none(request.req);  // frees what libfuse keeps of it
  return replied;
}
