// SPDX-License-Identifier: Apache-2.0
// TLS of the filer's TCP connections: who gets it, who must use it, and what comes of clients that break its
// rules.
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <filesystem>

#include "filer/links/tls_door.h"
#include "tests/unit/filer/raw_client.h"
#include "tests/unit/support/certificates.h"
#include "transport/runtime/fd.h"
#include "transport/tls/starttls.h"
#include "transport/tls/stream.h"
#include "xdr/record_mark.h"

namespace nfsrdma::filer::test {
namespace {

using links::TlsPolicy;
using nfsrdma::test::Authority;

ByteVector call_of(uint32_t xid, uint32_t procedure, rpc::auth_flavor flavor = rpc::AUTH_NONE) {
  ByteVector message;
  xdr::Encoder x(message);
  (void)x(rpc::call_header{
      .xid = rpc::Xid{xid}, .prog = NFS4_PROGRAM, .vers = NFS_V4, .proc = procedure, .cred = {flavor, {}}});
  return message;
}

ByteVector marked(ConstBytes message) {
  const auto mark = rpc::encode_record_mark({true, static_cast<uint32_t>(message.size())});
  ByteVector record(mark.begin(), mark.end());
  record.insert(record.end(), message.begin(), message.end());
  return record;
}

rpc::reply_header header_of(const std::optional<ByteVector>& reply) {
  rpc::reply_header header;
  EXPECT_TRUE(reply);
  if (!reply) return header;
  xdr::Decoder x(*reply);
  EXPECT_TRUE(x(header));
  return header;
}

bool is_denied(const std::optional<ByteVector>& reply, rpc::auth_stat why) {
  const rpc::reply_header header = header_of(reply);
  return header.stat == rpc::MSG_DENIED && header.denied == rpc::AUTH_ERROR && header.why == why;
}

// A client's connection, with blocking calls.
class TlsPeer {
 public:
  explicit TlsPeer(uint16_t port) : socket_(connected_to(port)) {}

