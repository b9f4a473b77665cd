// SPDX-License-Identifier: Apache-2.0
// nfsload measures the speed of libnfs's raw asynchronous API with an NFS server, for comparison with a FUSE
// mount of the same server. One thread, one connection, `depth` requests outstanding.
//
// A Protocol turns one operation of the load into RPCs. libnfs 4.0 speaks NFSv3 and NFSv4.0. main owns the
// Protocol, which lives as long as its rpc_context and calls Driver::done exactly once for every operation
// started.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nfsload_libnfs.h"

namespace nfsload {

struct Options {
  std::string server = "127.0.0.1";
  int port = 2049;
  int mount_port = 0;  // NFSv3 only
  std::string path;    // directory: the exported path for NFSv3, the pseudo path for NFSv4
  int version = 4;
  std::string op;             // read, write, randread, stat, create, smallread
  std::string file = "data";  // read, write, randread: its name; stat, create, smallread: prefix of a number
  uint64_t size = 0;          // bytes of `file` for read, write and randread
  uint32_t block = 1 << 20;   // bytes per request
  unsigned depth = 8;
  uint64_t count = 0;  // operations; read and write: 0 means size / block
  uint64_t seed = 1;
};

// Ends the program with the message: a load that lost a request has no valid result.
[[noreturn]] void fail(const std::string& what);

// Runs the connection's event loop until `finished` returns true.
void run_until(rpc_context* rpc, const std::function<bool()>& finished);

using Done = std::function<void(unsigned slot, uint64_t bytes)>;

class Protocol {
 public:
  Protocol(const Options& options, Done done) : options_(options), done_(std::move(done)) {}
  Protocol(const Protocol&) = delete;
  Protocol& operator=(const Protocol&) = delete;
  virtual ~Protocol() = default;

  virtual rpc_context* rpc() = 0;
  // Opens (write: creates) options.file; called once before read and write.
  virtual void open_file() = 0;
  virtual void commit() = 0;
  virtual void read(unsigned slot, uint64_t offset, uint32_t length) = 0;
  virtual void write(unsigned slot, uint64_t offset, uint32_t length) = 0;
  // The following act on file `name` in the directory; smallread reads its first block.
  virtual void stat(unsigned slot, const std::string& name) = 0;
  virtual void create(unsigned slot, const std::string& name) = 0;
  virtual void small_read(unsigned slot, const std::string& name) = 0;

 protected:
  const Options& options_;
  Done done_;
};

std::unique_ptr<Protocol> connect_v3(const Options& options, Done done);
std::unique_ptr<Protocol> connect_v4(const Options& options, Done done);

}  // namespace nfsload
