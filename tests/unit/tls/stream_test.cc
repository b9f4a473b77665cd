// SPDX-License-Identifier: Apache-2.0
// A TLS session's data: what comes out is what went in, and nothing else.
#include "transport/tls/stream.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <random>

#include "tests/unit/tls/session_pair.h"

namespace nfsrdma::test {
namespace {

ByteVector random_bytes(size_t size) {
  std::mt19937 random(static_cast<unsigned>(size));
  ByteVector bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

iovec piece_of(ConstBytes bytes) {
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

struct TlsStream : testing::Test {
  Authority authority;
  SessionPair pair{authority.trusting(), authority.issue({.dns_names = {"filer.example"}, .addresses = {}})};

  void SetUp() override {
    ASSERT_TRUE(pair.shake_hands()) << (pair.client_error ? describe(*pair.client_error) : "")
                                    << (pair.server_error ? describe(*pair.server_error) : "");
  }
  // Everything that is there for `end`, up to `most` bytes at a time.
  static ByteVector receive_all(tls::Stream& end, size_t most = 4096) {
    ByteVector all, some(most);
    for (;;) {
      const ssize_t n = end.receive({}, some);
      if (n <= 0) {
        EXPECT_EQ(n, -1);
        EXPECT_EQ(errno, EAGAIN) << end.failure();
        return all;
      }
      all.insert(all.end(), some.begin(), some.begin() + n);
    }
  }
};

TEST_F(TlsStream, Session_IsOfTls13) {
  EXPECT_EQ(pair.client->description().substr(0, 14), "TLSv1.3 with T") << pair.client->description();
  EXPECT_EQ(pair.client->peer(), "CN=peer1");
  EXPECT_EQ(pair.server->peer(), "") << "the client has shown no certificate";
}

TEST_F(TlsStream, Pieces_ArriveInOrder) {
  const ByteVector first = random_bytes(4), second = random_bytes(200), third = random_bytes(5000);
  const std::array<iovec, 3> pieces{piece_of(first), piece_of(second), piece_of(third)};
  ASSERT_EQ(pair.client->send(pieces), 5204);
  EXPECT_FALSE(pair.client->unsent());
  ByteVector wanted = first;
  wanted.insert(wanted.end(), second.begin(), second.end());
  wanted.insert(wanted.end(), third.begin(), third.end());
  EXPECT_EQ(receive_all(*pair.server), wanted);
}

TEST_F(TlsStream, Data_FillsTheDirectPartFirst) {
  const ByteVector sent = random_bytes(3000);
  const std::array<iovec, 1> pieces{piece_of(sent)};
  ASSERT_EQ(pair.server->send(pieces), 3000);
  ByteVector direct(1000), staging(4096);
  ASSERT_EQ(pair.client->receive(direct, staging), 3000);
  EXPECT_TRUE(std::equal(direct.begin(), direct.end(), sent.begin()));
  EXPECT_TRUE(std::equal(sent.begin() + 1000, sent.end(), staging.begin()));
}

// The sender's memory may be used for something else once send() has taken the bytes.
TEST_F(TlsStream, FullSocket_KeepsWhatWasTaken) {
  const ByteVector sent = random_bytes(4u << 20);
  ByteVector received;
  size_t taken = 0;
  bool was_full = false;
  while (taken < sent.size()) {
    ByteVector copy(sent.begin() + static_cast<ptrdiff_t>(taken),
                    sent.begin() + static_cast<ptrdiff_t>(std::min(taken + 40'000, sent.size())));
    const std::array<iovec, 1> pieces{piece_of(copy)};
    const ssize_t n = pair.client->send(pieces);
    std::fill(copy.begin(), copy.end(), std::byte{});
    if (n > 0) {
      EXPECT_LE(static_cast<size_t>(n), tls::Stream::kRecordBytes);
      taken += static_cast<size_t>(n);
      continue;
    }
    ASSERT_EQ(errno, EAGAIN);
    EXPECT_TRUE(pair.client->unsent());
    was_full = true;
    const ByteVector some = receive_all(*pair.server, 70'000);
    received.insert(received.end(), some.begin(), some.end());
  }
  while (!pair.client->flush()) {
    const ByteVector some = receive_all(*pair.server);
    received.insert(received.end(), some.begin(), some.end());
  }
  const ByteVector rest = receive_all(*pair.server);
  received.insert(received.end(), rest.begin(), rest.end());
  EXPECT_TRUE(was_full);
  EXPECT_EQ(received, sent);
}

// RFC 9289 section 5.1.1: "When operation is complete, an RPC peer terminates a TLS session by sending a TLS
// closure alert."
TEST_F(TlsStream, Close_IsTheEndOfThePeersData) {
  const ByteVector sent = random_bytes(10);
  const std::array<iovec, 1> pieces{piece_of(sent)};
  ASSERT_EQ(pair.client->send(pieces), 10);
  pair.client->close();
  ByteVector some(100);
  EXPECT_EQ(pair.server->receive({}, some), 10);
  EXPECT_EQ(pair.server->receive({}, some), 0);
}

TEST_F(TlsStream, EndWithoutAlert_IsAnError) {
  pair.sockets.client.reset();
  ByteVector some(100);
  EXPECT_EQ(pair.server->receive({}, some), -1);
  EXPECT_NE(errno, EAGAIN);
  EXPECT_EQ(pair.server->failure(), "the other end closed the connection");
}

// Whoever changes a byte on the way ends the session, and no changed byte is seen.
TEST_F(TlsStream, ChangedByte_EndsTheSession) {
  for (size_t at : {0u, 1u, 4u, 5u, 50u, 104u}) {
    SessionPair one{authority.trusting(), authority.issue({.dns_names = {"filer.example"}, .addresses = {}})};
    ASSERT_TRUE(one.shake_hands());
    const ByteVector sent = random_bytes(100);
    const std::array<iovec, 1> pieces{piece_of(sent)};
    ASSERT_EQ(one.client->send(pieces), 100);
    ByteVector wire(1000);
    const ssize_t n = ::recv(one.sockets.server.get(), wire.data(), wire.size(), 0);
    ASSERT_GT(n, 104);
    wire[at] ^= std::byte{4};
    SocketPair other;
    ASSERT_EQ(::dup3(other.server.get(), one.sockets.server.get(), O_CLOEXEC), one.sockets.server.get());
    ASSERT_EQ(::send(other.client.get(), wire.data(), static_cast<size_t>(n), 0), n);
    other.client.reset();
    ByteVector some(1000);
    EXPECT_LE(one.server->receive({}, some), 0) << at;
    EXPECT_NE(one.server->failure(), "") << at;
  }
}

}  // namespace
}  // namespace nfsrdma::test
