// SPDX-License-Identifier: Apache-2.0
// NFSv3 calls through libnfs to a scripted server: credentials, lost connections, silence, refusals. The
// bytes are those of RFC 5531 and RFC 1813.
#include <gtest/gtest.h>

#include <cerrno>

#include "client/nfs3/one_call.h"
#include "client/nfs3/procedures.h"
#include "tests/unit/transport/support/eventually.h"
#include "tests/unit/transport/support/peer.h"
#include "tests/unit/transport/support/run_on.h"

namespace nfsrdma::test {
namespace {

using namespace std::chrono_literals;
using client::nfs3::Procedures;

constexpr size_t kProcedureAt = 20, kCredentialAt = 24;
constexpr uint32_t kProcGetattr = 1, kProcWrite = 7;

Task<Result<net::Endpoint>> answer_endpoint(net::Endpoint endpoint) {
  co_return endpoint;
}

net::Endpoint endpoint_of(uint16_t port) {
  net::Endpoint e;
  auto& in = reinterpret_cast<sockaddr_in&>(e.address);
  in.sin_family = AF_INET;
  in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  in.sin_port = htons(port);
  e.length = sizeof in;
  return e;
}

rpc::CredentialPtr user(uint32_t uid) {
  return std::make_shared<rpc::Credential>("here", uid, uid + 1, std::vector<uint32_t>{uid + 2, uid + 3});
}

// GETATTR3resok of a directory with this fileid.
ByteVector attributes(uint32_t fileid) {
  return words({0, /*fattr3*/ 2, 0755, 2, 7, 8, 0, 4096, 0, 4096, 0, 0, 0, 9, 0, fileid, 1, 2, 3, 4, 5, 6});
}

// The uid of an AUTH_SYS call: flavor, length, stamp, machine name, uid.
uint32_t uid_of(const ByteVector& call) {
  EXPECT_EQ(word_at(call, kCredentialAt), 1u) << "AUTH_SYS";
  const size_t name = kCredentialAt + 12;
  return word_at(call, name + 4 + (word_at(call, name) + 3) / 4 * 4);
}

// The library fills AUTH_SYS's stamp from a clock; servers ignore it.
ByteVector without_stamp(ByteVector call) {
  for (size_t i = 0; i < 4; ++i) call.at(kCredentialAt + 8 + i) = std::byte{0};
  return call;
}

class Calls {
 public:
  explicit Calls(uint16_t port, std::chrono::milliseconds timeo = 60s) {
    options_.host = "127.0.0.1";
    options_.timeo = timeo;
    options_.retrans = 0;
    client::nfs3::RpcClient::Hooks hooks;
    hooks.find_server = [port](Loop&) { return answer_endpoint(endpoint_of(port)); };
    hooks.on_reconnected = [this] { ++reconnected; };
    clients_.push_back(std::make_unique<client::nfs3::RpcClient>(*loop_, options_, std::move(hooks)));
  }
  ~Calls() {
    run_on(*loop_, clients_[0]->close());
    EXPECT_TRUE(eventually([this] { return loop_->live_tasks() == 0; }));
    EXPECT_EQ(loop_->live_tasks(), 0u) << "close() left a coroutine";
  }
  Result<> try_start() { return run_on(*loop_, clients_[0]->start()); }
  void start() {
    const Result<> started = try_start();
    ASSERT_TRUE(started) << describe(started.error());
  }
  std::future<Result<client::nfs3::AttributesAnswer>> getattr(rpc::CredentialPtr credential = user(5)) {
    return start_on(*loop_, procedures_.getattr(std::move(credential), "handle"));
  }
  Loop& loop() { return *loop_; }
  Procedures& procedures() { return procedures_; }
  rpc::TransportStatus status() const { return clients_[0]->status(); }

  std::atomic<int> reconnected{0};

