// SPDX-License-Identifier: Apache-2.0
#include "cli/server/explain.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "cli/mount/helper_args.h"
#include "xdr/nfs4_status.h"
#include "xdr/rpc.h"

namespace nfsrdma::cli {
namespace {

using State = rpc::TransportState;

std::string_view waiting_for(State state, uint64_t client_ids, uint64_t sessions) {
  client::Statistics s;
  s.transports.emplace_back().state = state;
  s.session.client_ids_established = client_ids;
  s.session.sessions_created = sessions;
  return operation_under_way(s);
}

TEST(Explain, OperationUnderWay_IsTheFirstThatHasNoAnswer) {
  EXPECT_EQ(operation_under_way({}), "connect");
  EXPECT_EQ(waiting_for(State::kIdle, 0, 0), "connect");
  EXPECT_EQ(waiting_for(State::kConnecting, 0, 0), "connect");
  EXPECT_EQ(waiting_for(State::kBackoff, 1, 1), "connect");
  EXPECT_EQ(waiting_for(State::kHandshake, 0, 0), "EXCHANGE_ID");
  EXPECT_EQ(waiting_for(State::kHandshake, 1, 0), "CREATE_SESSION");
  EXPECT_EQ(waiting_for(State::kHandshake, 1, 1), "RECLAIM_COMPLETE");
  EXPECT_EQ(waiting_for(State::kReady, 1, 1), "LOOKUP");
}

TEST(Explain, ProbeAdvice_AsksWhereTheMountDid) {
  const auto advice = [](const char* source, std::optional<uint16_t> port,
                         Transport transport = Transport::kAuto) {
    MountOptions options;
    options.port = port;
    options.transport = transport;
    return probe_advice(*parse_source(source), options);
  };
  EXPECT_EQ(advice("filer:/export", {}), "run 'nfsrdma-fuse probe filer:/export'");
  EXPECT_EQ(advice("filer:/export", 2049), "run 'nfsrdma-fuse probe filer:/export'");
  MountOptions version_3;
  version_3.major_version = 3;
  EXPECT_EQ(probe_advice(*parse_source("filer:/export"), version_3),
            "run 'rpcinfo filer' and 'showmount -e filer'");
  EXPECT_EQ(advice("nfs://filer:3049/export", 3049), "run 'nfsrdma-fuse probe nfs://filer:3049/export'");
  EXPECT_EQ(advice("filer:/export", 3049), "run 'nfsrdma-fuse probe nfs://filer:3049/'");
  EXPECT_EQ(advice("filer:/export", {}, Transport::kRdma),
            "run 'nfsrdma-fuse probe -o proto=rdma filer:/export'");
  EXPECT_EQ(advice("filer:/export", 20049, Transport::kRdma),
            "run 'nfsrdma-fuse probe -o proto=rdma filer:/export'");
  EXPECT_EQ(advice("filer:/export", 2049, Transport::kRdma),
            "run 'nfsrdma-fuse probe -o proto=rdma nfs://filer:2049/'");
  EXPECT_EQ(advice("[::1]:/export", 3049), "run 'nfsrdma-fuse probe nfs://[::1]:3049/'");
  EXPECT_EQ(advice("[fe80::1%lo]:/e", 3049), "run 'nfsrdma-fuse probe nfs://[fe80::1%25lo]:3049/'");
}

TEST(Explain, ExportsAdvice_AsksByTheSameTransport) {
  using client::TransportKind;
  const auto advice = [](const char* host, uint16_t port, TransportKind transport,
                         client::AddressFamily family = client::AddressFamily::kAny) {
    client::ClientOptions options;
    options.host = host;
    options.port = port;
    options.transport = transport;
    options.family = family;
    return exports_advice(options);
  };
  const auto run = [](const char* what) {
    return fmt::format("run 'nfsrdma-fuse probe {}' to see what it exports", what);
  };
  EXPECT_EQ(advice("filer", 2049, TransportKind::kTcp), run("nfs://filer:2049/"));
  EXPECT_EQ(advice("::1", 3049, TransportKind::kTcp), run("nfs://[::1]:3049/"));
  EXPECT_EQ(advice("fe80::1%lo", 2049, TransportKind::kTcp), run("nfs://[fe80::1%25lo]:2049/"));
  for (const TransportKind rdma : {TransportKind::kSoftwareRdma, TransportKind::kRdmaDevice}) {
    EXPECT_EQ(advice("filer", 20049, rdma), run("nfs://filer/"));
    EXPECT_EQ(advice("filer", 20049, rdma, client::AddressFamily::kIpv4),
              run("-o proto=rdma nfs://filer:20049/"));
    EXPECT_EQ(advice("filer", 3049, rdma, client::AddressFamily::kIpv6),
              run("-o proto=rdma6 nfs://filer:3049/"));
    EXPECT_EQ(advice("fe80::1%lo", 3049, rdma), run("-o proto=rdma6 nfs://[fe80::1%25lo]:3049/"));
  }
}

// exports(5), secure: "requests from port numbers less than IPPORT_RESERVED". Servers refuse others in three
// ways.
TEST(Explain, ServerThatRefusesAUsersPort_IsSuspectedOfIt) {
  const std::string hint =
      "it may want a port below 1024: let it export with \"insecure\" (nfsrdma-filer --insecure), or "
      "mount as root; ";
  MountOptions options;
  for (const nfs4::nfsstat4 status : {nfs4::NFS4ERR_PERM, nfs4::NFS4ERR_ACCESS}) {
    EXPECT_EQ(server_hint(nfs4::nfs_error(status, "LOOKUP"), options, false), hint);
    EXPECT_EQ(server_hint(nfs4::nfs_error(status, "LOOKUP"), options, true), "") << "root has one";
  }
  Error rejected{.layer = Layer::kRpc,
                 .recovery = Recovery::kPermanent,
                 .errnum = EACCES,
                 .status = 5,
                 .op = "EXCHANGE_ID",
                 .cause = ""};
  EXPECT_EQ(server_hint(rejected, options, false), hint);
  EXPECT_EQ(server_hint(rejected, options, true), "");
  EXPECT_EQ(server_hint(nfs4::nfs_error(nfs4::NFS4ERR_WRONGSEC, "LOOKUP"), options, false), "");
  EXPECT_EQ(server_hint(nfs4::nfs_error(nfs4::NFS4ERR_NOENT, "LOOKUP"), options, false), "");
}

// nfsrdma-filer's answer to users that it does not serve.
TEST(Explain, ServerOfAnotherUser_IsSuspectedWhereThePortIsReserved) {
  rpc::reply_header reply;
  reply.stat = rpc::MSG_DENIED;
  reply.denied = rpc::AUTH_ERROR;
  reply.why = rpc::AUTH_TOOWEAK;
  const Error refused = rpc::check(reply, "EXCHANGE_ID").error();
  EXPECT_NE(server_hint(refused, {}, true).find("takes only processes of his without --insecure"),
            std::string::npos);
  EXPECT_NE(server_hint(refused, {}, false).find("(nfsrdma-filer --insecure)"), std::string::npos);
}

TEST(Explain, PortOfTheOtherTransport_IsSuspected) {
  const Error reset{.layer = Layer::kTransport,
                    .recovery = Recovery::kReconnect,
                    .errnum = ECONNRESET,
                    .op = "EXCHANGE_ID",
                    .cause = ""};
  MountOptions options;
  EXPECT_EQ(server_hint(reset, options, false), "");
  options.port = 20049;
  EXPECT_EQ(server_hint(reset, options, false),
            "port 20049 is usually NFS over RDMA's, which proto=rdma speaks; ");
  options.transport = Transport::kRdma;
  EXPECT_EQ(server_hint(reset, options, false), "");
  options.port = 2049;
  EXPECT_EQ(server_hint(reset, options, false),
            "port 2049 is usually NFS over TCP's; that of RDMA is 20049; ");
  const Error refused{.layer = Layer::kTransport,
                      .recovery = Recovery::kReconnect,
                      .errnum = ECONNREFUSED,
                      .op = "connect",
                      .cause = ""};
  EXPECT_EQ(server_hint(refused, options, false), "");
}

TEST(Explain, MountThatAContainerMayNotMake_NamesWhatItNeeds) {
  EXPECT_EQ(mount_advice(system_error(EPERM, "mount", "fuse: mount failed: Operation not permitted")),
            "; a container needs '--device /dev/fuse --cap-add SYS_ADMIN' when it is started");
  EXPECT_EQ(mount_advice(system_error(EPERM, "mount", "fusermount3: option allow_other only allowed if ...")),
            "");
  EXPECT_EQ(mount_advice(system_error(ENOENT, "mount", "")), "");
}

// In the tools' exit statuses 4 means "done with a warning".
TEST(Explain, Defect_HasTheStatusOfItsFamily) {
  using Argv = std::vector<std::string>;
  EXPECT_EQ(defect(Argv{"/sbin/mount.nfsrdma-fuse", "s:/e", "/m"}, "x").exit_code, 4);
  EXPECT_EQ(defect(Argv{"umount.fuse.rpcrdma", "/m"}, "x").exit_code, 4);
  EXPECT_EQ(defect(Argv{"nfsrdma-fuse", "mount", "s:/e", "/m"}, "x").exit_code, 4);
  for (const char* verb : {"status", "stats", "probe", "umount", "log-level"})
    EXPECT_EQ(defect(Argv{"/usr/bin/nfsrdma-fuse", verb}, "x").exit_code, 1) << verb;
  EXPECT_EQ(defect(Argv{"nfsrdma-fuse"}, "x").exit_code, 1);
  EXPECT_EQ(defect(Argv{}, "out of memory").text, "internal error: out of memory");
}

}  // namespace
}  // namespace nfsrdma::cli
