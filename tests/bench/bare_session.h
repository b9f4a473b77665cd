// SPDX-License-Identifier: Apache-2.0
// The least that is an NFSv4.1 client's session (RFC 8881 section 2.10): one TCP connection, one slot for
// each request under way, no back channel, nothing for what goes wrong. A request is encoded once and sent
// again with only its XID, its slot and what the caller patches changed; a reply is looked at where it lies.
// Blocking; one thread's.
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

// Ends the program: a ceiling that lost a request has no figure.
[[noreturn]] void fail(const std::string& what);
[[noreturn]] void fail(nfs4::nfs_opnum4 op, nfs4::nfsstat4 status);

struct Request {
  ByteVector bytes;       // record mark and RPC call; what the caller patches is at the end
  ByteVector behind{};    // operations that follow the data, or the name, that is sent with it
  size_t operations = 0;  // where their number stands
  size_t sequence = 0;    // where sa_sequenceid stands; 0: the COMPOUND has no SEQUENCE
};

struct Reply {
  uint32_t slot = 0;
  ConstBytes results;  // behind SEQUENCE's, until the next call of anything
  size_t left = 0;     // what follows them in the socket
};

class Session {
 public:
  static constexpr uint32_t kSlots = 64;
  static constexpr uint32_t kOperations = 40;  // of a COMPOUND

  // For READs and WRITEs of so many bytes.
  Session(const std::string& host, uint16_t port, uint32_t max_io);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  int socket() const { return socket_; }

  // A COMPOUND of SEQUENCE, once there is a session, and these.
  template <class... Args>
  Request compound(const Args&... args) const {
    Request request;
    nfsrdma::xdr::Encoder x(request.bytes);
    begin(request, x);
    (nfs4::encode_op(x, args), ...);
    add_operations(request, sizeof...(args));
    return request;
  }
  // The same, and these behind what is sent with it.
  template <class... Args>
  static void follow(Request& request, const Args&... args) {
    nfsrdma::xdr::Encoder x(request.behind);
    (nfs4::encode_op(x, args), ...);
    add_operations(request, sizeof...(args));
  }
  static void add_operations(Request& request, size_t count);

  bool full() const { return free_.empty(); }
  // Into a free slot, whose number it returns; `data`, padded, goes between its two parts.
  uint32_t send(Request& request, ConstBytes data = {});
  // Called when the server takes no more, and has answers: it may be waiting for them to be taken. May not
  // send.
  std::function<void()> meanwhile;

  // The next reply as a whole, and with it as many as have come; or no more of it than `results`, and nothing
  // of the next one. Nothing: the server is gone.
  std::optional<Reply> next();
  std::optional<Reply> next_head(size_t results);
  // There is something that the socket no longer has.
  bool has_received() const { return parsed_ < received_; }
  // What is left, too.
  void complete(Reply& reply);
  void discard(size_t bytes);

  // Sends it, and waits for its answer; nothing else may be under way.
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

// Results where they lie, word by word; fails if there are too few.
class Results {
 public:
  explicit Results(ConstBytes bytes) : left_(bytes) {}

  // How the next operation ended, which has to be this one.
  nfs4::nfsstat4 status(nfs4::nfs_opnum4 op);
  // Fails unless it was a success.
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