  // Asks for TLS; whether the server offers it.
  bool ask() {
    const ByteVector probe = tls::probe(rpc::Xid{99}, NFS4_PROGRAM, NFS_V4);
    send_plain(probe);
    std::array<std::byte, rpc::kRecordMarkBytes> mark{};
    if (::recv(socket_.get(), mark.data(), mark.size(), MSG_WAITALL) != ssize_t{mark.size()}) return false;
    ByteVector answer(rpc::decode_record_mark(mark).length);
    const ssize_t n = ::recv(socket_.get(), answer.data(), answer.size(), MSG_WAITALL);
    if (n != static_cast<ssize_t>(answer.size())) return false;
    return tls::judge(answer, rpc::Xid{99}) == tls::Answer::kOffered;
  }
  bool shake_hands(const tls::Settings& settings) {
    stream_ = *tls::Stream::connect(*tls::Context::client(settings), socket_.get(), "localhost");
    for (;;) {
      const auto step = stream_->handshake();
      if (!step) return false;
      if (*step == tls::Stream::Step::kDone) return true;
    }
  }
  void send_plain(ConstBytes bytes) {
    EXPECT_EQ(::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  void send(ConstBytes bytes) {
    while (!bytes.empty()) {
      iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
      const ssize_t n = stream_->send(std::span(&piece, 1));
      ASSERT_GT(n, 0);
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
  }
  // The next message within TLS; nullopt: the connection ended.
  std::optional<ByteVector> receive() {
    ByteVector mark(rpc::kRecordMarkBytes);
    if (!receive_all(mark)) return std::nullopt;
    ByteVector message(rpc::decode_record_mark(std::span(mark).first<rpc::kRecordMarkBytes>()).length);
    if (!receive_all(message)) return std::nullopt;
    return message;
  }
  bool ended() {
    pollfd file{socket_.get(), POLLIN, 0};
    char byte = 0;
    while (::poll(&file, 1, kTimeoutMs) == 1) {
      if (::recv(socket_.get(), &byte, 1, 0) <= 0) return true;
    }
    return false;
  }
  std::string server() const { return stream_->peer(); }

 private:
  static Fd connected_to(uint16_t port) {
    Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    const timeval limit{kTimeoutMs / 1000, 0};
    EXPECT_EQ(::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    return socket;
  }
  bool receive_all(MutableBytes into) {
    while (!into.empty()) {
      const ssize_t n = stream_->receive({}, into);
      if (n <= 0) return false;
      into = into.subspan(static_cast<size_t>(n));
    }
    return true;
  }

  Fd socket_;
  std::unique_ptr<tls::Stream> stream_;
};

struct TlsLink : testing::Test {
  Authority authority;
  tls::Settings settings = authority.issue({.dns_names = {"localhost"}, .addresses = {}});
  std::unique_ptr<Server> served;

  void serve(TlsPolicy policy, std::chrono::milliseconds patience = std::chrono::seconds(120)) {
    nfs::Options options;
    options.tls = settings;
    options.tls_policy = policy;
    options.patience = patience;
    served = start_server(std::move(options));
    ASSERT_NE(served, nullptr);
  }
  // A peer after its handshake.
  TlsPeer secured(const tls::Settings& of) {
    TlsPeer peer(served->port());
    EXPECT_TRUE(peer.ask());
    EXPECT_TRUE(peer.shake_hands(of));
    return peer;
  }
};

TEST_F(TlsLink, Calls_AreAnsweredWithinTls) {
  serve(TlsPolicy::kRequired);
  TlsPeer peer = secured(authority.trusting());
  peer.send(marked(call_of(7, 0)));
  const rpc::reply_header header = header_of(peer.receive());
  EXPECT_EQ(header.xid, rpc::Xid{7});
  EXPECT_EQ(header.stat, rpc::MSG_ACCEPTED);
  EXPECT_EQ(header.accepted, rpc::SUCCESS);
}

// Records of TLS and of RPC begin and end where they like.
TEST_F(TlsLink, ManyCallsAtOnce_AreAllAnsweredInOrder) {
  serve(TlsPolicy::kOffered);
  TlsPeer peer = secured(authority.trusting());
  constexpr uint32_t kCalls = 3000;
  ByteVector all;
  for (uint32_t xid = 0; xid < kCalls; ++xid) {
    const ByteVector record = marked(call_of(xid, 0));
    all.insert(all.end(), record.begin(), record.end());
  }
  peer.send(all);
  for (uint32_t xid = 0; xid < kCalls; ++xid) ASSERT_EQ(header_of(peer.receive()).xid, rpc::Xid{xid});
}

// RFC 9289 section 4.1: "an RPC client sends an RPC AUTH_TLS probe within an existing (D)TLS session, the RPC
// server MUST reject that RPC Call by returning a reply_stat of MSG_DENIED with a reject_stat of AUTH_ERROR
// and an auth_stat of AUTH_BADCRED."
TEST_F(TlsLink, SecondProbe_IsRefused) {
  serve(TlsPolicy::kOffered);
  TlsPeer peer = secured(authority.trusting());
  peer.send(tls::probe(rpc::Xid{5}, NFS4_PROGRAM, NFS_V4));
  EXPECT_TRUE(is_denied(peer.receive(), rpc::AUTH_BADCRED));
}

// "If an RPC client uses the AUTH_TLS authentication flavor on any procedure other than the NULL procedure".
TEST_F(TlsLink, ProbeOfAnotherProcedure_IsRefused) {
  serve(TlsPolicy::kOffered);
  RawConnection connection(served->port());
  ASSERT_TRUE(connection.send(call_of(1, NFSPROC4_COMPOUND, rpc::AUTH_TLS)));
  EXPECT_TRUE(is_denied(connection.receive(), rpc::AUTH_BADCRED));
}

TEST_F(TlsLink, CallsWithoutTls_AreTooWeakWhereItIsRequired) {
  serve(TlsPolicy::kRequired);
  RawConnection connection(served->port());
  ASSERT_TRUE(connection.send(call_of(1, NFSPROC4_COMPOUND)));
  EXPECT_TRUE(is_denied(connection.receive(), rpc::AUTH_TOOWEAK));
  ASSERT_TRUE(connection.send(call_of(2, 0)));
  EXPECT_EQ(header_of(connection.receive()).stat, rpc::MSG_ACCEPTED);
}

TEST_F(TlsLink, CallsWithoutTls_AreServedWhereItIsOffered) {
  serve(TlsPolicy::kOffered);
  RawClient client(*served, "plain");
  EXPECT_TRUE(client.establish());
}

TEST_F(TlsLink, ClientWithoutCertificate_IsRefusedByAMutualServer) {
  serve(TlsPolicy::kMutual);
  TlsPeer stranger(served->port());
  ASSERT_TRUE(stranger.ask());
  (void)stranger.shake_hands(authority.trusting());
  EXPECT_FALSE(stranger.receive());
  TlsPeer known = secured(authority.issue({.dns_names = {}, .addresses = {}}));
  known.send(marked(call_of(7, 0)));
  EXPECT_EQ(header_of(known.receive()).stat, rpc::MSG_ACCEPTED);
}

// Section 5.1.1: "If spurious traffic appears on a TCP connection between the initial cleartext AUTH_TLS
// probe and the TLS session handshake, receivers MUST discard that data without response and then SHOULD drop
// the connection."
TEST_F(TlsLink, CallBehindTheProbe_EndsTheConnection) {
  serve(TlsPolicy::kOffered);
  TlsPeer peer(served->port());
  ByteVector both = tls::probe(rpc::Xid{1}, NFS4_PROGRAM, NFS_V4);
  const ByteVector call = marked(call_of(2, 0));
  both.insert(both.end(), call.begin(), call.end());
  peer.send_plain(both);
  EXPECT_TRUE(peer.ended());
}

TEST_F(TlsLink, CallInsteadOfAHandshake_EndsTheConnection) {
  serve(TlsPolicy::kOffered);
  TlsPeer peer(served->port());
  ASSERT_TRUE(peer.ask());
  peer.send_plain(marked(call_of(2, 0)));
  EXPECT_TRUE(peer.ended());
}

// While a handshake lasts, nothing else may use the socket.
TEST_F(TlsLink, ReplyToACallBeforeTheProbe_ComesWithinTls) {
  serve(TlsPolicy::kOffered);
  const auto rule = served->faults().add(on::reply_to(OP_PUTROOTFH), fault::Stall{});
  RawClient encoder(*served, "early");
  COMPOUND4args args;
  args.minorversion = 1;
  args.argarray = ops(PUTROOTFH4args{});
  TlsPeer peer(served->port());
  peer.send_plain(marked(encoder.encode_call(41, args)));
  ASSERT_TRUE(served->faults().wait_fired(rule));
  ASSERT_TRUE(peer.ask());
  served->faults().release(rule);
  ASSERT_TRUE(peer.shake_hands(authority.trusting()));
  EXPECT_EQ(header_of(peer.receive()).xid, rpc::Xid{41});
}

TEST_F(TlsLink, SilenceInsteadOfAHandshake_EndsTheConnection) {
  serve(TlsPolicy::kOffered, std::chrono::milliseconds(300));
  TlsPeer peer(served->port());
  ASSERT_TRUE(peer.ask());
  EXPECT_TRUE(peer.ended());
}

TEST_F(TlsLink, RenewedCertificate_CountsForTheNextConnection) {
  serve(TlsPolicy::kOffered);
  EXPECT_EQ(secured(authority.trusting()).server(), "CN=peer1");
  const tls::Settings renewed = authority.issue({.dns_names = {"localhost"}, .addresses = {}});
  const auto replace = std::filesystem::copy_options::overwrite_existing;
  std::filesystem::copy_file(renewed.certificate, settings.certificate, replace);
  // Its key is missing: the certificate before goes on.
  EXPECT_EQ(secured(authority.trusting()).server(), "CN=peer1");
  std::filesystem::copy_file(renewed.key, settings.key, replace);
  EXPECT_EQ(secured(authority.trusting()).server(), "CN=peer2");
}

TEST_F(TlsLink, ServerWithoutTls_OffersNone) {
  served = start_server({});
  TlsPeer peer(served->port());
  EXPECT_FALSE(peer.ask());
}

}  // namespace
}  // namespace nfsrdma::filer::test
