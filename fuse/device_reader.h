// DeviceReader: reads one loop's share of /dev/fuse, in memory that a WRITE's payload can be sent from.
//
// Every loop reads the same session descriptor and takes what it finds; EAGAIN means another loop was faster.
// (A descriptor per loop, FUSE_DEV_IOC_CLONE, has its own list of unanswered requests in the kernel, so a
// reply must go out where the request came in; libfuse 3.14 has no public interface for that, and one list's
// lock costs nothing next to the copy of a request.) Reads go through Asio, which tries first and then waits
// for the descriptor's next edge: four system calls per request with one waiting application (epoll_wait,
// read, writev, read = EAGAIN), where re-arming a wait each time takes five.
//
// A request is read so that a WRITE's payload starts on a page boundary: the kernel then copies whole pages,
// and registered memory sees aligned addresses. Buffers are 2 MiB of the pool. A payload of kKeepPayload
// bytes or more stays where it is and becomes a Slice of the buffer; the next request is read behind it while
// there is room for the largest one, so that a buffer holds many medium-sized writes instead of one. Smaller
// payloads are copied to a buffer of their own size, since the Filesystem may keep them for long.
//
// Owner: FuseMount, one per loop; loop thread only.
#pragma once

#include <fuse_lowlevel.h>

#include <asio/buffer.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <functional>

#include "transport/memory/buffer.h"
#include "transport/runtime/loop.h"
#include "transport/runtime/task.h"

namespace nfsrdma::fuse {

class DeviceReader {
 public:
  static constexpr size_t kMaxWrite = 1u << 20;
  static constexpr size_t kPage = 4096;
  static constexpr size_t kKeepPayload = 32u << 10;

  DeviceReader(Loop& loop, BufferPool& pool) : pool_(pool), descriptor_(loop.context()) {}

  // Until the connection ends or stop(). The session outlives it; its descriptor is non-blocking.
  Task<> run(fuse_session* session);
  void stop();

  // While a WRITE of this reader's is being processed: its payload as memory that may be kept. Empty buffer:
  // no memory.
  Slice take_payload(const char* data, size_t size);

  // Reads and processes one request now. For the handshake, and for run().
  enum class Outcome { kServed, kEmpty, kNoMemory, kEnded };
  Outcome serve_one(fuse_session* session);

 private:
  static constexpr size_t kReadBytes = kPage + kMaxWrite + kPage;
  static const size_t kHeaderOffset;
  bool make_room();
  // Where the next request is read to.
  std::byte* target() { return buffer_->data() + offset_ + kHeaderOffset; }
  // The first `size` bytes there are a request.
  void process(fuse_session* session, size_t size);

  BufferPool& pool_;
  asio::posix::stream_descriptor descriptor_;
  BufferRef buffer_;
  size_t offset_ = 0;       // page-aligned: where the page of the next request's header starts
  bool kept_ = false;       // the payload being processed was handed out
  size_t payload_end_ = 0;  // of the payload handed out
  bool stopping_ = false;
};

}  // namespace nfsrdma::fuse
