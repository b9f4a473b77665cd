#include "fuse/device_reader.h"

#include <linux/fuse.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "transport/runtime/log.h"

namespace nfsrdma::fuse {

namespace {

constexpr size_t kWriteHeader = sizeof(fuse_in_header) + sizeof(fuse_write_in);
static_assert(kWriteHeader < DeviceReader::kPage);

struct ReadSome {
  asio::posix::stream_descriptor& descriptor;
  asio::mutable_buffer to;
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

// ENOENT: the request went away while it was copied.
bool is_passing(int errnum) {
  return errnum == ENOENT || errnum == EINTR;
}

bool is_end(int errnum) {
  return errnum == ENODEV || errnum == ECONNABORTED;
}

}  // namespace

const size_t DeviceReader::kHeaderOffset = kPage - kWriteHeader;

bool DeviceReader::make_room() {
  static_assert(kPage + kReadBytes <= BufferPool::kMaxBytes);
  // Nobody kept what was handed out: the memory is still in the processor's cache.
  if (buffer_ && buffer_.unique()) offset_ = 0;
  if (buffer_ && offset_ + kPage + kReadBytes <= buffer_->capacity()) return true;
  buffer_ = pool_.get(BufferPool::kMaxBytes);
  offset_ = 0;
  return static_cast<bool>(buffer_);
}

void DeviceReader::process(fuse_session* session, size_t size) {
  if (size < sizeof(fuse_in_header)) {
    log::error("fuse: {} bytes from /dev/fuse, less than a header", size);
    return;
  }
  fuse_buf buf{};
  buf.size = size;
  buf.mem = target();
  kept_ = false;
  fuse_session_process_buf(session, &buf);
  if (kept_) offset_ = payload_end_;
}

DeviceReader::Outcome DeviceReader::serve_one(fuse_session* session) {
  if (!make_room()) return Outcome::kNoMemory;
  ssize_t n = 0;
  do {
    n = ::read(fuse_session_fd(session), target(), kReadBytes);
  } while (n < 0 && is_passing(errno));
  if (n >= 0) {
    process(session, static_cast<size_t>(n));
    return Outcome::kServed;
  }
  if (errno == EAGAIN) return Outcome::kEmpty;
  if (!is_end(errno)) log::error("fuse: reading /dev/fuse: {}", strerrordesc_np(errno));
  return Outcome::kEnded;
}

Slice DeviceReader::take_payload(const char* data, size_t size) {
  auto* start = reinterpret_cast<std::byte*>(const_cast<char*>(data));
  if (size < kKeepPayload) {
    Slice copy = pool_.slice(size);
    if (copy.buffer) std::memcpy(copy.bytes.data(), start, size);
    return copy;
  }
  kept_ = true;
  const auto end = static_cast<size_t>(start - buffer_->data()) + size;
  payload_end_ = (end + kPage - 1) / kPage * kPage;
  return {buffer_, MutableBytes(start, size)};
}

void DeviceReader::stop() {
  stopping_ = true;
  if (descriptor_.is_open()) descriptor_.cancel();
}

Task<> DeviceReader::run(fuse_session* session) {
  descriptor_.assign(fuse_session_fd(session));
  while (!stopping_) {
    if (!make_room()) {
      Loop& loop = *Loop::current();
      co_await loop.sleep(std::chrono::milliseconds(20));
      continue;
    }
    ReadSome reading{descriptor_, asio::buffer(target(), kReadBytes), {}};
    co_await reading;
    const int errnum = reading.error.value();
    if (!reading.error) {
      process(session, reading.size);
    } else if (!is_passing(errnum)) {
      if (!is_end(errnum) && !stopping_) log::error("fuse: reading /dev/fuse: {}", reading.error.message());
      break;
    }
  }
  descriptor_.release();  // the session's to close
  buffer_.reset();
}

}  // namespace nfsrdma::fuse
