#include "cli/explain.h"

#include <fmt/core.h>

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

std::string probe_advice(std::string_view source) {
  return fmt::format("run 'nfsrdma-fuse probe {}'", source);
}

}  // namespace nfsrdma::cli
