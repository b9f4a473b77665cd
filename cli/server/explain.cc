// SPDX-License-Identifier: Apache-2.0
#include "cli/server/explain.h"

#include <fmt/core.h>

#include <cerrno>

#include "cli/server/translate.h"
#include "xdr/nfs4_status.h"
#include "xdr/rpc.h"

namespace nfsrdma::cli {
namespace {

std::string url_host(std::string host) {
  if (host.find(':') == std::string::npos) return host;
  if (const size_t zone = host.find('%'); zone != std::string::npos) host.insert(zone + 1, "25");  // RFC 6874
  return "[" + host + "]";
}

std::string over_rdma(bool ipv6) {
  return fmt::format("-o proto={} ", ipv6 ? "rdma6" : "rdma");
}

std::string port_hint(int errnum, bool rdma, std::optional<uint16_t> port) {
  // A TCP server closes a connection that begins with an RDMA client's bytes, and the reverse.
  if (errnum != ECONNRESET && errnum != EPIPE) return {};
  if (!rdma && port == kNfsRdmaPort)
    return fmt::format("port {} is usually NFS over RDMA's, which proto=rdma speaks", *port);
  if (rdma && port == kNfsPort)
    return fmt::format("port {} is usually NFS over TCP's; that of RDMA is {}", *port, kNfsRdmaPort);
  return {};
}

}  // namespace

std::string_view operation_under_way(const client::Statistics& statistics) {
  using State = rpc::TransportState;
  const State state = statistics.transports.empty() ? State::kIdle : statistics.transports.front().state;
  switch (state) {
    case State::kIdle:
    case State::kConnecting:
    case State::kBackoff: return "connect";
    case State::kHandshake:
      if (statistics.session.client_ids_established == 0) return "EXCHANGE_ID";
      return statistics.session.sessions_created == 0 ? "CREATE_SESSION" : "RECLAIM_COMPLETE";
    case State::kReady: return "LOOKUP";
    case State::kClosed: break;
  }
  return "mount";
}

std::string probe_advice(const Source& source, const MountOptions& options) {
  // probe only speaks version 4.
  if (options.major_version == 3) return fmt::format("run 'rpcinfo {0}' and 'showmount -e {0}'", source.host);
  const bool rdma = options.transport == Transport::kRdma;
  const std::string how = rdma ? over_rdma(options.family == AddressFamily::kIpv6) : std::string();
  const std::optional<uint16_t>& port = options.port;
  if (!port || *port == (rdma ? kNfsRdmaPort : kNfsPort) || source.port)
    return fmt::format("run 'nfsrdma-fuse probe {}{}'", how, source.text);
  return fmt::format("run 'nfsrdma-fuse probe {}nfs://{}:{}/'", how, url_host(source.host), *port);
}

std::string exports_advice(const client::ClientOptions& options) {
  const bool rdma = options.transport != client::TransportKind::kTcp;
  const bool ipv6 =
      options.family == client::AddressFamily::kIpv6 || options.host.find(':') != std::string::npos;
  const std::string host = url_host(options.host);
  // Without proto= and a family, the probe tries RDMA first, and resolves the name to addresses of both
  // families.
  if (rdma && options.family == client::AddressFamily::kAny && options.port == kNfsRdmaPort)
    return fmt::format("run 'nfsrdma-fuse probe nfs://{}/' to see what it exports", host);
  return fmt::format("run 'nfsrdma-fuse probe {}nfs://{}:{}/' to see what it exports",
                     rdma ? over_rdma(ipv6) : std::string(), host, options.port);
}

std::string server_hint(const Error& error, const MountOptions& options, bool root) {
  if (error.layer == Layer::kTransport) {
    const std::string hint = port_hint(error.errnum, options.transport == Transport::kRdma, options.port);
    return hint.empty() ? hint : hint + "; ";
  }
  if (error.errnum == EPROTONOSUPPORT && options.major_version != 3)
    return "the server has no NFS version 4.1; ";
  // Servers refuse source ports of ordinary users in several ways: NFS4ERR_PERM (Linux' server, in each
  // operation), NFS4ERR_ACCESS (nfs-ganesha, and NFSv3's mountd), or they reject the credential.
  const bool refused = error.errnum == EPERM || error.errnum == EACCES;
  if (!refused || error.is_status(nfs4::NFS4ERR_WRONGSEC)) return {};
  if (!options.reserved_port.value_or(root))
    return "it may want a port below 1024: let it export with \"insecure\" (nfsrdma-filer --insecure), or "
           "mount as root; ";
  // nfsrdma-filer run by an ordinary user answers this to other users of its machine, including root.
  constexpr uint32_t kTooWeak = static_cast<uint32_t>(rpc::RpcStatus::kAuthStat) + rpc::AUTH_TOOWEAK;
  if (error.layer == Layer::kRpc && error.status == kTooWeak)
    return "it may be an ordinary user's nfsrdma-filer, which takes only processes of his without "
           "--insecure; ";
  return {};
}

std::string mount_advice(const Error& error) {
  if (std::string_view(error.op) != "mount") return {};
  const bool denied = error.errnum == EPERM || error.errnum == EACCES;
  if (!denied || describe(error).find("Operation not permitted") == std::string::npos) return {};
  return "; a container needs '--device /dev/fuse --cap-add SYS_ADMIN' when it is started";
}

}  // namespace nfsrdma::cli