 private:
  client::ClientOptions options_;
  LoopThread loop_;
  std::vector<std::unique_ptr<client::nfs3::RpcClient>> clients_;
  Procedures procedures_{clients_};
};

TEST(Nfs3Calls, EachCall_CarriesItsCallersCredential) {
  Peer peer([](Listener& l) {
    PeerSocket s = l.accept();
    for (const uint32_t uid : {5u, 6u, 6u, 5u}) {
      const auto call = s.read_record();
      ASSERT_TRUE(call);
      EXPECT_EQ(word_at(*call, kProcedureAt), kProcGetattr);
      EXPECT_EQ(uid_of(*call), uid);
      s.write_record(reply(xid_of(*call), attributes(uid)));
    }
    EXPECT_TRUE(s.closed_by_client());
  });
  Calls calls(peer.port());
  calls.start();
  for (const uint32_t uid : {5u, 6u, 6u, 5u}) {
    const auto answer = calls.getattr(user(uid)).get();
    ASSERT_TRUE(answer) << describe(answer.error());
    EXPECT_EQ(answer->object.attributes.ino, uid);
    EXPECT_FALSE(answer->repeated);
  }
}

// RFC 1813 section 4.5: the server recognizes a call that it has executed by its XID.
TEST(Nfs3Calls, LostConnection_SendsTheSameCallAgain) {
  Peer peer([](Listener& l) {
    PeerSocket s = l.accept();
    const auto first = s.read_record();
    ASSERT_TRUE(first);
    const ByteVector answer = record(reply(xid_of(*first), attributes(77)));
    s.write(ConstBytes(answer).first(answer.size() / 2));
    s.close();
    s = l.accept();
    const auto second = s.read_record();
    ASSERT_TRUE(second);
    EXPECT_EQ(without_stamp(*second), without_stamp(*first));
    s.write(answer);
    EXPECT_TRUE(s.closed_by_client());
  });
  Calls calls(peer.port());
  calls.start();
  const auto answer = calls.getattr().get();
  ASSERT_TRUE(answer) << describe(answer.error());
  EXPECT_EQ(answer->object.attributes.ino, 77u);
  EXPECT_TRUE(answer->repeated);
  EXPECT_EQ(calls.reconnected, 1);
  EXPECT_EQ(calls.status().connects, 2u);
  EXPECT_EQ(calls.status().retransmissions, 1u);
}

TEST(Nfs3Calls, SilentServer_IsGivenUpAfterTimeo) {
  Peer peer([](Listener& l) {
    PeerSocket silent = l.accept();
    ASSERT_TRUE(silent.read_record());
    EXPECT_TRUE(silent.closed_by_client());
    PeerSocket s = l.accept();
    const auto call = s.read_record();
    ASSERT_TRUE(call);
    s.write_record(reply(xid_of(*call), attributes(1)));
    EXPECT_TRUE(s.closed_by_client());
  });
  Calls calls(peer.port(), 100ms);
  calls.start();
  ASSERT_TRUE(calls.getattr().get());
  EXPECT_TRUE(calls.status().responding);
}

TEST(Nfs3Calls, RefusedCall_IsAnErrorAndNotRepeated) {
  Peer peer([](Listener& l) {
    PeerSocket s = l.accept();
    const auto call = s.read_record();
    ASSERT_TRUE(call);
    // MSG_ACCEPTED, AUTH_NONE, GARBAGE_ARGS.
    s.write_record(words({xid_of(*call), 1, 0, 0, 0, 4}));
    EXPECT_TRUE(s.closed_by_client());
  });
  Calls calls(peer.port());
  calls.start();
  const auto answer = calls.getattr().get();
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().errnum, EIO);
}

TEST(Nfs3Calls, NfsError_IsAnAnswer) {
  Peer peer([](Listener& l) {
    PeerSocket s = l.accept();
    const auto call = s.read_record();
    ASSERT_TRUE(call);
    s.write_record(reply(xid_of(*call), words({70})));
    EXPECT_TRUE(s.closed_by_client());
  });
  Calls calls(peer.port());
  calls.start();
  const auto answer = calls.getattr().get();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, client::nfs3::NFS3ERR_STALE_);
}

