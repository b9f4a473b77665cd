// SPDX-License-Identifier: Apache-2.0
#include "relay.h"

#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "loopback.h"

namespace {

struct Message {
  uint32_t read;
  uint32_t size;
};

bool send_data(int socket, char* data, size_t size, bool framed) {
  if (framed) {
    frames::Whole whole(data, size);
    return send_all(socket, whole.parts().data(), whole.parts().size());
  }
  iovec part{data, size};
  return send_all(socket, &part, 1);
}

// The server: answers a READ with bytes, and a WRITE not at all.
void serve(int socket, size_t max_io, bool framed) {
  std::vector<char> memory(max_io, 'r');
  for (Message message{}; receive_all(socket, &message, sizeof(message));) {
    if (message.size > max_io) return;
    if (message.read != 0 ? !send_data(socket, memory.data(), message.size, framed)
                          : !receive_all(socket, memory.data(), message.size))
      return;
  }
}

}  // namespace

std::unique_ptr<Relay> Relay::start(size_t max_io, bool framed) {
  const int socket = start_far_end([=](int far) { serve(far, max_io, framed); });
  return socket < 0 ? nullptr : std::unique_ptr<Relay>(new Relay(socket, max_io, framed));
}

Relay::Relay(int socket, size_t max_io, bool framed) : socket_(socket), framed_(framed), memory_(max_io) {}

Relay::~Relay() {
  ::close(socket_);
  for (const int fd : raw_) {
    if (fd >= 0) ::close(fd);
  }
}

void Relay::read(fuse_req_t req, size_t size) {
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

bool Relay::answer() {
  if (pending_.empty()) return false;  // readable although no READ waits: the far end is gone
  const Pending request = pending_.front();
  pending_.pop_front();
  return request.size < kMinSplicedBytes ? copy(request) : splice(request);
}

bool Relay::copy(const Pending& request) {
  if (!(framed_ ? receive_frames(request.size) : receive_all(socket_, memory_.data(), request.size)))
    return false;
  fuse_reply_buf(request.req, memory_.data(), request.size);
  return true;
}

bool Relay::receive_frames(size_t size) {
  frames::Whole whole(memory_.data(), size);
  msghdr message{};
  message.msg_iov = whole.parts().data();
  message.msg_iovlen = whole.parts().size();
  return ::recvmsg(socket_, &message, MSG_WAITALL) == static_cast<ssize_t>(whole.size()) &&
         whole.as_expected();
}

bool Relay::splice(const Pending& request) {
  return piped_.begin(request.unique, request.size) &&
         (framed_ ? splice_frames(request.size) : piped_.add(socket_, request.size)) &&
         piped_.end(fuse, request.req);
}

// Moves all frames, each of the expected size, into a separate pipe, and there separates the data from the
// words around it.
bool Relay::splice_frames(size_t size) {
  frames::Whole whole(memory_.data(), size);
  Inflow inflow(whole.size());
  while (inflow.left() != 0) {
    if (inflow.some(socket_, raw_[1]) <= 0) return false;
  }
  inflow.end(socket_);
  bool words = true;  // words come first and last
  for (const iovec& part : whole.parts()) {
    if (words ? ::read(raw_[0], part.iov_base, part.iov_len) != static_cast<ssize_t>(part.iov_len)
              : !piped_.move(raw_[0], part.iov_len))
      return false;
    words = !words;
  }
  return whole.as_expected();
}
