#include "cli/explain.h"

#include <fmt/core.h>

#include "cli/translate.h"

namespace nfsrdma::cli {

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
  // probe speaks version 4.
  if (options.major_version == 3) return fmt::format("run 'rpcinfo {0}' and 'showmount -e {0}'", source.host);
  const bool rdma = options.transport == Transport::kRdma;
  const char* const proto = options.family == AddressFamily::kIpv6 ? "rdma6" : "rdma";
  const std::string how = rdma ? fmt::format("-o proto={} ", proto) : std::string();
  const std::optional<uint16_t>& port = options.port;
  if (!port || *port == (rdma ? kNfsRdmaPort : kNfsPort) || source.port)
    return fmt::format("run 'nfsrdma-fuse probe {}{}'", how, source.text);
  std::string host = source.host;
  if (source.host_kind == HostKind::kIpv6) {
    if (const size_t zone = host.find('%'); zone != std::string::npos)
      host.insert(zone + 1, "25");  // RFC 6874
    host = "[" + host + "]";
  }
  return fmt::format("run 'nfsrdma-fuse probe {}nfs://{}:{}/'", how, host, *port);
}

}  // namespace nfsrdma::cli
