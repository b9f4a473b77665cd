// SPDX-License-Identifier: Apache-2.0
// The ladder against servers that offer only some rungs: the transport that a mount gets, and what it reports
// about the missing ones.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "cli/mount/ladder.h"
#include "cli/options/options.h"
#include "cli/server/probe.h"
#include "client/api/no_front_end.h"
#include "client/nfs4/ops/nfs4_filesystem.h"
#include "tests/unit/cli/local_filer.h"
#include "tests/unit/transport/support/run_on.h"
#include "transport/net/endpoint.h"

namespace nfsrdma::cli {
namespace {

using namespace std::chrono_literals;
using test::run_on;

// Takes the rungs as the daemon does, without its pauses, and stays mounted at the rung that works.
class Descent {
 public:
  Descent(const std::string& list, unsigned loops)
      : source_(*parse_source(local_address() + ":/export")), ladder_(parse(list)), loops_(loops) {
    loops_.start();
    do {
      filesystem_ = std::make_unique<client::nfs4::Nfs4Filesystem>(loops_, pool_,
                                                                   ladder_.client_options(source_, false));
      root_ = run_on(loops_[0], filesystem_->mount(&front_end_));
      if (!root_) run_on(loops_[0], filesystem_->unmount(1s));
    } while (!root_ && ladder_.step_down(root_.error()));
  }
  ~Descent() {
    if (root_) run_on(loops_[0], filesystem_->unmount(10s));
    root_ = fail(Error{});
    loops_.stop_and_join();
  }

  const Result<client::Entry>& root() const { return root_; }
  Ladder& ladder() { return ladder_; }
  std::vector<rpc::TransportStatus> connections() const { return filesystem_->statistics().transports; }
  std::optional<rdma::RdmaStatus> rdma() const { return connections().front().rdma; }

  // Reads from the beginning of a file; returns the number of bytes.
  size_t read(const std::string& name, size_t size) {
    const client::RequestContext context{
        std::make_shared<rpc::Credential>("host", 0, 0, std::vector<uint32_t>{}), nullptr};
    const auto found = run_on(loops_[0], filesystem_->lookup(context, root_->node, name));
    const auto opened = run_on(loops_[0], filesystem_->open(context, found->node, 0));
    const auto data = run_on(loops_[0], filesystem_->read(context, opened->file, 0, size));
    run_on(loops_[0], filesystem_->release(context, opened->file));
    return data ? data->size : 0;
  }

 private:
  MountOptions parse(const std::string& list) {
    std::vector<OptionLayer> layers;
    const auto items = split_options(list);
    for (const RawOption& item : *items) layers.push_back({OptionOrigin::kCommandLine, {}, item});
    auto parsed = parse_options(layers, false);
    EXPECT_TRUE(parsed && check_options(*parsed, source_)) << list;
    return parsed->values;
  }

