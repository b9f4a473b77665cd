// SPDX-License-Identifier: Apache-2.0
// The far end of nullfs --relay: the minimum of a server. A FUSE file system with it is as fast as a network
// client behind FUSE can be on this machine: the bytes of each READ and WRITE cross a TCP connection on
// loopback, and nothing else is done with them.
//
// With --framed a READ's data comes in frames of less than 64 KiB, as with software RDMA (mpa_frames.h), and
// nothing else changes. The difference is the cost of frames for a client that separates them in this way.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "ceiling.h"
#include "mpa_frames.h"

// READs are answered in order. A WRITE is answered before its data is sent, as by a client with write-back.
// One thread only.
class Relay final : public FarEnd {
 public:
  // Starts the far end, a process that ends with the connection. Null if there is no socket or no process.
  static std::unique_ptr<Relay> start(size_t max_io, bool framed);
  ~Relay() override;

  int socket() const override { return socket_; }
  // Answers the oldest READ.
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
