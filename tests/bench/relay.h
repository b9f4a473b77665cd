// SPDX-License-Identifier: Apache-2.0
// The far end of nullfs --relay: as much of a filer as no client can do without. What a FUSE file system
// reaches with it is the most that a network client behind FUSE can reach on this machine: the bytes of each
// READ and WRITE cross a TCP connection on loopback, and nothing else is done with them.
//
// With --framed a READ's data comes as software RDMA brings it, in frames of less than 64 KiB (mpa_frames.h),
// and nothing else is asked of anybody: what that takes more is what frames cost who tells them apart this
// way.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "ceiling.h"
#include "mpa_frames.h"

// READs are answered in their order; a WRITE, as one of a client that writes behind, before its data is sent.
// One thread's.
class Relay final : public FarEnd {
 public:
  // Starts the far end, a process that ends with the connection; null if there is no socket or no process.
  static std::unique_ptr<Relay> start(size_t max_io, bool framed);
  ~Relay() override;

  int socket() const override { return socket_; }
  // To the oldest READ.
  bool answer() override;

  void read(fuse_req_t req, size_t size);
  void write(fuse_req_t req, const char* data, size_t size);

 private:
  struct Pending {
    fuse_req_t req = nullptr;
    uint64_t unique = 0;
    size_t size = 0;
  };
  Relay(int socket, size_t max_io, bool framed);
  bool copy(const Pending& request);
  bool splice(const Pending& request);
  bool receive_frames(size_t size);
  bool splice_frames(size_t size);

  int socket_;
  bool framed_;
  PipedReply piped_;
  std::vector<char> memory_;
  std::array<int, 2> raw_ = make_pipe();
  std::deque<Pending> pending_;
};