  const Source source_;
  Ladder ladder_;
  LoopPool loops_;
  BufferPool pool_;
  client::NoFrontEnd front_end_;
  std::unique_ptr<client::nfs4::Nfs4Filesystem> filesystem_;
  Result<client::Entry> root_ = fail(Error{});
};

class LadderFiler : public testing::Test {
 protected:
  void start(bool rdma, rdma::ResponderOptions responder = {}) {
    server_ = start_local_filer(rdma, responder);
    if (!server_) GTEST_SKIP() << "a server of this machine listens at port 2049 or 20049 of every address";
  }
  Descent& mount(const std::string& list, unsigned loops = 1) {
    descent_ = std::make_unique<Descent>(list, loops);
    return *descent_;
  }
  // Runs `nfsrdma-fuse probe` and captures its output.
  int probe(const std::string& list) {
    ProbeVerb verb;
    verb.server = local_address() + ":/export";
    verb.options = *split_options(list);
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int status = run_probe("prog", verb);
    printed_ = testing::internal::GetCapturedStdout();
    reported_ = testing::internal::GetCapturedStderr();
    return status;
  }
  std::unique_ptr<filer::Server> server_;
  std::unique_ptr<Descent> descent_;
  std::string printed_, reported_;
};

TEST_F(LadderFiler, ServerWithRdma_IsMountedOverIt) {
  start(true);
  if (!server_) return;
  server_->make_file("/export/file", std::string(100'000, 'x'));
  Descent& m = mount("");
  ASSERT_TRUE(m.root()) << describe(m.root().error());
  EXPECT_EQ(m.ladder().notice(), "");
  EXPECT_EQ(m.connections().front().peer, local_address() + ":20049");
  EXPECT_EQ(m.read("file", 100'000), 100'000u);
  ASSERT_TRUE(m.rdma());
  EXPECT_EQ(m.rdma()->version, 2u);
  EXPECT_EQ(m.rdma()->credits_granted, 64u);
  EXPECT_EQ(m.rdma()->bytes_placed, 100'000u);
}

TEST_F(LadderFiler, RefusedRdmaPort_LeadsToTcpWithTheReason) {
  start(false);
  if (!server_) return;
  Descent& m = mount("");
  ASSERT_TRUE(m.root()) << describe(m.root().error());
  EXPECT_FALSE(m.rdma());
  EXPECT_EQ(m.connections().front().protocol, "tcp");
  const std::string refused = local_address() + ":20049: Connection refused";
  EXPECT_NE(m.ladder().announcement().find(refused), std::string::npos);
  EXPECT_NE(m.ladder().notice().find("software RDMA: connect"), std::string::npos) << m.ladder().notice();
  EXPECT_NE(m.ladder().notice().find(refused), std::string::npos) << m.ladder().notice();
}

// The port is behind a firewall, or its server speaks another protocol.
TEST_F(LadderFiler, SilentRdmaPort_DoesNotHoldTheMountUp) {
  start(false);
  if (!server_) return;
  const net::Socket silent(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(kNfsRdmaPort);
  inet_pton(AF_INET, local_address().c_str(), &address.sin_addr);
  ASSERT_EQ(::bind(silent.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(silent.get(), 4), 0);
  const TimePoint before = Clock::now();
  Descent& m = mount("");
  ASSERT_TRUE(m.root()) << describe(m.root().error());
  EXPECT_FALSE(m.rdma());
  EXPECT_GE(Clock::now() - before, Ladder::kRdmaPatience);
  EXPECT_LT(Clock::now() - before, 4 * Ladder::kRdmaPatience);
  EXPECT_NE(m.ladder().notice().find("no answer in time"), std::string::npos) << m.ladder().notice();
}

TEST_F(LadderFiler, RdmaAskedFor_IsNotReplacedByTcp) {
  start(false);
  if (!server_) return;
  Descent& m = mount("proto=rdma");
  ASSERT_FALSE(m.root());
  EXPECT_EQ(m.root().error().errnum, ECONNREFUSED);
  EXPECT_EQ(m.root().error().layer, Layer::kTransport);
}

TEST_F(LadderFiler, TcpAskedFor_DoesNotAskForRdma) {
  start(true);
  if (!server_) return;
  Descent& m = mount("proto=tcp");
  ASSERT_TRUE(m.root()) << describe(m.root().error());
  EXPECT_FALSE(m.rdma());
  EXPECT_EQ(m.ladder().notice(), "");
}

TEST_F(LadderFiler, ServerWithVersion1Only_IsSpokenToInIt) {
  start(true, {.version2 = false});
  if (!server_) return;
  Descent& m = mount("", 3);
  ASSERT_TRUE(m.root()) << describe(m.root().error());
  for (const rpc::TransportStatus& connection : m.connections()) {
    ASSERT_TRUE(connection.rdma);
    EXPECT_EQ(connection.rdma->version, 1u);
    EXPECT_EQ(connection.rdma->version_reason, "it has no RPC-over-RDMA version 2 (ERR_VERS)");
    EXPECT_EQ(connection.peer, local_address() + ":20049") << "one address for all";
  }
}

TEST_F(LadderFiler, VersionAskedFor_IsTheOneSpokenOrNone) {
  start(true, {.version2 = false});
  if (!server_) return;
  EXPECT_EQ(mount("rdmavers=1").rdma()->version, 1u);
  EXPECT_EQ(descent_->rdma()->version_reason, "") << "it was asked for";
  Descent& strict = mount("proto=rdma,rdmavers=2");
  ASSERT_FALSE(strict.root());
  EXPECT_EQ(strict.root().error().errnum, EPROTONOSUPPORT);
  EXPECT_EQ(strict.root().error().recovery, Recovery::kPermanent);
  Descent& lenient = mount("rdmavers=2");
  ASSERT_TRUE(lenient.root()) << describe(lenient.root().error());
  EXPECT_FALSE(lenient.rdma());
  EXPECT_NE(lenient.ladder().notice().find("version 1 only"), std::string::npos) << lenient.ladder().notice();
}

// RFC 8797 section 4.2: a reply is inline up to "the smaller of its own receive size and the server's
// reported send size". If the reply exceeds what the server can Send, the executed call's reply is lost.
TEST_F(LadderFiler, ServerThatSendsLess_IsNotAskedForMoreInline) {
  start(true, {.inline_bytes = 1024});
  if (!server_) return;
  server_->make_file("/export/file", std::string(100'000, 'x'));
  server_->make_file("/export/small", std::string(3000, 'y'));
  Descent& m = mount("inline=16384");
  ASSERT_TRUE(m.root()) << describe(m.root().error());
  EXPECT_EQ(m.rdma()->version, 2u);
  for (const size_t size : {900, 1000, 2000, 8000, 15'000, 100'000}) EXPECT_EQ(m.read("file", size), size);
  EXPECT_EQ(m.read("small", 3000), 3000u);
}

// An error in a reply over RDMA is final: the mount does not try TCP.
TEST_F(LadderFiler, NoSuchExport_IsNoReasonToLeaveRdma) {
  start(true);
  if (!server_) return;
  server_->faults().add(filer::on::request_with(nfs4::OP_GETFH).always(),
                        filer::fault::Answer{nfs4::OP_LOOKUP, nfs4::NFS4ERR_NOENT});
  Descent& m = mount("");
  ASSERT_FALSE(m.root());
  EXPECT_EQ(m.root().error().errnum, ENOENT);
  EXPECT_TRUE(m.rdma());
}

TEST_F(LadderFiler, Probe_ShowsEveryRungAndTakesTheFirst) {
  start(true);
  if (!server_) return;
  EXPECT_EQ(probe(""), 0) << printed_ << reported_;
  EXPECT_NE(printed_.find("rdma      " + local_address() +
                          ":20049: software RDMA, version 2, 64 credits at first, inline up to 4096 bytes"),
            std::string::npos)
      << printed_;
  EXPECT_NE(printed_.find(local_address() + ":2049: connected"), std::string::npos) << printed_;
  EXPECT_NE(printed_.find("session"), std::string::npos) << printed_;
  EXPECT_EQ(server_->executed(nfs4::OP_CREATE_SESSION).executed, 1u);
  EXPECT_EQ(probe("proto=tcp"), 0) << printed_ << reported_;
  EXPECT_EQ(printed_.find("rdma "), std::string::npos) << printed_;
}

TEST_F(LadderFiler, ProbeWithoutRdma_SaysSo) {
  start(false);
  if (!server_) return;
  EXPECT_EQ(probe(""), 0) << printed_ << reported_;
  EXPECT_NE(printed_.find(local_address() + ":20049: Connection refused"), std::string::npos) << printed_;
  EXPECT_NE(printed_.find("session"), std::string::npos) << printed_;
  EXPECT_EQ(probe("proto=rdma"), 1);
  EXPECT_NE(reported_.find("; see that " + local_address() + " offers NFS over RDMA on port 20049"),
            std::string::npos)
      << reported_;
  EXPECT_EQ(printed_.find("session"), std::string::npos) << printed_;
}

}  // namespace
}  // namespace nfsrdma::cli
