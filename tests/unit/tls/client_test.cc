// SPDX-License-Identifier: Apache-2.0
// How a client asks for TLS on a new connection, against servers that answer well, badly and not at all.
#include "transport/tls/client.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <functional>
#include <thread>

#include "tests/unit/support/certificates.h"
#include "tests/unit/transport/support/run_on.h"
#include "transport/runtime/fd.h"
#include "transport/tls/starttls.h"
#include "xdr/record_mark.h"

namespace nfsrdma::test {
namespace {

using namespace std::chrono_literals;

constexpr uint32_t kProgram = 100003;
constexpr uint32_t kVersion = 4;

// A connection to a server's function, which runs in a thread of its own with blocking calls.
class Served {
 public:
  explicit Served(std::function<void(int)> serve) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    client_ = Fd(ends[0]);
    EXPECT_EQ(fcntl(client_.get(), F_SETFL, O_NONBLOCK), 0);
    server_ = std::thread([serve = std::move(serve), fd = ends[1]] {
      const Fd mine(fd);
      serve(mine.get());
    });
  }
  ~Served() {
    client_.reset();
    server_.join();
  }
  int client() const { return client_.get(); }

 private:
  Fd client_;
  std::thread server_;
};

ByteVector receive(int fd, size_t bytes) {
  ByteVector all(bytes);
  const ssize_t n = ::recv(fd, all.data(), bytes, MSG_WAITALL);
  all.resize(n < 0 ? 0 : static_cast<size_t>(n));
  return all;
}

// Receives the probe; returns its XID, or nullopt if it is not as RFC 9289 section 4.1 says.
std::optional<rpc::Xid> receive_probe(int fd) {
  const ByteVector bytes = receive(fd, 44);
  if (bytes.size() != 44) return std::nullopt;
  const auto mark = rpc::decode_record_mark(std::span(bytes).first<rpc::kRecordMarkBytes>());
  if (!mark.last || mark.length != 40) return std::nullopt;
  xdr::Decoder x(ConstBytes(bytes).subspan(4));
  rpc::call_header call;
  if (!x(call) || x.left() != 0 || !tls::is_probe(call)) return std::nullopt;
  if (call.prog != kProgram || call.vers != kVersion) return std::nullopt;
  return call.xid;
}

void send_record(int fd, ConstBytes message) {
  const auto mark = rpc::encode_record_mark({true, static_cast<uint32_t>(message.size())});
  EXPECT_EQ(::send(fd, mark.data(), mark.size(), MSG_NOSIGNAL), 4);
  EXPECT_EQ(::send(fd, message.data(), message.size(), MSG_NOSIGNAL), static_cast<ssize_t>(message.size()));
}

// Until the client has closed the connection.
void wait_for_end(int fd) {
  char byte = 0;
  while (::recv(fd, &byte, 1, 0) > 0) {
  }
}

struct TlsClient : testing::Test {
  Authority authority;
  tls::Settings server_settings = authority.issue({.dns_names = {"filer.example"}, .addresses = {}});
  LoopThread loop;

