// The least that is an NFSv4.1 client's session (RFC 8881 section 2.10): one TCP connection, one slot for
// each request under way, no back channel, nothing for what goes wrong. A request is encoded once and sent
// again with only its XID, its slot and what the caller patches changed; a reply is looked at where it lies.
// Blocking; one thread's.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "xdr/nfs4/compound.h"

namespace bare {

namespace nfs4 = nfsrdma::nfs4;
using nfsrdma::ByteVector;
using nfsrdma::ConstBytes;

// Ends the program: a ceiling that lost a request has no figure.
[[noreturn]] void fail(const std::string& what);

struct Request {
  ByteVector bytes;     // record mark and RPC call
  size_t sequence = 0;  // where sa_sequenceid stands; 0: the COMPOUND has no SEQUENCE
};

struct Answer {
  uint32_t slot = 0;
  ConstBytes results;  // behind SEQUENCE's, until the next call of anything
};

class Session {
 public:
  static constexpr uint32_t kSlots = 64;

  Session(const std::string& host, uint16_t port);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  int socket() const { return socket_; }

  // A COMPOUND of SEQUENCE, once there is a session, and these.
  template <class... Args>
  Request compound(const Args&... args) const {
    Request request;
    nfsrdma::xdr::Encoder x(request.bytes);
    begin(request, x, sizeof...(args));
    (nfs4::encode_op(x, args), ...);
    return request;
  }

  bool full() const { return free_.empty(); }
  // Into a free slot, whose number it returns; `data` goes behind it.
  uint32_t send(Request& request, ConstBytes data = {});

  // The answers are received as a whole, as many as there are; for a READ whose data the caller takes from
  // the socket by itself, only what stands before it.
  std::optional<Answer> next();
  // Whether next() can answer without the socket. Until it cannot, head() must not be called.
  bool has_received() const { return parsed_ < received_; }
  // The next reply up to SEQUENCE's result; its slot, and how many bytes of it are left in the socket.
  std::pair<uint32_t, size_t> head();
  void receive(void* to, size_t size);
  // The results of the reply that head() began.
  ConstBytes rest(size_t size);

  // Sends it, and waits for its answer; nothing else may be under way.
  template <class... Args>
  ConstBytes call(const Args&... args) {
    Request request = compound(args...);
    send(request);
    const std::optional<Answer> answer = next();
    if (!answer) fail("the server is gone");
    return answer->results;
  }

 private:
  void connect(const std::string& host, uint16_t port);
  void create();
  ConstBytes alone(Request& request);
  void begin(Request& request, nfsrdma::xdr::Encoder& x, size_t operations) const;
  void put_on(const Request& request, ConstBytes data);
  uint32_t check(const std::byte* reply);

  int socket_ = -1;
  nfs4::sessionid4 id_{};
  bool established_ = false;
  std::vector<uint32_t> sequences_ = std::vector<uint32_t>(kSlots, 0);
  std::vector<uint32_t> free_;
  ByteVector buffer_;
  size_t parsed_ = 0, received_ = 0;  // in buffer_
};

// The next result of a reply; fails unless it is a success or `also`.
template <class Res>
Res take(nfsrdma::xdr::Decoder& x, nfs4::nfsstat4 also = nfs4::NFS4_OK) {
  Res res;
  if (!nfs4::decode_res(x, res)) fail(x.failure());
  if (res.status != nfs4::NFS4_OK && res.status != also)
    fail(std::string(nfs4::op_name(nfs4::op_of<Res>)) + ": " + nfs4::name_of(res.status));
  return res;
}

}  // namespace bare
