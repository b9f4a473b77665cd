// SPDX-License-Identifier: Apache-2.0
// A minimal NFSv4.1 session (RFC 8881 section 2.10): one TCP connection, one slot for each request in
// progress, no back channel, no error recovery. A request is encoded once; for each send only the XID, the
// slot and the fields that the caller patches change. A reply is read in the receive buffer. Blocking; one
// thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <sys/uio.h>

#include "xdr/nfs4/compound.h"

namespace bare {

namespace nfs4 = nfsrdma::nfs4;
using nfsrdma::ByteVector;
using nfsrdma::ConstBytes;

// Ends the program: a ceiling that lost a request has no valid result.
[[noreturn]] void fail(const std::string& what);
[[noreturn]] void fail(nfs4::nfs_opnum4 op, nfs4::nfsstat4 status);

struct Request {
  ByteVector bytes;       // record mark and RPC call; the fields to patch are at the end
  ByteVector behind{};    // operations behind the data or name that is sent with it
  size_t operations = 0;  // offset of the number of operations
  size_t sequence = 0;    // offset of sa_sequenceid; 0: the COMPOUND has no SEQUENCE
};

struct Reply {
  uint32_t slot = 0;
  ConstBytes results;  // after SEQUENCE's result; valid until the next call of any method
  size_t left = 0;     // bytes of the reply that are still in the socket
};

class Session {
 public:
  static constexpr uint32_t kSlots = 64;
  static constexpr uint32_t kOperations = 40;  // per COMPOUND

  // `max_io`: bytes of the largest READ and WRITE.
  Session(const std::string& host, uint16_t port, uint32_t max_io);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  int socket() const { return socket_; }

  // A COMPOUND of these operations, after SEQUENCE if the session exists.
  template <class... Args>
  Request compound(const Args&... args) const {
    Request request;
    nfsrdma::xdr::Encoder x(request.bytes);
    begin(request, x);
    (nfs4::encode_op(x, args), ...);
    add_operations(request, sizeof...(args));
    return request;
  }
  // Adds operations behind the data or name that is sent with the request.
  template <class... Args>
  static void follow(Request& request, const Args&... args) {
    nfsrdma::xdr::Encoder x(request.behind);
    (nfs4::encode_op(x, args), ...);
    add_operations(request, sizeof...(args));
  }
  static void add_operations(Request& request, size_t count);

  bool full() const { return free_.empty(); }
  // Sends the request in a free slot and returns the slot. `data`, padded, goes between `bytes` and `behind`.
  uint32_t send(Request& request, ConstBytes data = {});
  // Called when the socket takes no more data but has replies: the server may be waiting until they are read.
  // Must not send.
  std::function<void()> meanwhile;

  // next() returns the next reply entirely, and reads as many others as have arrived. next_head() reads at
  // most `results` bytes of the results, and nothing of the following reply. Nothing: the server is gone.
  std::optional<Reply> next();
  std::optional<Reply> next_head(size_t results);
  // Whether the buffer holds bytes that are not parsed yet.
  bool has_received() const { return parsed_ < received_; }
  // Reads the rest of the reply.
  void complete(Reply& reply);
  void discard(size_t bytes);

  // Sends a COMPOUND and waits for its reply. No other request may be in progress.
  template <class... Args>
  ConstBytes call(const Args&... args) {
    Request request = compound(args...);
    send(request);
    const std::optional<Reply> reply = next();
    if (!reply) fail("the server is gone");
    return reply->results;
  }

 private:
  void connect(const std::string& host, uint16_t port);
  void create(uint32_t max_io);
  ConstBytes alone(Request& request);
  void begin(Request& request, nfsrdma::xdr::Encoder& x) const;
  void put_on(const Request& request, ConstBytes data);
  void wait_writable();
  bool receive_some(size_t needed, size_t most);
  Reply take_reply(size_t size, size_t here);

  int socket_ = -1;
  nfs4::sessionid4 id_{};
  bool established_ = false;
  std::vector<uint32_t> sequences_ = std::vector<uint32_t>(kSlots, 0);
  std::vector<uint32_t> free_;
  ByteVector buffer_;
  size_t parsed_ = 0, received_ = 0;  // in buffer_
};

// The next result of a reply; fails unless it is a success.
template <class Res>
Res take(nfsrdma::xdr::Decoder& x) {
  Res res;
  if (!nfs4::decode_res(x, res)) fail(x.failure());
  if (res.status != nfs4::NFS4_OK) fail(nfs4::op_of<Res>, res.status);
  return res;
}

// Decodes results in place, word by word; fails if there are too few.
class Results {
 public:
  explicit Results(ConstBytes bytes) : left_(bytes) {}

  // The status of the next operation, which must be `op`.
  nfs4::nfsstat4 status(nfs4::nfs_opnum4 op);
  // Fails unless that status is a success.
  void ok(nfs4::nfs_opnum4 op);
  uint32_t word() { return nfsrdma::load_be32(bytes(4).data()); }
  uint64_t long_word();
  ConstBytes opaque() { return bytes(word()); }
  ConstBytes bytes(size_t size);
  size_t left() const { return left_.size(); }

 private:
  ConstBytes left_;
};

}  // namespace bare
