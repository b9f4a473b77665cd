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

// The filer: a READ is answered with bytes, a WRITE with nothing.
void serve(int socket, size_t max_io) {
  std::vector<char> memory(max_io, 'r');
  for (Message message{}; receive_all(socket, &message, sizeof(message));) {
    if (message.size > max_io) return;
    iovec part{memory.data(), message.size};
    if (message.read != 0 ? !send_all(socket, &part, 1) : !receive_all(socket, memory.data(), message.size))
      return;
  }
}

}  // namespace

std::unique_ptr<Relay> Relay::start(size_t max_io) {
  const int socket = start_far_end([max_io](int far) { serve(far, max_io); });
  return socket < 0 ? nullptr : std::unique_ptr<Relay>(new Relay(socket, max_io));
}

Relay::Relay(int socket, size_t max_io) : socket_(socket), memory_(max_io) {}

Relay::~Relay() {
  ::close(socket_);
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
  if (pending_.empty()) return false;  // readable without a question: the far end is gone
  const Pending request = pending_.front();
  pending_.pop_front();
  if (request.size < kMinSplicedBytes) {
    if (!receive_all(socket_, memory_.data(), request.size)) return false;
    fuse_reply_buf(request.req, memory_.data(), request.size);
    return true;
  }
  return piped_.begin(request.unique, request.size) && piped_.add(socket_, request.size) &&
         piped_.end(fuse, request.req);
}
