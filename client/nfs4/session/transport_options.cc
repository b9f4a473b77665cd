// SPDX-License-Identifier: Apache-2.0
#include "client/nfs4/session/transport_options.h"

#include <algorithm>

#include "client/nfs4/protocol_types.h"

namespace nfsrdma::client::nfs4 {
namespace {

// The size of a READ reply or a WRITE request without its data, with reserve.
constexpr size_t kRecordSlack = 64u << 10;
constexpr size_t kMaxIoBytes = 1u << 20;

net::Family family_of(AddressFamily family) {
  switch (family) {
    case AddressFamily::kAny: break;
    case AddressFamily::kIpv4: return net::Family::kIpv4;
    case AddressFamily::kIpv6: return net::Family::kIpv6;
  }
  return net::Family::kAny;
}

}  // namespace

tcp::TcpOptions tcp_options(const ClientOptions& o) {
  tcp::TcpOptions t;
  t.host = o.host;
  t.port = o.port;
  t.family = family_of(o.family);
  t.reserved_port = o.reserved_port;
  t.timeo = o.timeo;
  t.retrans = o.retrans;
  t.max_record_bytes = kMaxIoBytes + kRecordSlack;
  if (o.tls)
    t.tls = tls::ClientOptions{
        .settings = *o.tls, .host = o.host, .program = nfs4::NFS4_PROGRAM, .version = nfs4::NFS_V4};
  return t;
}

rdma::RdmaOptions rdma_options(const ClientOptions& o) {
  rdma::RdmaOptions r;
  r.host = o.host;
  r.port = o.port;
  r.family = family_of(o.family);
  r.reserved_port = o.reserved_port;
  r.versions = o.rdma_versions;
  r.timeo = o.timeo;
  r.retrans = o.retrans;
  r.first_connect_timeout = o.rdma_first_connect_timeout;
  r.inline_bytes = o.rdma_inline_bytes;
  r.receive_bytes = std::max(r.receive_bytes, r.inline_bytes);
  r.credits = o.rdma_credits;
  r.ddp_threshold = o.rdma_ddp_threshold;
  r.configuration_protocol = o.rdma_configuration_protocol;
  r.fabric_reason = o.fabric_reason;
  r.max_reply_bytes = kMaxIoBytes + kRecordSlack;
  return r;
}

}  // namespace nfsrdma::client::nfs4
