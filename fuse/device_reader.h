// SPDX-License-Identifier: Apache-2.0
// DeviceReader: reads one loop's share of the requests from /dev/fuse, into memory from which a WRITE's
// payload can be sent.
//
// All loops read the same session descriptor, and each takes what it finds; EAGAIN means that another loop
// was faster. (A descriptor per loop, FUSE_DEV_IOC_CLONE, would have its own list of unanswered requests in
// the kernel, so each reply would have to go to the descriptor that its request came from. libfuse 3.14 has
// no public interface for that, and the lock of one shared list costs nothing next to the copy of a request.)
// Reads go through Asio, which tries first and then waits for the descriptor's next edge. With one waiting
// application that is four system calls per request (epoll_wait, readv, writev, readv = EAGAIN); five would
// be needed if the wait were set up again each time. While requests queue up, up to eight are read one after
// the other. That is three system calls each instead of four, and the RPC calls that they cause leave in one
// send. (Measured with nfs-ganesha on loopback, 2026-11-25: 16 small files at once 1.10 of the throughput at
// 0.88 of the CPU; 32 random reads 1.08 and 0.91; one at a time unchanged.)
//
// A request is read into two places. The bytes in front of a WRITE's payload go to the header, the rest to a
// page boundary of a 2 MiB buffer of the pool: the kernel then copies whole pages, registered memory gets
// aligned addresses, and a buffer holds two of the largest payloads. A payload of kKeepPayload bytes or more
// stays where it is and becomes a Slice of the buffer. The next request is read behind it, or in its place if
// no Slice is held any more, because that memory is still in the processor's cache. Smaller payloads are
// copied to a buffer of their own size, since the Filesystem may keep them for long. A request that is not a
// WRITE is made contiguous again.
//
// Owner: FuseMount, one per loop; loop thread only.
#pragma once

#include <fuse_lowlevel.h>
#include <linux/fuse.h>

#include <array>
#include <asio/buffer.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>

#include "transport/memory/buffer.h"
#include "transport/runtime/loop.h"
#include "transport/runtime/task.h"

namespace nfsrdma::fuse {

class DeviceReader {
 public:
  // The largest payload of a WRITE. With 512 KiB, O_DIRECT writes of 1 MiB had 1.27 of this throughput at
  // 0.76 of the CPU if the server's stable storage was memory (docs/adr/0030-one-write-of-1-mib.md). But on a
  // disk the server would make each half stable by itself, and one after the other with O_SYNC and where the
  // file grows.
  static constexpr size_t kMaxWrite = 1u << 20;
  static constexpr size_t kPage = 4096;
  static constexpr size_t kKeepPayload = 32u << 10;

  // `max_write`: bytes, as the handshake agreed. `refused`: called when there is no memory for the next
  // request.
  DeviceReader(Loop& loop, BufferPool& pool, size_t max_write, std::function<void()> refused);

  // Reads until the connection ends or stop() is called. `session` must outlive it; its descriptor is
  // non-blocking.
  Task<> run(fuse_session* session);
  void stop();

  // Call it while a WRITE of this reader is being processed: returns its first `size` bytes as memory that
  // may be kept, whatever address libfuse names. Returns an empty buffer when there is no memory or `size` is
  // more than the payload.
  Slice take_payload(size_t size);

  // Reads and processes one request now. For the handshake, and for run().
  enum class Outcome { kServed, kEmpty, kNoMemory, kEnded };
  Outcome serve_one(fuse_session* session);

 private:
  static constexpr size_t kHeaderBytes = sizeof(fuse_in_header) + sizeof(fuse_write_in);
  class Room;
  // Reads more requests if the last look found one, so that the calls they cause are sent together.
  void serve_waiting(fuse_session* session);
  void start_over();
  bool make_room();
  // The memory for the next request.
  std::array<asio::mutable_buffer, 2> target();
  // Processes the request in the first `size` bytes of target().
  void process(fuse_session* session, size_t size);

  Loop& loop_;
  BufferPool& pool_;
  const size_t max_write_;
  const std::function<void()> refused_;
  asio::posix::stream_descriptor descriptor_;
  BufferRef buffer_;
  std::array<asio::mutable_buffer, 2> target_;  // what Asio was given
  size_t offset_ = 0;                           // page-aligned: where the next payload goes
  size_t payload_bytes_ = 0;                    // of the request being processed
  bool kept_ = false;                           // take_payload() handed it out
  // kHeaderBytes + max_write_, so that every request fits in one piece. Few of its pages are ever touched.
  const std::unique_ptr<std::byte[]> header_;
  bool busy_ = false;   // the last look for a further request found one
  unsigned alone_ = 0;  // requests that were processed while busy_ was false
  bool stopping_ = false;
};

}  // namespace nfsrdma::fuse
