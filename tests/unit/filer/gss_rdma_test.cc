// SPDX-License-Identifier: Apache-2.0
// RPCSEC_GSS over RDMA, where a call without a reply keeps a credit.
#include "tests/unit/fabric/support/fabric_pair.h"
#include "tests/unit/filer/gss_fixture.h"
#include "tests/unit/filer/raw_client.h"
#include "transport/fabric/iwarp/iwarp.h"
#include "transport/rdma/endpoint_options.h"
#include "xdr/rpcrdma/header.h"

namespace nfsrdma::filer::test {
namespace {

using nfsrdma::test::call_on;
using nfsrdma::test::LoopThread;
using nfsrdma::test::run_on;
using nfsrdma::test::Side;

class GssRdmaTest : public GssTest {
 protected:
  void SetUp() override {
    GssTest::SetUp();
    if (IsSkipped()) return;
    nfs::Options options;
    options.kerberos = true;
    options.keytab = keytab();
    options.rdma.listen = true;
    options.rdma.devices = false;
    server_ = start_server(std::move(options));
    call_on(*loop_, [this] { fabric_ = fabric::iwarp::make_fabric(*loop_); });
    fabric::ConnectOptions to;
    to.host = "127.0.0.1";
    to.port = server_->rdma_port();
    to.endpoint = rdma::make_endpoint_options(16384, 64, {true, 4096, 4096});
    auto connected = run_on(*loop_, fabric_->connect(to));
    ASSERT_TRUE(connected) << describe(connected.error());
    rdma_.endpoint = *std::move(connected);
    call_on(*loop_, [this] { rdma_.endpoint->start(rdma_); });
  }
  void TearDown() override {
    call_on(*loop_, [this] {
      rdma_.endpoint.reset();
      fabric_.reset();
    });
  }

  void send(const ByteVector& call) {
    rpcrdma::header header;
    header.xid = load_be32(call.data());
    header.credit = 8;
    ByteVector message;
    EXPECT_TRUE(encode(message, header));
    message.insert(message.end(), call.begin(), call.end());
    call_on(*loop_, [&] {
      const ConstBytes parts[] = {message};
      rdma_->send(parts);
    });
  }
  std::optional<ByteVector> exchange(const ByteVector& call) {
    send(call);
    if (!rdma_.receives(++answers_)) return std::nullopt;
    const ByteVector answer = rdma_.message(answers_ - 1);
    rpcrdma::header header;
    size_t length = 0;
    EXPECT_EQ(decode(answer, header, &length), rpcrdma::Defect::kNone);
    return ByteVector(answer.begin() + static_cast<ptrdiff_t>(length), answer.end());
  }

  LoopThread loop_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<fabric::Fabric> fabric_;
  Side rdma_;
  size_t answers_ = 0;
};

// RFC 8881 section 2.9.2: "A replier MUST NOT silently drop a request ... or it MAY disconnect the
// connection." The drops of RPCSEC_GSS are exempt, but the credit would be lost while the connection lasts.
TEST_F(GssRdmaTest, ReplayedCall_EndsTheConnection) {
  GssPeer peer = peer_of(alice());
  ASSERT_TRUE(peer.establish([this](const ByteVector& call) { return exchange(call); }));
  const GssCall data = peer.data();
  const ByteVector call = peer.encode(data);
  const auto reply = exchange(call);
  ASSERT_TRUE(reply && peer.open(data, *reply));
  EXPECT_TRUE(rdma_.disconnected().empty());
  send(call);
  EXPECT_TRUE(nfsrdma::test::eventually([this] { return !rdma_.disconnected().empty(); }));
  EXPECT_EQ(rdma_.received(), answers_);
}

}  // namespace
}  // namespace nfsrdma::filer::test
