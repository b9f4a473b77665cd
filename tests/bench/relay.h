// The far end of nullfs --relay: as much of a filer as no client can do without. What a FUSE file system
// reaches with it is the most that a network client behind FUSE can reach on this machine: the bytes of each
// READ and WRITE cross a TCP connection on loopback, and nothing else is done with them.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "ceiling.h"

// READs are answered in their order; a WRITE, as one of a client that writes behind, before its data is sent.
// One thread's.
class Relay final : public FarEnd {
 public:
  // Starts the far end, a process that ends with the connection; null if there is no socket or no process.
  static std::unique_ptr<Relay> start(size_t max_io);
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
  Relay(int socket, size_t max_io);

  int socket_;
  PipedReply piped_;
  std::vector<char> memory_;
  std::deque<Pending> pending_;
};
