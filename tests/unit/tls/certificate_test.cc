// SPDX-License-Identifier: Apache-2.0
// Which certificates are accepted, and what a person is told of the others.
#include <fcntl.h>
#include <openssl/ssl.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "tests/unit/tls/session_pair.h"

namespace nfsrdma::test {
namespace {

struct Certificates : testing::Test {
  Authority authority;

  // What the client says of a server with this certificate; "": it accepts it.
  std::string told(const Wanted& wanted, const std::string& host) {
    return told_of(authority.issue(wanted), host);
  }
  std::string told_of(const tls::Settings& server, const std::string& host) {
    SessionPair pair(authority.trusting(), server, host);
    if (pair.shake_hands()) return "";
    if (!pair.client_error) return "no error";
    EXPECT_EQ(pair.client_error->recovery, Recovery::kPermanent);
    EXPECT_EQ(pair.client_error->layer, Layer::kSecurity);
    EXPECT_EQ(pair.client_error->cause.find('\n'), std::string::npos);
    return pair.client_error->cause;
  }
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// RFC 9289 section 5.2.1: "Server certificate validation MUST include a check on whether the locally
// configured expected DNS-ID or iPAddress subjectAltName of the server that is contacted matches its
// presented certificate."
TEST_F(Certificates, NameOfTheServer_MustBeInTheCertificate) {
  const Wanted wanted{.dns_names = {"filer.example", "other.example"}, .addresses = {"10.0.0.1", "::1"}};
  EXPECT_EQ(told(wanted, "filer.example"), "");
  EXPECT_EQ(told(wanted, "FILER.example"), "");
  EXPECT_EQ(told(wanted, "10.0.0.1"), "");
  EXPECT_EQ(told(wanted, "::1"), "");
  EXPECT_EQ(told(wanted, "evil.example"),
            "the server's certificate is not for evil.example; it is for: filer.example, other.example, "
            "10.0.0.1, ::1");
  EXPECT_TRUE(has(told(wanted, "10.0.0.2"), "is not for 10.0.0.2"));
  EXPECT_TRUE(has(told({.dns_names = {}, .addresses = {}}, "peer1"), "it is for: none"))
      << "the subject's CN does not count";
}

// "DNS domain names in RPC-with-TLS certificates MUST NOT contain the wildcard character '*' within the
// identifier."
TEST_F(Certificates, Wildcard_IsNoName) {
  EXPECT_TRUE(
      has(told({.dns_names = {"*.example"}, .addresses = {}}, "filer.example"), "it is for: *.example"));
}

TEST_F(Certificates, TimeOfValidity_Counts) {
  const Wanted expired{.dns_names = {"filer.example"},
                       .addresses = {},
                       .purpose = {},
                       .valid_from_seconds = -7200,
                       .valid_until_seconds = -3600};
  EXPECT_TRUE(has(told(expired, "filer.example"), "expired on ")) << told(expired, "filer.example");
  const Wanted early{.dns_names = {"filer.example"},
                     .addresses = {},
                     .purpose = {},
                     .valid_from_seconds = 3600,
                     .valid_until_seconds = 7200};
  EXPECT_TRUE(has(told(early, "filer.example"), "is this machine's clock right?"));
}

TEST_F(Certificates, OfAStranger_AreNotAccepted) {
  Authority stranger("Stranger");
  const auto theirs = stranger.issue({.dns_names = {"filer.example"}, .addresses = {}});
  const std::string text = told_of(theirs, "filer.example");
  EXPECT_TRUE(has(text, "signed by nobody whom this machine trusts")) << text;
  EXPECT_TRUE(has(text, "tls_ca=FILE"));
  // An authority of the same name with another key.
  Authority impostor;
  EXPECT_NE(told_of(impostor.issue({.dns_names = {"filer.example"}, .addresses = {}}), "filer.example"), "");
}

TEST_F(Certificates, ForClientsOnly_AreNotAServers) {
  Wanted wanted{.dns_names = {"filer.example"}, .addresses = {}, .purpose = "clientAuth"};
  EXPECT_TRUE(has(told(wanted, "filer.example"), "not one for servers"));
  wanted.purpose = "serverAuth";
  EXPECT_EQ(told(wanted, "filer.example"), "");
}

// ---------------------------------------------------------------------------------------------------------
// Of clients.

struct ClientCertificates : Certificates {
  tls::Settings server = authority.issue({.dns_names = {"filer.example"}, .addresses = {}});
};

TEST_F(ClientCertificates, OfTheAuthority_AreAcceptedAndNamed) {
  SessionPair pair(authority.issue({.dns_names = {}, .addresses = {}, .purpose = "clientAuth"}), server,
                   "filer.example", true);
  ASSERT_TRUE(pair.shake_hands());
  EXPECT_EQ(pair.server->peer(), "CN=peer2");
}

// With TLS 1.3 the client's handshake ends before the server has seen its certificate: the first receive()
// says what the server thinks of it.
TEST_F(ClientCertificates, ThatAreMissing_AreAskedFor) {
  SessionPair pair(authority.trusting(), server, "filer.example", true);
  EXPECT_FALSE(pair.shake_hands());
  ASSERT_TRUE(pair.server_error);
  EXPECT_EQ(pair.server_error->cause, "the client has no certificate");
  ByteVector some(10);
  EXPECT_EQ(pair.client->receive({}, some), -1);
  EXPECT_EQ(errno, EPROTO);
  EXPECT_TRUE(has(pair.client->failure(), "xprtsec=mtls, tls_cert=FILE")) << pair.client->failure();
}

TEST_F(ClientCertificates, OfAStranger_AreRefused) {
  Authority stranger("Stranger");
  tls::Settings mine = stranger.issue({.dns_names = {}, .addresses = {}});
  mine.trust = authority.file();
  for (const bool mutual : {false, true}) {
    SessionPair pair(mine, server, "filer.example", mutual);
    EXPECT_FALSE(pair.shake_hands()) << "a certificate that is shown must be good, also where none is asked";
    ASSERT_TRUE(pair.server_error);
    EXPECT_TRUE(has(pair.server_error->cause, "the client's certificate is signed by nobody"))
        << pair.server_error->cause;
    ByteVector some(10);
    EXPECT_EQ(pair.client->receive({}, some), -1);
    EXPECT_EQ(pair.client->failure(), "the other end does not trust whoever signed our certificate");
  }
}

// ---------------------------------------------------------------------------------------------------------
// Peers that do not follow RFC 9289 section 5.

// A server that is OpenSSL's, with rules of its own.
struct OddServer {
  SocketPair sockets;
  std::shared_ptr<SSL_CTX> context{SSL_CTX_new(TLS_server_method()), SSL_CTX_free};
  std::shared_ptr<SSL> ssl;
  std::unique_ptr<tls::Stream> client;

