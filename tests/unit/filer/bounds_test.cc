// SPDX-License-Identifier: Apache-2.0
// Limits of what peers can make the server keep besides state (state_limits_test.cc): connections of vanished
// clients, and the objects and names of an export in memory.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "tests/unit/filer/raw_client.h"

namespace nfsrdma::filer::test {
namespace {

uint16_t port_of(int (*name)(int, sockaddr*, socklen_t*), int fd) {
  sockaddr_in address{};
  socklen_t length = sizeof address;
  const bool known = name(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0;
  return known && address.sin_family == AF_INET ? ntohs(address.sin_port) : uint16_t{0};
}

int option(int fd, int level, int name) {
  int value = -1;
  socklen_t length = sizeof value;
  EXPECT_EQ(getsockopt(fd, level, name, &value, &length), 0);
  return value;
}

TEST(Bounds, APeerThatIsGone_IsAskedForAndLetGo) {
  const auto server = start_server();
  RawClient client(*server);
  ASSERT_TRUE(client.establish());
  size_t found = 0;
  for (int fd = 0; fd < 1024; ++fd) {  // the server's sockets belong to this process too
    if (port_of(getsockname, fd) != server->port() || port_of(getpeername, fd) == 0) continue;
    ++found;
    EXPECT_EQ(option(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
    EXPECT_EQ(option(fd, IPPROTO_TCP, TCP_KEEPIDLE), 60);
    EXPECT_EQ(option(fd, IPPROTO_TCP, TCP_KEEPCNT), 3);
    EXPECT_EQ(option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 180'000);
    EXPECT_EQ(option(fd, IPPROTO_TCP, TCP_NODELAY), 1);
  }
  EXPECT_EQ(found, 1u);
}

// Each call takes 200 bytes and asks for half a megabyte. The server answers only as fast as the client
// reads.
TEST(Bounds, WhoReadsNoReplies_IsNotAnsweredFurther) {
  constexpr unsigned kCalls = 150, kBytes = 512u << 10;
  const auto server = start_server();
  server->make_file("/export/f", std::string(1u << 20, 'x'));
  RawClient client(*server), other(*server, "other");
  ASSERT_TRUE(client.establish() && other.establish());
  const nfs_fh4 file = client.handle_of("/export/f");
  std::vector<uint32_t> xids;
  for (unsigned i = 0; i < kCalls; ++i)
    xids.push_back(
        client.send(ops(client.next_sequence(0, false), PUTFH4args{file}, READ4args{{}, 0, kBytes})));
  // The sockets buffer some more (tcp_wmem, tcp_rmem: ten megabytes by default).
  for (int turn = 0; turn < 20; ++turn) EXPECT_EQ(other.run({}).status, NFS4_OK) << "nobody else waits";
  EXPECT_GE(server->executed(OP_READ).executed, 1u);
  EXPECT_LE(server->executed(OP_READ).executed, kCalls / 2);
  for (const uint32_t xid : xids) {
    const auto reply = client.receive(xid);
    ASSERT_TRUE(reply);
    EXPECT_EQ(at<READ4res>(*reply, 2).resok4.data.size(), kBytes);
  }
}

class AroundTheData : public ::testing::Test {
 protected:
  void SetUp() override {
    server->set_space("/export", 4096);  // limit for data; objects and names may take 1 MiB more
    ASSERT_TRUE(client.establish());
  }
  // Repeats `act` until it is refused; returns how often it succeeded.
  template <class Act>
  size_t until_refused(Act act) {
    for (size_t i = 0; i < 20'000; ++i) {
      const nfsstat4 status = act(i);
      if (status == NFS4_OK) continue;
      EXPECT_EQ(status, NFS4ERR_NOSPC);
      return i;
    }
    return SIZE_MAX;
  }
  nfsstat4 make_link(size_t number) {
    const std::string text(50'000, 'x');
    return client.run_at("/export", ops(CREATE4args{{NF4LNK, text, {}}, "l" + std::to_string(number), {}}))
        .status;
  }

  std::unique_ptr<Server> server = start_server();
  RawClient client{*server};
};

TEST_F(AroundTheData, TextsOfLinks_AreBounded) {
  const size_t most = until_refused([&](size_t i) { return make_link(i); });
  EXPECT_EQ(most, 20u);
  EXPECT_EQ(client.run_at("/export", ops(REMOVE4args{"l3"})).status, NFS4_OK);
  EXPECT_EQ(make_link(3), NFS4_OK) << "what is removed makes room";
}

TEST_F(AroundTheData, NamesOfOneFile_AreBounded) {
  server->make_file("/export/f", "x", 0666);
  const std::string text(200, 'n');
  const size_t most = until_refused([&](size_t i) {
    const Ops way = path_ops("/export/f") + ops(SAVEFH4args{}) + path_ops("/export");
    return client.run(way + ops(LINK4args{text + std::to_string(i)})).status;
  });
  EXPECT_GT(most, 1000u);
  EXPECT_LT(most, 3300u);
}

TEST_F(AroundTheData, WhatComesAndGoes_TakesNothing) {
  for (int i = 0; i < 60; ++i) {
    ASSERT_EQ(make_link(0), NFS4_OK) << i;
    const Ops rename = path_ops("/export") + ops(SAVEFH4args{}) + path_ops("/export");
    ASSERT_EQ(client.run(rename + ops(RENAME4args{"l0", "a longer name"})).status, NFS4_OK);
    ASSERT_EQ(client.run_at("/export", ops(REMOVE4args{"a longer name"})).status, NFS4_OK);
  }
  server->with_core([](nfs::Core& core) {
    const tree::FileSystem& fs = *core.tree.walk("/export")->fs;
    EXPECT_LT(fs.bytes_around, 1024u) << "the root itself";
  });
}

}  // namespace
}  // namespace nfsrdma::filer::test
