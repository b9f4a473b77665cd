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

struct Readable {
  asio::posix::stream_descriptor& descriptor;
  bool ready = false;
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> h) {
    descriptor.async_wait(asio::posix::stream_descriptor::wait_read, [this, h](const asio::error_code& ec) {
      ready = !ec;
      h.resume();
    });
  }
  bool await_resume() const noexcept { return ready; }
};

}  // namespace

bool DeviceReader::make_room() {
  if (buffer_ && offset_ + kPage + kReadBytes <= buffer_->capacity()) return true;
  buffer_ = pool_.get(BufferPool::kMaxBytes);
  offset_ = 0;
  static_assert(kPage + kReadBytes <= BufferPool::kMaxBytes);
  return static_cast<bool>(buffer_);
}

DeviceReader::Outcome DeviceReader::serve_one(fuse_session* session) {
  if (!make_room()) return Outcome::kNoMemory;
  std::byte* at = position() + kPage - kWriteHeader;
  ssize_t n = 0;
  do {
    n = ::read(fuse_session_fd(session), at, kReadBytes);
    // ENOENT: the request went away while it was copied.
  } while (n < 0 && (errno == EINTR || errno == ENOENT));
  if (n < 0) {
    if (errno == EAGAIN) return Outcome::kEmpty;
    if (errno != ENODEV && errno != ECONNABORTED)
      log::error("fuse: reading /dev/fuse: {}", strerrordesc_np(errno));
    return Outcome::kEnded;
  }
  if (static_cast<size_t>(n) < sizeof(fuse_in_header)) {
    log::error("fuse: {} bytes from /dev/fuse, less than a header", n);
    return Outcome::kServed;
  }
  fuse_buf buf{};
  buf.size = static_cast<size_t>(n);
  buf.mem = at;
  kept_ = false;
  fuse_session_process_buf(session, &buf);
  if (kept_) offset_ = payload_end_;
  return Outcome::kServed;
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
    Outcome outcome = Outcome::kServed;
    for (int i = 0; i < kBatch && outcome == Outcome::kServed && !stopping_; ++i)
      outcome = serve_one(session);
    if (outcome == Outcome::kEnded) break;
    if (outcome == Outcome::kNoMemory) {
      Loop& loop = *Loop::current();
      co_await loop.sleep(std::chrono::milliseconds(20));
      continue;
    }
    if (stopping_) break;
    // After a full batch the wait ends at once, behind the loop's other work.
    Readable readable{descriptor_};
    co_await readable;
  }
  descriptor_.release();  // the session's to close
  buffer_.reset();
}

}  // namespace nfsrdma::fuse
