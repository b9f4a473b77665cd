// The far end of nullfs --relay: as much of a filer as no client can do without. What a FUSE file system
// reaches with it is the most that a network client behind FUSE can reach on this machine: the bytes of each
// READ and WRITE cross a TCP connection on loopback, and nothing else is done with them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#define FUSE_USE_VERSION 312
#include <fuse3/fuse_lowlevel.h>

// READs are answered in their order; a WRITE, as one of a client that writes behind, before its data is sent.
// One thread's.
class Relay {
 public:
  // Starts the far end, a process that ends with the connection; null if there is no socket or no process.
  static std::unique_ptr<Relay> start(size_t max_io);
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;
  ~Relay();

  // Readable when answer() has something to do.
  int socket() const { return socket_; }

  // `unique` is the one of the FUSE request.
  void read(fuse_req_t req, uint64_t unique, size_t size);
  void write(fuse_req_t req, const char* data, size_t size);
  // Receives what belongs to the oldest READ, and replies through /dev/fuse; false once either is gone.
  bool answer(int fuse);

 private:
  struct Pending {
    fuse_req_t req = nullptr;
    uint64_t unique = 0;
    size_t size = 0;
  };
  Relay(int socket, size_t max_io);

  int socket_;
  int pipe_[2] = {-1, -1};
  std::vector<char> memory_;
  std::deque<Pending> pending_;
};
