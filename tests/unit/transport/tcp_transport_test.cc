// TcpTransport against a scripted server on a real loopback socket.
#include "transport/tcp/tcp_transport.h"

#include <gtest/gtest.h>

#include "tests/unit/transport/support/peer.h"
#include "tests/unit/transport/support/run_on.h"

namespace nfsrdma::test {
namespace {

using rpc::Outcome;

Task<Outcome> simple_call(rpc::RpcTransport* t, ByteVector arguments) {
  rpc::Call call;
  call.op = "TEST";
  call.head = call_head(arguments);
  co_return co_await t->call(std::move(call));
}

TEST(TcpTransport, OneCall_ReplyWithBody) {
  Peer peer([](Listener& l) {
    PeerSocket s = l.accept();
    const auto call = s.read_record();
    ASSERT_TRUE(call);
    EXPECT_EQ(call->size(), kCallHeaderBytes + 4);
    s.write_record(reply(xid_of(*call), words({77})));
    EXPECT_TRUE(s.closed_by_client());
  });
  LoopThread loop;
  tcp::TcpOptions options;
  options.host = "127.0.0.1";
  options.port = peer.port();
  auto t = tcp::make_tcp_transport(*loop, options, {});
  const Result<> started = run_on(*loop, t->start());
  ASSERT_TRUE(started) << describe(started.error());
  const Outcome o = run_on(*loop, simple_call(t.get(), words({5})));
  ASSERT_TRUE(o.reply) << describe(o.reply.error());
  EXPECT_EQ(o.reply->body, kReplyHeaderBytes);
  EXPECT_EQ(word_at(o.reply->head, o.reply->body), 77u);
  EXPECT_EQ(o.transmissions, 1u);
  run_on(*loop, t->close());
}

}  // namespace
}  // namespace nfsrdma::test
