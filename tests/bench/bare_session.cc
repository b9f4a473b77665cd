#include "bare_session.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "ceiling.h"
#include "xdr/record_mark.h"
#include "xdr/rpc.h"

namespace bare {

namespace {

using nfsrdma::load_be32;
using nfsrdma::store_be32;

constexpr size_t kXid = 4;             // behind the record mark
constexpr size_t kRpcReply = 24;       // with an empty verifier
constexpr size_t kCompoundReply = 12;  // with an empty tag
constexpr size_t kSequenceResult = 44;
constexpr size_t kHead = nfsrdma::rpc::kRecordMarkBytes + kRpcReply + kCompoundReply + kSequenceResult;
constexpr size_t kBufferBytes = 1 << 20;

uint32_t record_bytes(const std::byte* mark) {
  const auto [last, length] = nfsrdma::rpc::decode_record_mark(std::span<const std::byte, 4>(mark, 4));
  if (!last) fail("a reply in fragments");
  return length;
}

}  // namespace

void fail(const std::string& what) {
  std::fprintf(stderr, "barefs: %s\n", what.c_str());
  std::_Exit(1);
}

Session::Session(const std::string& host, uint16_t port) : free_(kSlots), buffer_(kBufferBytes) {
  std::iota(free_.rbegin(), free_.rend(), 0u);
  connect(host, port);
  create();
  nfsrdma::xdr::Decoder x(call(nfs4::RECLAIM_COMPLETE4args{}));
  take<nfs4::RECLAIM_COMPLETE4res>(x);
}

Session::~Session() {
  ::close(socket_);
}

void Session::connect(const std::string& host, uint16_t port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) fail("no such host");
  socket_ = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::connect(socket_, found->ai_addr, found->ai_addrlen) != 0) fail("cannot connect");
  ::freeaddrinfo(found);
  const int on = 1;
  ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

void Session::begin(Request& request, nfsrdma::xdr::Encoder& x, size_t operations) const {
  static const ByteVector kCredential = nfsrdma::rpc::encode_authsys(
      {.machinename = "barefs", .uid = ::getuid(), .gid = ::getgid(), .gids = {}});
  nfsrdma::rpc::call_header header;
  header.prog = nfs4::NFS4_PROGRAM;
  header.vers = nfs4::NFS_V4;
  header.proc = nfs4::NFSPROC4_COMPOUND;
  header.cred = {nfsrdma::rpc::AUTH_SYS, kCredential};
  x(uint32_t{0});  // the record mark
  x(header);
  x(nfs4::compound_call{.operations = static_cast<uint32_t>(operations + (established_ ? 1 : 0))});
  if (!established_) return;
  nfs4::encode_op(x, nfs4::SEQUENCE4args{.sa_sessionid = id_, .sa_highest_slotid = kSlots - 1});
  request.sequence = request.bytes.size() - 16;
}

void Session::put_on(const Request& request, ConstBytes data) {
  static const std::byte kPadding[3] = {};
  const auto part = [](const void* at, size_t size) { return iovec{const_cast<void*>(at), size}; };
  iovec parts[] = {part(request.bytes.data(), request.bytes.size()), part(data.data(), data.size()),
                   part(kPadding, (4 - data.size() % 4) % 4)};
  if (!send_all(socket_, parts, std::size(parts))) fail("the connection is gone");
}

uint32_t Session::send(Request& request, ConstBytes data) {
  const uint32_t slot = free_.back();
  free_.pop_back();
  const size_t length = request.bytes.size() - 4 + (data.size() + 3) / 4 * 4;
  store_be32(request.bytes.data(), static_cast<uint32_t>(length) | nfsrdma::rpc::kLastFragment);
  store_be32(request.bytes.data() + kXid, slot);
  store_be32(request.bytes.data() + request.sequence, ++sequences_[slot]);
  store_be32(request.bytes.data() + request.sequence + 4, slot);
  put_on(request, data);
  return slot;
}

void Session::receive(void* to, size_t size) {
  if (!receive_all(socket_, to, size)) fail("the server is gone");
}

