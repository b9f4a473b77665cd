// SPDX-License-Identifier: Apache-2.0
// Pipes: bulk data on its way from a socket to another descriptor without passing through our memory.
//
// splice(2) moves references to the kernel's pages. READ data in a pipe has not been copied yet. It is copied
// once, by the kernel, into the page that answers the application.
//
// A Pipe is used by one thread at a time: by the owner of its PipeRef, or by code to which the owner lends
// it. It counts the bytes it contains. It has kSlots slots, as many as an unprivileged user may have
// (pipe-max-size, 1 MiB). A slot takes one fragment of any length: a page or more on loopback, one segment's
// data on Ethernet. So the pipe may be full at any number of bytes. All operations are non-blocking and
// return as system calls do: bytes, 0, or -1 with errno.
//
// PipePool: any thread. It lends at most kMaxPipes pipes, a third of what a user may have in all
// (pipe-user-pages-soft, 16384 slots, kernel 4.5). Having no pipe is no error: the data is then received into
// memory. Where fragments are so short that the data does not fit into a pipe, the user of the pipe calls
// pause(), and the pool lends none for a while.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "transport/runtime/mutex.h"
#include "xdr/support/bytes.h"

namespace nfsrdma {

class PipePool;

class Pipe {
 public:
  static constexpr size_t kSlots = 256;

  // Null if the system provides none.
  static std::unique_ptr<Pipe> create();
  ~Pipe();
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  size_t size() const { return size_; }

  // True if no slot is free.
  bool full() const;

  // EAGAIN: `from` has no data, or the pipe is full, or the next data cannot be spliced.
  ssize_t fill(int from, size_t bytes);
  ssize_t fill(Pipe& from, size_t bytes);
  ssize_t write(ConstBytes bytes);
  ssize_t read(MutableBytes into);
  ssize_t drain(int to, size_t bytes);

 private:
  Pipe(int out, int in) : out_(out), in_(in) {}
  int out_;
  int in_;
  size_t size_ = 0;
};

struct PipeReturn {
  PipePool* pool = nullptr;
  void operator()(Pipe* pipe) const;
};
// Null, or a pipe that goes back to its pool when the reference is destroyed.
using PipeRef = std::unique_ptr<Pipe, PipeReturn>;

class PipePool {
 public:
  static constexpr size_t kMaxPipes = 20;
  static constexpr size_t kReserved = 4;
  static constexpr std::chrono::seconds kFirstPause{1};
  static constexpr std::chrono::seconds kLongestPause{64};

  // An empty pipe for incoming data. Null if none is left, if the system provides none, or during a pause.
  PipeRef get();
  // A pipe to compose a reply in; may be one of the last kReserved.
  PipeRef get_reserved();
  // Pipes do not help at present: lends none for a while. Each pause is twice as long as the one before, up
  // to kLongestPause.
  void pause();

 private:
  friend struct PipeReturn;
  PipeRef get_of(size_t most);
  void put(Pipe* pipe);
  void pause_locked() NFSRDMA_REQUIRES(mutex_);

  Mutex mutex_;
  std::vector<std::unique_ptr<Pipe>> free_ NFSRDMA_GUARDED_BY(mutex_);
  size_t lent_ NFSRDMA_GUARDED_BY(mutex_) = 0;
  std::chrono::seconds next_pause_ NFSRDMA_GUARDED_BY(mutex_) = kFirstPause;
  std::chrono::steady_clock::time_point paused_until_ NFSRDMA_GUARDED_BY(mutex_){};
};

}  // namespace nfsrdma