  OddServer(const tls::Settings& settings, int version, bool with_alpn, const tls::Settings& trusting) {
    SSL_CTX_set_max_proto_version(context.get(), version);
    SSL_CTX_use_certificate_chain_file(context.get(), settings.certificate.c_str());
    SSL_CTX_use_PrivateKey_file(context.get(), settings.key.c_str(), SSL_FILETYPE_PEM);
    if (with_alpn) {
      SSL_CTX_set_alpn_select_cb(
          context.get(),
          [](SSL*, const unsigned char** out, unsigned char* bytes, const unsigned char* in, unsigned int,
             void*) {
            *out = in + 1;
            *bytes = *in;
            return SSL_TLSEXT_ERR_OK;
          },
          nullptr);
    }
    ssl.reset(SSL_new(context.get()), SSL_free);
    SSL_set_fd(ssl.get(), sockets.server.get());
    client = *tls::Stream::connect(*tls::Context::client(trusting), sockets.client.get(), "filer.example");
  }
  // The client's error; "": there is none.
  std::string run() {
    for (int i = 0; i < 20; ++i) {
      const auto step = client->handshake();
      if (!step) return step.error().cause;
      if (*step == tls::Stream::Step::kDone) return "";
      SSL_accept(ssl.get());
    }
    return "no end";
  }
};

TEST_F(ClientCertificates, ServerWithoutAlpn_IsNotUsed) {
  EXPECT_EQ(OddServer(server, TLS1_3_VERSION, true, authority.trusting()).run(), "");
  EXPECT_TRUE(has(OddServer(server, TLS1_3_VERSION, false, authority.trusting()).run(), "ALPN"));
}

// "Implementations MUST NOT negotiate TLS versions prior to 1.3".
TEST_F(ClientCertificates, ServerWithTls12_IsNotUsed) {
  EXPECT_EQ(OddServer(server, TLS1_2_VERSION, true, authority.trusting()).run(),
            "the other end has no TLS 1.3");
}

TEST_F(ClientCertificates, PeerWithoutTls_IsTold) {
  SocketPair sockets;
  auto client = *tls::Stream::connect(*tls::Context::client(authority.trusting()), sockets.client.get(), "h");
  ASSERT_TRUE(client->handshake());
  constexpr std::string_view kText = "HTTP/1.1 400 Bad Request\r\n\r\n";
  ASSERT_GT(::send(sockets.server.get(), kText.data(), kText.size(), 0), 0);
  const auto step = client->handshake();
  ASSERT_FALSE(step);
  EXPECT_EQ(step.error().cause, "the other end does not answer with TLS");
}

// A server's flight that ends at any byte neither ends the client's handshake nor its process.
TEST_F(ClientCertificates, HandshakeCutAtAnyByte_IsAnError) {
  size_t length = 1;
  for (size_t at = 0; at < length; at += 7) {
    SessionPair pair(authority.trusting(), server);
    ASSERT_TRUE(pair.client->handshake());
    ASSERT_TRUE(pair.server->handshake());
    ByteVector flight(20'000);
    const ssize_t n = ::recv(pair.sockets.client.get(), flight.data(), flight.size(), 0);
    ASSERT_GT(n, 500);
    length = static_cast<size_t>(n);
    SocketPair other;
    ASSERT_EQ(::dup3(other.client.get(), pair.sockets.client.get(), O_CLOEXEC), pair.sockets.client.get());
    ASSERT_EQ(::send(other.server.get(), flight.data(), at, 0), static_cast<ssize_t>(at));
    other.server.reset();
    other.client.reset();
    const auto step = pair.client->handshake();
    ASSERT_FALSE(step) << at;
    EXPECT_EQ(step.error().recovery, Recovery::kReconnect) << at << " " << describe(step.error());
  }
}

// ---------------------------------------------------------------------------------------------------------
// Files.

TEST_F(Certificates, FilesThatCannotBeUsed_AreNamed) {
  const tls::Settings good = authority.issue({.dns_names = {"filer.example"}, .addresses = {}});
  tls::Settings bad = good;
  bad.certificate = authority.path("missing.pem");
  auto context = tls::Context::server(bad, false);
  ASSERT_FALSE(context);
  EXPECT_TRUE(has(context.error().cause, "missing.pem: No such file")) << context.error().cause;
  std::ofstream(authority.path("empty.pem")) << "nothing\n";
  bad = good;
  bad.key = authority.path("empty.pem");
  EXPECT_FALSE(tls::Context::server(bad, false));
  bad.key = authority.issue({.dns_names = {}, .addresses = {}}).key;
  context = tls::Context::server(bad, false);
  ASSERT_FALSE(context);
  EXPECT_TRUE(has(context.error().cause, "it does not belong to the certificate")) << context.error().cause;
  bad = good;
  bad.trust = authority.path("empty.pem");
  EXPECT_FALSE(tls::Context::client(bad));
}

// A renewed certificate counts for the next connection, without a remount.
TEST_F(Certificates, RenewedFile_CountsForTheNextContext) {
  const tls::Settings first = authority.issue({.dns_names = {"filer.example"}, .addresses = {}});
  const tls::Settings second = authority.issue({.dns_names = {"new.example"}, .addresses = {}});
  EXPECT_EQ(told_of(first, "filer.example"), "");
  std::filesystem::copy_file(second.certificate, first.certificate,
                             std::filesystem::copy_options::overwrite_existing);
  std::filesystem::copy_file(second.key, first.key, std::filesystem::copy_options::overwrite_existing);
  EXPECT_NE(told_of(first, "filer.example"), "");
  EXPECT_EQ(told_of(first, "new.example"), "");
}

}  // namespace
}  // namespace nfsrdma::test