  tls::ClientOptions options(Duration timeout = 20s) const {
    return {.settings = authority.trusting(),
            .host = "filer.example",
            .program = kProgram,
            .version = kVersion,
            .timeout = std::chrono::duration_cast<std::chrono::milliseconds>(timeout)};
  }
  Result<std::unique_ptr<tls::Stream>> secure(const Served& served, tls::ClientOptions options) {
    tls::Client client(*loop, std::move(options));
    return run_on(*loop, client.secure(served.client()));
  }
  std::string told(std::function<void(int)> serve, Recovery wanted = Recovery::kPermanent) {
    const Served served(std::move(serve));
    const auto made = secure(served, options());
    EXPECT_FALSE(made);
    if (made) return "";
    EXPECT_EQ(made.error().recovery, wanted) << describe(made.error());
    return made.error().cause;
  }
  // Answers the probe with `message`, whose first word becomes the XID.
  std::string told_after(ByteVector message) {
    return told([message = std::move(message)](int fd) mutable {
      const auto xid = receive_probe(fd);
      ASSERT_TRUE(xid);
      store_be32(message.data(), static_cast<uint32_t>(*xid));
      send_record(fd, message);
      wait_for_end(fd);
    });
  }
};

TEST_F(TlsClient, ServerThatOffersTls_GetsASession) {
  const Served served([&](int fd) {
    const auto xid = receive_probe(fd);
    ASSERT_TRUE(xid);
    send_record(fd, tls::offer(*xid));
    auto stream = *tls::Stream::accept(*tls::Context::server(server_settings, false), fd);
    ASSERT_TRUE(stream->handshake()) << stream->failure();
    ByteVector some(5);
    EXPECT_EQ(stream->receive({}, some), 5);
    iovec piece{some.data(), some.size()};
    EXPECT_EQ(stream->send(std::span(&piece, 1)), 5);
    wait_for_end(fd);
  });
  auto made = secure(served, options());
  ASSERT_TRUE(made) << describe(made.error());
  std::string hello = "hello";
  iovec piece{hello.data(), hello.size()};
  EXPECT_EQ((*made)->send(std::span(&piece, 1)), 5);
  pollfd file{served.client(), POLLIN, 0};
  EXPECT_EQ(::poll(&file, 1, 30'000), 1);
  ByteVector some(10);
  EXPECT_EQ((*made)->receive({}, some), 5);
}

ByteVector words(std::initializer_list<uint32_t> list) {
  ByteVector message;
  for (const uint32_t word : list) {
    message.resize(message.size() + 4);
    store_be32(message.data() + message.size() - 4, word);
  }
  return message;
}

// RFC 9289 section 4.1: "if the Reply's reply_stat is not MSG_ACCEPTED, if its verifier flavor is not
// AUTH_NONE, or if its verifier does not contain the "STARTTLS" token, the RPC client MUST NOT send a
// "ClientHello" message."
TEST_F(TlsClient, ServerWithoutTls_IsTold) {
  constexpr const char* kNone = "the server does not offer TLS";
  EXPECT_EQ(told_after(words({0, rpc::REPLY, rpc::MSG_ACCEPTED, rpc::AUTH_NONE, 0, rpc::SUCCESS})), kNone);
  EXPECT_EQ(told_after(words({0, rpc::REPLY, rpc::MSG_DENIED, rpc::AUTH_ERROR, rpc::AUTH_BADCRED})), kNone);
  EXPECT_EQ(told_after(words({0, rpc::REPLY, rpc::MSG_DENIED, rpc::RPC_MISMATCH, 2, 2})), kNone);
  ByteVector other_token = tls::offer({});
  other_token[20] = std::byte{'s'};
  EXPECT_EQ(told_after(other_token), kNone);
  ByteVector other_flavor = tls::offer({});
  store_be32(other_flavor.data() + 12, rpc::AUTH_SYS);
  EXPECT_EQ(told_after(other_flavor), kNone);
}

// "The client SHOULD proceed with TLS session establishment, even if the Reply's accept_stat is not SUCCESS."
TEST_F(TlsClient, OfferWithAnotherAcceptStat_IsAnOffer) {
  const ByteVector message =
      words({7, rpc::REPLY, rpc::MSG_ACCEPTED, rpc::AUTH_NONE, 8, 0x53544152, 0x54544c53, rpc::PROG_UNAVAIL});
  EXPECT_EQ(tls::judge(message, rpc::Xid{7}), tls::Answer::kOffered);
  EXPECT_EQ(tls::judge(message, rpc::Xid{8}), tls::Answer::kBroken);
}

TEST_F(TlsClient, AnswerCutAtAnyByte_IsBroken) {
  const ByteVector offer = tls::offer(rpc::Xid{7});
  EXPECT_EQ(offer.size(), tls::kOfferBytes - rpc::kRecordMarkBytes);
  for (size_t at = 0; at < offer.size(); ++at)
    EXPECT_EQ(tls::judge(ConstBytes(offer).first(at), rpc::Xid{7}), tls::Answer::kBroken) << at;
}

TEST_F(TlsClient, AnswerThatIsTooLong_IsNotRead) {
  EXPECT_EQ(told([](int fd) {
              ASSERT_TRUE(receive_probe(fd));
              const auto mark = rpc::encode_record_mark({true, 1u << 30});
              EXPECT_EQ(::send(fd, mark.data(), mark.size(), MSG_NOSIGNAL), 4);
              wait_for_end(fd);
            }),
            "the server's answer cannot be understood");
}

TEST_F(TlsClient, ServerThatCloses_IsAskedAgainLater) {
  EXPECT_EQ(told([](int fd) { ASSERT_TRUE(receive_probe(fd)); }, Recovery::kReconnect),
            "the server closed the connection when it was asked for TLS");
  EXPECT_EQ(told(
                [](int fd) {
                  const auto xid = receive_probe(fd);
                  ASSERT_TRUE(xid);
                  send_record(fd, tls::offer(*xid));
                  std::array<char, 10'000> hello;
                  EXPECT_GT(::recv(fd, hello.data(), hello.size(), 0), 100);
                },
                Recovery::kReconnect),
            "the other end closed the connection");
}

TEST_F(TlsClient, SilentServer_IsGivenUp) {
  const Served served([](int fd) { wait_for_end(fd); });
  const auto made = secure(served, options(200ms));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().errnum, ETIMEDOUT);
  EXPECT_EQ(made.error().recovery, Recovery::kReconnect);
}

TEST_F(TlsClient, Cancel_EndsTheWait) {
  const Served served([](int fd) { wait_for_end(fd); });
  tls::Client client(*loop, options());
  auto future = start_on(*loop, client.secure(served.client()));
  call_on(*loop, [&] { client.cancel(); });
  const auto made = future.get();
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().recovery, Recovery::kInterrupted);
}

TEST_F(TlsClient, CertificateOfAnotherHost_IsToldAndFinal) {
  const std::string text = told([&](int fd) {
    const auto xid = receive_probe(fd);
    ASSERT_TRUE(xid);
    send_record(fd, tls::offer(*xid));
    const auto other = authority.issue({.dns_names = {"other.example"}, .addresses = {}});
    auto stream = *tls::Stream::accept(*tls::Context::server(other, false), fd);
    EXPECT_FALSE(stream->handshake());
  });
  EXPECT_EQ(text, "the server's certificate is not for filer.example; it is for: other.example");
}

TEST_F(TlsClient, FileThatIsMissing_IsToldBeforeAnythingIsSent) {
  tls::ClientOptions wanted = options();
  wanted.settings.trust = "/nonexistent/ca.pem";
  const Served served([](int fd) { EXPECT_TRUE(receive(fd, 1).empty()); });
  const auto made = secure(served, std::move(wanted));
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().cause.find("/nonexistent/ca.pem"), std::string::npos) << describe(made.error());
}

}  // namespace
}  // namespace nfsrdma::test
