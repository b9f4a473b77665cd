// SPDX-License-Identifier: Apache-2.0
#include "fuse/device_reader.h"

#include <sys/uio.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <cerrno>
#include <cstring>

#include "transport/runtime/log.h"

namespace nfsrdma::fuse {

namespace {

template <class Buffers>
struct ReadSome {
  asio::posix::stream_descriptor& descriptor;
  Buffers to;
  asio::error_code error;
  size_t size = 0;
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> h) {
    descriptor.async_read_some(to, [this, h](const asio::error_code& ec, size_t n) {
      error = ec;
      size = n;
      h.resume();
    });
  }
  void await_resume() const noexcept {}
};

// Requests that are processed one after the other before the loop looks at its sockets again.
constexpr unsigned kAtOnce = 8;
// While requests come singly, only each kProbeEach-th is followed by a look for a further request.
constexpr unsigned kProbeEach = 16;

// ENOENT: the request was aborted while it was copied.
bool is_passing(int errnum) {
  return errnum == ENOENT || errnum == EINTR;
}

bool is_end(int errnum) {
  return errnum == ENODEV || errnum == ECONNABORTED;
}

}  // namespace

// new[] instead of std::make_unique, which would write to all of the memory.
DeviceReader::DeviceReader(Loop& loop, BufferPool& pool, size_t max_write, std::function<void()> refused)
    : loop_(loop),
      pool_(pool),
      max_write_(max_write),
      refused_(std::move(refused)),
      descriptor_(loop.context()),
      header_(new std::byte[kHeaderBytes + max_write]) {}

// If no Slice of the buffer is held any more, starts at its beginning again: that memory is in the
// processor's cache.
void DeviceReader::start_over() {
  if (buffer_ && buffer_.unique()) offset_ = 0;
}

bool DeviceReader::make_room() {
  static_assert(2 * kMaxWrite <= BufferPool::kMaxBytes);
  start_over();
  if (buffer_ && offset_ + max_write_ <= buffer_->capacity()) return true;
  buffer_ = {};
  buffer_ = pool_.get(2 * max_write_);
  offset_ = 0;
  return static_cast<bool>(buffer_);
}

// The buffer sequence that Asio evaluates when it reads, not when it begins to wait for the descriptor. By
// then the last payload may have been released, and its memory, which the processor's cache still holds,
// takes the next request.
class DeviceReader::Room {
 public:
  explicit Room(DeviceReader& reader) : reader_(&reader) {}
  Room(const Room&) = default;
  Room& operator=(const Room&) = default;

  const asio::mutable_buffer* begin() const {
    reader_->start_over();
    reader_->target_ = reader_->target();
    return reader_->target_.data();
  }
  const asio::mutable_buffer* end() const { return reader_->target_.data() + reader_->target_.size(); }

 private:
  DeviceReader* reader_;
};

std::array<asio::mutable_buffer, 2> DeviceReader::target() {
  return {asio::buffer(header_.get(), kHeaderBytes), asio::buffer(buffer_->data() + offset_, max_write_)};
}

void DeviceReader::process(fuse_session* session, size_t size) {
  fuse_in_header header;
  if (size < sizeof(header)) {
    log::error("fuse: {} bytes from /dev/fuse, less than a header", size);
    return;
  }
  std::memcpy(&header, header_.get(), sizeof(header));
  payload_bytes_ = size > kHeaderBytes ? size - kHeaderBytes : 0;
  kept_ = false;
  // libfuse reads only the bytes in front of a WRITE's payload and passes the payload's address to
  // op_write(). Every other request must be contiguous.
  if (header.opcode != FUSE_WRITE && payload_bytes_ != 0)
    std::memcpy(header_.get() + kHeaderBytes, buffer_->data() + offset_, payload_bytes_);
  fuse_buf buf{};
  buf.size = size;
  buf.mem = header_.get();
  fuse_session_process_buf(session, &buf);
  if (kept_) offset_ += (payload_bytes_ + kPage - 1) / kPage * kPage;
}

DeviceReader::Outcome DeviceReader::serve_one(fuse_session* session) {
  if (!make_room()) return Outcome::kNoMemory;
  std::array<iovec, 2> places{};
  std::ranges::transform(target(), places.begin(), [](const asio::mutable_buffer& b) {
    return iovec{b.data(), b.size()};
  });
  ssize_t n = 0;
  do {
    n = ::readv(fuse_session_fd(session), places.data(), static_cast<int>(places.size()));
  } while (n < 0 && is_passing(errno));
  if (n >= 0) {
    process(session, static_cast<size_t>(n));
    return Outcome::kServed;
  }
  if (errno == EAGAIN) return Outcome::kEmpty;
  if (!is_end(errno)) log::error("fuse: reading /dev/fuse: {}", strerrordesc_np(errno));
  return Outcome::kEnded;
}

void DeviceReader::serve_waiting(fuse_session* session) {
  if (!busy_ && ++alone_ % kProbeEach != 0) return;
  busy_ = true;
  for (unsigned i = 1; i < kAtOnce && busy_ && !stopping_; ++i)
    busy_ = serve_one(session) == Outcome::kServed;
}

Slice DeviceReader::take_payload(size_t size) {
  if (size > payload_bytes_) return {};
  const MutableBytes payload(buffer_->data() + offset_, size);
  if (size < kKeepPayload) {
    Slice copy = pool_.slice(size);
    if (copy.buffer) {
      std::ranges::copy(payload, copy.bytes.begin());
      return copy;
    }
  }
  kept_ = true;
  return {buffer_, payload};
}

void DeviceReader::stop() {
  stopping_ = true;
  if (descriptor_.is_open()) descriptor_.cancel();
}

Task<> DeviceReader::run(fuse_session* session) {
  descriptor_.assign(fuse_session_fd(session));
  while (!stopping_) {
    if (!make_room()) {
      refused_();
      co_await loop_.sleep(std::chrono::milliseconds(20));
      continue;
    }
    ReadSome<Room> reading{descriptor_, Room(*this), {}};
    co_await reading;
    const int errnum = reading.error.value();
    if (!reading.error) {
      const Loop::Turn turn(loop_);
      process(session, reading.size);
      serve_waiting(session);
    } else if (!is_passing(errnum)) {
      if (!is_end(errnum) && !stopping_) log::error("fuse: reading /dev/fuse: {}", reading.error.message());
      break;
    }
  }
  descriptor_.release();  // the session closes the descriptor
  buffer_.reset();
}

}  // namespace nfsrdma::fuse
