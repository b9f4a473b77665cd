// SPDX-License-Identifier: Apache-2.0
// Pipes: bulk data on its way from a socket to another descriptor without passing through our memory.
//
// splice(2) moves references to the kernel's pages: a READ's data that waits in a pipe was copied by nobody,
// and the one copy left is the kernel's, into the page that answers the application.
//
// A Pipe belongs to one PipeRef and to whoever that lends it to; one thread at a time. It counts what it
// holds. Its size is kSlots fragments of any length (a fragment is a page or more on loopback, one segment's
// data on Ethernet), as many as an unprivileged user may have (pipe-max-size, 1 MiB): it may be full at any
// number of bytes. All operations are non-blocking and return as system calls do: bytes, 0, or -1 with errno.
//
// PipePool: any thread. At most kMaxPipes, a third of what a user may have in all (pipe-user-pages-soft,
// 16384 slots, kernel 4.5). No pipe to be had is no error: the data is received into memory then. Where pipes
// do not help, because fragments are so short that the data does not fit, whoever notices says so, and none
// are lent for a while.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "xdr/support/bytes.h"

namespace nfsrdma {

class PipePool;

class Pipe {
 public:
  static constexpr size_t kSlots = 256;

  // Null: the system gives none.
  static std::unique_ptr<Pipe> create();
  ~Pipe();
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  size_t size() const { return size_; }

  // No slot is free.
  bool full() const;

  // EAGAIN: `from` has nothing, or the pipe is full, or what comes next cannot be spliced.
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
// Null, or back to its pool when it goes.
using PipeRef = std::unique_ptr<Pipe, PipeReturn>;

class PipePool {
 public:
  static constexpr size_t kMaxPipes = 20;
  static constexpr size_t kReserved = 4;
  static constexpr std::chrono::seconds kFirstPause{1};
  static constexpr std::chrono::seconds kLongestPause{64};

  // Empty, for data to arrive. Null: none is left, the system gives none, or they do not help.
  PipeRef get();
  // To put a reply together: of the last kReserved, too.
  PipeRef get_reserved();
  // They do not help just now. Each time for twice as long.
  void pause();

 private:
  friend struct PipeReturn;
  PipeRef get_of(size_t most);
  void put(Pipe* pipe);
  void pause_locked();

  std::mutex mutex_;
  std::vector<std::unique_ptr<Pipe>> free_;
  size_t lent_ = 0;
  std::chrono::seconds next_pause_ = kFirstPause;
  std::chrono::steady_clock::time_point paused_until_{};
};

}  // namespace nfsrdma
