// SPDX-License-Identifier: Apache-2.0
#include "cli/server/translate.h"

#include <algorithm>
#include <bit>

#include "transport/memory/available_memory.h"
#include "transport/runtime/user_ids.h"

namespace nfsrdma::cli {
namespace {

client::AddressFamily family_of(AddressFamily family) {
  switch (family) {
    case AddressFamily::kAny: return client::AddressFamily::kAny;
    case AddressFamily::kIpv4: return client::AddressFamily::kIpv4;
    case AddressFamily::kIpv6: return client::AddressFamily::kIpv6;
  }
  return client::AddressFamily::kAny;
}

client::LookupCache lookup_cache_of(LookupCache cache) {
  switch (cache) {
    case LookupCache::kAll: return client::LookupCache::kAll;
    case LookupCache::kPositive: return client::LookupCache::kPositive;
    case LookupCache::kNone: return client::LookupCache::kNone;
  }
  return client::LookupCache::kAll;
}

// If attributes have no lifetime, read(2) must not return data that was cached before another client's
// change.
bool attributes_before_reads(const MountOptions& o) {
  return !o.attribute_cache || o.acregmax.count() == 0;
}

rdma::Versions rdma_versions_of(unsigned version) {
  if (version == 0) return rdma::Versions::kAuto;
  return version == 1 ? rdma::Versions::kOnly1 : rdma::Versions::kOnly2;
}

fabric::verbs::Options verbs_options_of(const MountOptions& o) {
  fabric::verbs::Options v;
  if (o.names_rdma_device()) v.device = o.rdma_device;
  v.port = o.rdma_port;
  v.gid_index = o.gid_index;
  v.poll = o.poll;
  v.keepalive = o.timeo;
  return v;
}

}  // namespace

bool serves_other_users(const MountOptions& options, bool root) {
  return options.allow_other.value_or(root && !options.allow_root);
}

void decide_reserved_port(MountOptions& options) {
  if (!options.reserved_port && UserIds::of_this_process().mapped()) options.reserved_port = false;
}

uint16_t port_of(const MountOptions& options) {
  return options.port.value_or(options.transport == Transport::kRdma ? kNfsRdmaPort : kNfsPort);
}

client::ClientOptions make_client_options(const MountOptions& o, const Source& source, bool root) {
  client::ClientOptions c;
  c.host = source.host;
  c.export_path = source.path;
  c.port = port_of(o);
  if (o.transport == Transport::kRdma) c.transport = client::TransportKind::kSoftwareRdma;
  c.rdma_versions = rdma_versions_of(o.rdma_version);
  if (o.rdma_inline) c.rdma_inline_bytes = *o.rdma_inline;
  if (o.rdma_credits) c.rdma_credits = *o.rdma_credits;
  if (o.rdma_ddp_threshold) c.rdma_ddp_threshold = *o.rdma_ddp_threshold;
  c.rdma_configuration_protocol = o.rdma_configuration;
  c.verbs = verbs_options_of(o);
  c.v3.port = o.port.value_or(0);
  c.v3.mount_port = o.mount_port.value_or(0);
  c.v3.mount_host = o.mount_host;
  c.family = family_of(o.family);
  c.reserved_port = o.reserved_port.value_or(root);
  c.soft = o.on_timeout != OnTimeout::kHard;
  c.soft_error_timedout = o.on_timeout == OnTimeout::kSoftErr;
  c.timeo = o.timeo;
  c.retrans = o.retrans;
  c.rsize = o.rsize.value_or(0);
  c.wsize = o.wsize.value_or(0);
  c.acregmin = o.acregmin;
  c.acregmax = o.acregmax;
  c.acdirmin = o.acdirmin;
  c.acdirmax = o.acdirmax;
  c.noac = !o.attribute_cache;
  c.lookupcache = lookup_cache_of(o.lookup_cache);
  c.close_to_open = o.close_to_open;
  c.readdirplus = o.readdirplus;
  c.delegations = o.delegations;
  c.attributes_before_reads = attributes_before_reads(o);
  c.sync = o.synchronous_writes();
  c.cache_bytes = o.cache_mem.value_or(default_cache_bytes(memory_for_us().total));
  c.read_ahead_bytes = uint64_t{o.read_ahead_kb.value_or(kReadAheadKb)} * 1024;
  c.id_mapping = o.idmap == IdMap::kNfsidmap ? client::IdMapping::kNfsidmap : client::IdMapping::kNumeric;
  c.many_users = serves_other_users(o, root) || o.allow_root;
  c.server_acls = o.server_acls;
  if (o.must_use_tls()) c.tls = tls::Settings{.trust = o.tls_ca, .certificate = o.tls_cert, .key = o.tls_key};
  return c;
}

// Each writer that waits for buffer memory holds one WRITE of this size.
uint32_t largest_write(uint64_t available) {
  return static_cast<uint32_t>(std::clamp<uint64_t>(std::bit_floor(available / 256), 64u << 10, 1u << 20));
}

fuse::FuseOptions make_fuse_options(const MountOptions& o, const Source& source,
                                    const std::string& mount_point, const std::string& machine, bool root) {
  fuse::FuseOptions f;
  f.source = source.text;
  f.mount_point = mount_point;
  f.read_only = o.read_only;
  f.allow_other = serves_other_users(o, root);
  f.allow_root = o.allow_root;
  f.dev = o.dev;
  // FUSE asks no server before it opens a device, FIFO or socket; with this option the kernel checks their
  // modes.
  f.default_permissions = o.default_permissions || (o.dev && f.allow_other);
  f.suid = o.suid;
  f.exec = o.exec;
  f.sync = o.sync;
  f.dirsync = o.dirsync;
  f.local_posix_locks = o.local_posix_locks;
  f.local_flock = o.local_flock;
  f.readdirplus = o.readdirplus;
  f.attributes_before_reads = attributes_before_reads(o);
  f.read_ahead_kb = o.read_ahead_kb;
  const uint64_t available = memory_for_us().available;
  f.max_write = largest_write(available);
  f.max_background = static_cast<unsigned>(std::clamp<uint64_t>(available / 4 / f.max_write, 16, 256));
  if (root && !f.read_ahead_kb) f.read_ahead_kb = kRootReadAheadKb;
  f.machine_name = machine;
  // Only root may act for other users: it can read their identities, and servers trust only its ports.
  f.caller_credentials = root && f.allow_other;
  if (o.on_timeout != OnTimeout::kHard) f.soft_limit = client::soft_patience(o.timeo, o.retrans);
  return f;
}

MountOptions stepped_down(MountOptions options) {
  options.major_version = 3;
  options.minor_version.reset();
  // The server answered on TCP's port, if only to say that it has no NFSv4.1.
  options.port = options.port.value_or(kNfsPort);
  options.local_flock = options.local_posix_locks = true;
  return options;
}

MountOptions options_in_use(MountOptions options, bool root,
                            const std::vector<rpc::TransportStatus>& connections) {
  options.allow_other = serves_other_users(options, root);
  options.reserved_port = options.reserved_port.value_or(root);
  for (const rpc::TransportStatus& connection : connections) {
    if (options.family != AddressFamily::kAny) break;
    if (connection.peer.empty()) continue;
    options.family = connection.peer.starts_with('[') ? AddressFamily::kIpv6 : AddressFamily::kIpv4;
  }
  return options;
}

unsigned loop_count(const MountOptions& options, unsigned processors) {
  if (options.threads) return *options.threads;
  return processors < 8 ? 1 : std::min(processors / 4, 4u);
}

}  // namespace nfsrdma::cli
