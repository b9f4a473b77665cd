// SPDX-License-Identifier: Apache-2.0
// The Responder of a TestServer, and a client whose messages a test writes byte by byte.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "tests/unit/rdma/support/rdma_rig.h"
#include "xdr/rpcrdma/header.h"

namespace nfsrdma::test {

using namespace nfsrdma::rpcrdma;  // NOLINT: the tests use little else

inline constexpr uint32_t kCreditsGranted = 4;
inline constexpr uint32_t kXid = 0x1234;

// The RPC call of every test: the server returns its `arguments` as results.
inline ByteVector rpc_call(uint32_t xid, ConstBytes arguments = {}) {
  ByteVector message = call_head(arguments);
  store_be32(message.data(), xid);
  return message;
}

class RawClient : public testing::Test {
 protected:
  LoopThread loop;
  std::atomic<size_t> read_bytes{SIZE_MAX};  // length of the READ in the results
  std::atomic<bool> silent{false};           // calls get no reply
  std::atomic<size_t> calls{0};
  std::unique_ptr<TestServer> server;
  Side client;
  std::unique_ptr<fabric::Fabric> fabric_;

  virtual rdma::ResponderOptions options() const {
    rdma::ResponderOptions options;
    options.credits = kCreditsGranted;
    options.max_call_bytes = 100'000;
    options.max_segments = 3;
    options.max_read_chunks = 2;
    options.max_write_chunks = 1;
    return options;
  }
  void SetUp() override {
    server = std::make_unique<TestServer>(*loop, options(),
                                          [this](auto& c, ByteVector message) { answer(c, message); });
    call_on(*loop, [this] { fabric_ = fabric::iwarp::make_fabric(*loop); });
    fabric::ConnectOptions to;
    to.host = "127.0.0.1";
    to.port = server->port();
    to.endpoint = rdma::make_endpoint_options(16384, 64, {true, 4096, 4096});
    auto connected = run_on(*loop, fabric_->connect(to));
    ASSERT_TRUE(connected) << describe(connected.error());
    client.endpoint = *std::move(connected);
    call_on(*loop, [this] { client.endpoint->start(client); });
  }
  void TearDown() override {
    call_on(*loop, [this] { client.endpoint.reset(); });
    server.reset();
    call_on(*loop, [this] { fabric_.reset(); });
  }

  virtual void answer(TestServer::Connection& c, const ByteVector& message) {
    ++calls;
    if (silent) return;
    const uint32_t xid = xid_of(message);
    if (read_bytes == SIZE_MAX)
      return c.responder->send(reply(xid, ConstBytes(message).subspan(kCallHeaderBytes)));
    const ByteVector data = pattern(read_bytes, xid);
    const rpc::BulkPlace place[] = {{kReadDataOffset, data.size()}};
    c.responder->send(reply(xid, read_results(data)), place);
  }

  // --- sending ---
  header header_of(uint32_t vers, uint32_t xid = kXid, proc type = RDMA_MSG) {
    header h;
    h.xid = xid;
    h.vers = vers;
    h.credit = 8;
    h.type = type;
    return h;
  }
  void send(ConstBytes message) {
    call_on(*loop, [&] {
      const ConstBytes parts[] = {message};
      client->send(parts);
    });
  }
  void send(const header& h, ConstBytes body = {}) {
    ByteVector out;
    ASSERT_TRUE(encode(out, h));
    out.insert(out.end(), body.begin(), body.end());
    send(out);
  }
  std::vector<segment> expose(ByteVector& memory, fabric::Access access) {
    auto segments = call_on(*loop, [&] { return client->expose(memory, access); });
    EXPECT_TRUE(segments);
    return segments ? *segments : std::vector<segment>{};
  }

  // --- receiving ---
  // The header of message `i`; `rest` receives the bytes behind it.
  header received(size_t i, ByteVector* rest = nullptr) {
    header h;
    if (!client.receives(i + 1)) {
      ADD_FAILURE() << "nothing came";
      return h;
    }
    const ByteVector message = client.message(i);
    size_t length = 0;
    EXPECT_EQ(decode(message, h, &length), Defect::kNone);
    if (rest != nullptr) rest->assign(message.begin() + static_cast<ptrdiff_t>(length), message.end());
    return h;
  }
  void expect_error(size_t i, uint32_t vers, rpcrdma::error error, uint32_t xid = kXid) {
    const header h = received(i);
    EXPECT_EQ(h.type, RDMA_ERROR);
    EXPECT_EQ(h.vers, vers);
    EXPECT_EQ(h.xid, xid);
    EXPECT_EQ(h.error, error);
    if (vers == kVersion2) {
      EXPECT_EQ(h.flags, RPCRDMA2_F_RESPONSE);
    }
  }
  // Message `i` is the reply to a normal call: the Responder still works.
  void expect_service(size_t i, uint32_t vers) {
    const ByteVector arguments = pattern(40, 7);
    send(header_of(vers, 0x7777), rpc_call(0x7777, arguments));
    ByteVector rest;
    const header h = received(i, &rest);
    EXPECT_EQ(h.type, RDMA_MSG);
    EXPECT_EQ(h.credit, kCreditsGranted);
    EXPECT_EQ(rest, reply(0x7777, arguments));
  }
};

// For both versions.
class RawClientOfBoth : public RawClient, public testing::WithParamInterface<uint32_t> {
 protected:
  uint32_t vers() const { return GetParam(); }
  // In version 1 every defect of chunks is ERR_CHUNK.
  rpcrdma::error refusal(errcode code, uint32_t limit = 0) const {
    return vers() == kVersion1 ? rpcrdma::error{ERR_CHUNK, 0, 0} : rpcrdma::error{code, limit, 0};
  }
};

}  // namespace nfsrdma::test