TEST(Nfs3Calls, Write_CarriesItsDataUnharmed) {
  BufferPool pool;
  Slice data = pool.slice(300'001);
  const ByteVector bytes = pattern(data.size(), 3);
  std::copy(bytes.begin(), bytes.end(), data.bytes.begin());
  Peer peer([&](Listener& l) {
    PeerSocket s = l.accept();
    const auto call = s.read_record();
    ASSERT_TRUE(call);
    EXPECT_EQ(word_at(*call, kProcedureAt), kProcWrite);
    const size_t padded = (bytes.size() + 3) / 4 * 4;
    ASSERT_GT(call->size(), padded);
    const ConstBytes sent = ConstBytes(*call).subspan(call->size() - padded, bytes.size());
    EXPECT_TRUE(std::equal(sent.begin(), sent.end(), bytes.begin()));
    // No attributes, count, FILE_SYNC, verifier.
    s.write_record(reply(xid_of(*call), words({0, 0, 0, static_cast<uint32_t>(bytes.size()), 2, 1, 2})));
    EXPECT_TRUE(s.closed_by_client());
  });
  Calls calls(peer.port());
  calls.start();
  const auto answer = run_on(calls.loop(), calls.procedures().write(user(5), "handle", 9, data, 0));
  ASSERT_TRUE(answer) << describe(answer.error());
  EXPECT_EQ(answer->count, bytes.size());
  EXPECT_EQ(answer->committed, 2u);
  EXPECT_FALSE(answer->wcc.after);
}

TEST(Nfs3Calls, NobodyListens_StartSaysSo) {
  uint16_t port = 0;
  {
    Listener l;
    port = l.port();
  }
  Calls calls(port);
  const Result<> started = calls.try_start();
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().errnum, ECONNREFUSED) << describe(started.error());
  EXPECT_EQ(started.error().recovery, Recovery::kReconnect);
}

TEST(Nfs3Calls, Closing_EndsWhatWaits) {
  Peer peer([](Listener& l) {
    PeerSocket s = l.accept();
    ASSERT_TRUE(s.read_record());
    EXPECT_TRUE(s.closed_by_client());
  });
  std::future<Result<client::nfs3::AttributesAnswer>> waiting;
  {
    Calls calls(peer.port());
    calls.start();
    waiting = calls.getattr();
    ASSERT_TRUE(eventually([&] { return calls.status().calls != 0; }));
  }
  const auto answer = waiting.get();
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().recovery, Recovery::kInterrupted);
}

TEST(Nfs3Mount, Refusal_HasItsErrno) {
  Peer peer([](Listener& l) {
    PeerSocket s = l.accept();
    const auto call = s.read_record();
    ASSERT_TRUE(call);
    s.write_record(reply(xid_of(*call), words({13})));
    EXPECT_TRUE(s.closed_by_client());
  });
  LoopThread loop;
  const auto handle =
      run_on(*loop, client::nfs3::mount_export(*loop, endpoint_of(peer.port()), "/e", user(0)));
  ASSERT_FALSE(handle);
  EXPECT_EQ(handle.error().errnum, EACCES);
  EXPECT_EQ(handle.error().recovery, Recovery::kPermanent);
}

// RFC 1813 appendix I, section 5.2.1: "auth_flavors ... that are supported by the server".
TEST(Nfs3Mount, ExportWithoutAuthSys_IsRefused) {
  for (const uint32_t flavor : {0u, 1u, 390003u}) {
    Peer peer([&](Listener& l) {
      PeerSocket s = l.accept();
      const auto call = s.read_record();
      ASSERT_TRUE(call);
      s.write_record(reply(xid_of(*call), words({0, 8, 1, 2, 1, flavor})));
      EXPECT_TRUE(s.closed_by_client());
    });
    LoopThread loop;
    const auto handle =
        run_on(*loop, client::nfs3::mount_export(*loop, endpoint_of(peer.port()), "/e", user(0)));
    EXPECT_EQ(handle.has_value(), flavor != 390003) << flavor;
    EXPECT_EQ(handle ? handle->size() : 8u, 8u);
  }
}

// --- replies with false lengths: they cost only the call (RFC 4506 section 4.10: a length is followed by
// that many bytes) ---

// The server answers one call with `results`, in fragments of `fragment` bytes.
Peer answering(ByteVector results, size_t fragment = 0) {
  return Peer([results = std::move(results), fragment](Listener& l) {
    PeerSocket s = l.accept();
    const auto call = s.read_record();
    ASSERT_TRUE(call);
    s.write_record(reply(xid_of(*call), results), fragment);
    EXPECT_TRUE(s.closed_by_client());
  });
}

TEST(Nfs3Hostile, MoreFlavorsThanTheMessageHasRoomFor_AreNoMount) {
  // Multiplied by four in 32 bits, this count becomes 4 bytes.
  for (const uint32_t count : {0x40000001u, 0x80000001u, 0xffffffffu, 2001u}) {
    ByteVector results = concat({words({0, 8, 1, 2, count}), ByteVector(8000)});
    Peer peer = answering(std::move(results));
    LoopThread loop;
    const auto handle =
        run_on(*loop, client::nfs3::mount_export(*loop, endpoint_of(peer.port()), "/e", user(0)));
    EXPECT_FALSE(handle) << count;
  }
}