// RPC's and SEQUENCE's success; the slot, which is free again.
uint32_t Session::check(const std::byte* reply) {
  const uint32_t slot = load_be32(reply + kXid);
  const std::byte* verifier_length = reply + 4 + 16;
  const std::byte* accepted = reply + 4 + 20;
  const std::byte* sequence_status = reply + 4 + kRpcReply + kCompoundReply + 4;
  if (load_be32(verifier_length) != 0 || load_be32(accepted) != 0) fail("the call was refused");
  if (load_be32(sequence_status) != 0 || slot >= kSlots) fail("SEQUENCE was refused");
  free_.push_back(slot);
  return slot;
}

std::optional<Answer> Session::next() {
  for (;;) {
    const size_t have = received_ - parsed_;
    const std::byte* reply = buffer_.data() + parsed_;
    const size_t size = have >= 4 ? 4 + record_bytes(reply) : 4;
    if (size > buffer_.size()) fail("a reply that is too long");
    if (have >= 4 && have >= size) {
      parsed_ += size;
      if (parsed_ == received_) parsed_ = received_ = 0;
      if (size < kHead) fail("the COMPOUND was refused");
      return Answer{check(reply), {reply + kHead, size - kHead}};
    }
    if (parsed_ + size > buffer_.size()) {
      std::memmove(buffer_.data(), reply, have);
      parsed_ = 0;
      received_ = have;
    }
    const ssize_t n = ::recv(socket_, buffer_.data() + received_, buffer_.size() - received_, 0);
    if (n <= 0) return std::nullopt;
    received_ += static_cast<size_t>(n);
  }
}

std::pair<uint32_t, size_t> Session::head() {
  receive(buffer_.data(), kHead);
  const size_t size = record_bytes(buffer_.data()) + 4;
  if (size < kHead) fail("the COMPOUND was refused");
  return {check(buffer_.data()), size - kHead};
}

ConstBytes Session::rest(size_t size) {
  if (size > buffer_.size()) fail("a reply that is too long");
  receive(buffer_.data(), size);
  return {buffer_.data(), size};
}

// The results of a COMPOUND without SEQUENCE.
ConstBytes Session::alone(Request& request) {
  store_be32(request.bytes.data(),
             static_cast<uint32_t>(request.bytes.size() - 4) | nfsrdma::rpc::kLastFragment);
  put_on(request, {});
  receive(buffer_.data(), 4);
  return rest(record_bytes(buffer_.data())).subspan(kRpcReply + kCompoundReply);
}

void Session::create() {
  nfs4::EXCHANGE_ID4args client;
  client.eia_clientowner.co_ownerid = "barefs " + std::to_string(::getpid());
  client.eia_clientowner.co_verifier = nfs4::verifier4::of(static_cast<uint64_t>(::getpid()));
  Request request = compound(client);
  nfsrdma::xdr::Decoder known(alone(request));
  const auto id = take<nfs4::EXCHANGE_ID4res>(known);

  nfs4::CREATE_SESSION4args args;
  args.csa_clientid = id.resok4.eir_clientid;
  args.csa_sequence = id.resok4.eir_sequenceid;
  nfs4::channel_attrs4& fore = args.csa_fore_chan_attrs;
  fore.ca_maxrequestsize = fore.ca_maxresponsesize = (1u << 20) + 4096;
  fore.ca_maxresponsesize_cached = 4096;
  fore.ca_maxoperations = 8;
  fore.ca_maxrequests = kSlots;
  args.csa_back_chan_attrs = fore;
  args.csa_cb_program = 0x40000001;
  args.csa_sec_parms.emplace_back();
  request = compound(args);
  nfsrdma::xdr::Decoder created(alone(request));
  const auto session = take<nfs4::CREATE_SESSION4res>(created);
  if (session.resok4.csr_fore_chan_attrs.ca_maxrequests < kSlots) fail("the server grants too few slots");
  id_ = session.resok4.csr_sessionid;
  established_ = true;
}

}  // namespace bare
