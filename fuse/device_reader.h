// SPDX-License-Identifier: Apache-2.0
// DeviceReader: reads one loop's share of /dev/fuse, in memory that a WRITE's payload can be sent from.
//
// Every loop reads the same session descriptor and takes what it finds; EAGAIN means another loop was faster.
// (A descriptor per loop, FUSE_DEV_IOC_CLONE, has its own list of unanswered requests in the kernel, so a
// reply must go out where the request came in; libfuse 3.14 has no public interface for that, and one list's
// lock costs nothing next to the copy of a request.) Reads go through Asio, which tries first and then waits
// for the descriptor's next edge: four system calls per request with one waiting application (epoll_wait,
// readv, writev, readv = EAGAIN), where re-arming a wait each time takes five. While requests queue up, up to
// eight are read one after the other: three system calls each instead of four, and what they ask of the
// server leaves in one. (16 small files at once: 1.10 of the throughput at 0.88 of the CPU; 32 random
// reads: 1.08 and 0.91; one at a time the same. nfs-ganesha on loopback, 2026-11-25.)
//
// A request is read into two places: as much as a WRITE has in front of its payload into one, the rest to a
// page boundary of a 2 MiB buffer of the pool: the kernel then copies whole pages, registered memory sees
// aligned addresses, and two of the largest payloads fit a buffer. A payload of kKeepPayload bytes or more
// stays where it is and becomes a Slice of the buffer; the next request's is read behind it, or, where
// nobody holds a Slice any more by then, in its place, which the processor's cache still has. Smaller
// payloads are copied to a buffer of their own size, since the Filesystem may keep them for long. What is no
// WRITE is put together again.
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
  // Of 512 KiB each, writes of 1 MiB with O_DIRECT would move 1.27 of this for 0.76 of the CPU, where stable
  // storage is memory (docs/PERFORMANCE.md). On a disk each part would be brought there by itself: one after
  // the other with O_SYNC, and where the file grows.
  static constexpr size_t kMaxWrite = 1u << 20;
  static constexpr size_t kPage = 4096;
  static constexpr size_t kKeepPayload = 32u << 10;

  // `max_write`: of the handshake. `refused`: called when there is no memory for the next request.
  DeviceReader(Loop& loop, BufferPool& pool, size_t max_write, std::function<void()> refused);

  // Until the connection ends or stop(). The session outlives it; its descriptor is non-blocking.
  Task<> run(fuse_session* session);
  void stop();

  // While a WRITE of this reader's is being processed: its payload as memory that may be kept, wherever
  // libfuse believes it to be. Empty buffer: no memory, or more than there is.
  Slice take_payload(size_t size);

  // Reads and processes one request now. For the handshake, and for run().
  enum class Outcome { kServed, kEmpty, kNoMemory, kEnded };
  Outcome serve_one(fuse_session* session);

 private:
  static constexpr size_t kHeaderBytes = sizeof(fuse_in_header) + sizeof(fuse_write_in);
  class Room;
  // What else is there already, if there has been of late: what it asks of the server goes out together.
  void serve_waiting(fuse_session* session);
  void start_over();
  bool make_room();
  // Where the next request is read to.
  std::array<asio::mutable_buffer, 2> target();
  // The first `size` bytes there are a request.
  void process(fuse_session* session, size_t size);

  Loop& loop_;
  BufferPool& pool_;
  const size_t max_write_;
  const std::function<void()> refused_;
  asio::posix::stream_descriptor descriptor_;
  BufferRef buffer_;
  std::array<asio::mutable_buffer, 2> target_;  // that Asio was told
  size_t offset_ = 0;                           // page-aligned: where the next payload is read to
  size_t payload_bytes_ = 0;                    // of the request being processed
  bool kept_ = false;                           // it was handed out
  // kHeaderBytes + max_write_, so that every request fits in one piece; few of its pages are ever touched.
  const std::unique_ptr<std::byte[]> header_;
  bool busy_ = false;   // the last look for a next request has found one
  unsigned alone_ = 0;  // requests that none was looked for after
  bool stopping_ = false;
};

}  // namespace nfsrdma::fuse