TEST(Nfs3Hostile, HandlesThatAreLongerThanTheMessage_AreNone) {
  for (const uint32_t length : {0x7fffffffu, 0x80000000u, 0xfffffffcu, 65u, 64u}) {
    Peer peer = answering(words({0, length, 1, 2, 0, 0}));
    Calls calls(peer.port());
    calls.start();
    const auto answer = run_on(calls.loop(), calls.procedures().lookup(user(5), "handle", "name"));
    ASSERT_FALSE(answer) << length;
    EXPECT_EQ(answer.error().errnum, EIO);
  }
}

TEST(Nfs3Hostile, DataThatIsLongerThanTheMessage_IsNone) {
  BufferPool pool;
  for (const uint32_t length : {0x7fffffffu, 0xffffffffu, 4097u}) {
    Peer peer = answering(concat({words({0, 0, 4096, 1, length}), ByteVector(4096)}));
    Calls calls(peer.port());
    calls.start();
    EXPECT_FALSE(run_on(calls.loop(), calls.procedures().read(user(5), "handle", 0, pool.slice(8192))));
  }
}

// RFC 5531 section 11: "A record is composed of one or more record fragments." The library keeps them until
// the last one arrives.
TEST(Nfs3Hostile, RecordWithoutAnEnd_IsNotKept) {
  for (const size_t size : {size_t{0}, size_t{1000}, size_t{1} << 20}) {
    std::atomic<size_t> sent = 0;
    Peer peer([&](Listener& l) {
      PeerSocket s = l.accept();
      const auto call = s.read_record();
      ASSERT_TRUE(call);
      ByteVector fragment = words({static_cast<uint32_t>(size)});  // not the last fragment
      fragment.resize(4 + size);
      while (sent < 64u << 20 && s.write(fragment)) sent += fragment.size();
      s.close();
      // After that, the same call again.
      s = l.accept();
      const auto again = s.read_record();
      ASSERT_TRUE(again);
      s.write_record(reply(xid_of(*again), attributes(77)));
      EXPECT_TRUE(s.closed_by_client());
    });
    Calls calls(peer.port());
    calls.start();
    const auto answer = calls.getattr().get();
    ASSERT_TRUE(answer) << describe(answer.error());
    EXPECT_EQ(answer->object.attributes.ino, 77u);
    // The sockets' buffers hold some more than what was read.
    EXPECT_LT(sent, 64u << 20) << size;
  }
}

// The library's decoder recurses once per entry.
TEST(Nfs3Hostile, ListingWithoutAnEnd_DoesNotOverflowTheStack) {
  const ByteVector entry = words({1, 0, 7, 0, 0, 9});
  ByteVector entries;
  for (int i = 0; i < 44'000; ++i) entries.insert(entries.end(), entry.begin(), entry.end());
  Peer peer = answering(concat({words({0, 0, 0, 0}), entries, words({0, 1})}), 512u << 10);
  Calls calls(peer.port());
  calls.start();
  const auto answer =
      run_on(calls.loop(), calls.procedures().readdir(user(5), "handle", 0, {}, 128u << 10, false));
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().errnum, EIO);
}

// The longest listing that the client requests: 128 KiB of the shortest possible names.
TEST(Nfs3Hostile, LongestListingThatIsAskedFor_IsRead) {
  const ByteVector entry = words({1, 0, 7, 1, 0x61000000, 0, 9});
  constexpr size_t kEntries = (128u << 10) / 28 - 8;
  ByteVector entries;
  for (size_t i = 0; i < kEntries; ++i) entries.insert(entries.end(), entry.begin(), entry.end());
  Peer peer = answering(concat({words({0, 0, 0, 0}), entries, words({0, 1})}));
  Calls calls(peer.port());
  calls.start();
  const auto answer =
      run_on(calls.loop(), calls.procedures().readdir(user(5), "handle", 0, {}, 128u << 10, false));
  ASSERT_TRUE(answer) << describe(answer.error());
  EXPECT_EQ(answer->entries.size(), kEntries);
}

}  // namespace
}  // namespace nfsrdma::test
