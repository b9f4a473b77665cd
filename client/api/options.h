// SPDX-License-Identifier: Apache-2.0
// ClientOptions: how a mount behaves, in the terms of nfs(5). Filled by cli/, immutable afterwards.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "client/api/security_flavor.h"
#include "transport/fabric/verbs/options.h"
#include "transport/memory/available_memory.h"
#include "transport/rdma/options.h"
#include "transport/rdma/version_memory.h"
#include "transport/rpc/message_tap.h"
#include "transport/tls/settings.h"

namespace nfsrdma::security {
class TokenSource;
}

namespace nfsrdma::client {

enum class LookupCache : uint8_t { kAll, kPositive, kNone };
enum class IdMapping : uint8_t { kNumeric, kNfsidmap };
// The user and group ID that stand for an owner whose name is not known here.
inline constexpr uint32_t kNobody = 65534;
enum class AddressFamily : uint8_t { kAny, kIpv4, kIpv6 };

// How long a request may stay unanswered before a soft mount gives up. nfs(5) describes `retrans`
// retransmissions with a back-off that grows by `timeo`, up to 600 seconds. The kernel's client, which users
// know, gives up after timeo * (retrans + 1), at most 600 seconds, but never before one timeo.
constexpr std::chrono::milliseconds soft_patience(std::chrono::milliseconds timeo, unsigned retrans) {
  constexpr std::chrono::milliseconds kLongest = std::chrono::seconds(600);
  if (timeo >= kLongest / (int64_t{retrans} + 1)) return std::max(timeo, kLongest);
  return timeo * (int64_t{retrans} + 1);
}

// The transports that a mount tries in turn for NFSv4.1 (cli/mount/ladder.h has the order).
enum class TransportKind : uint8_t {
  kTcp,
  kSoftwareRdma,  // RPC-over-RDMA; RDMA in user space over TCP
  kRdmaDevice,    // RPC-over-RDMA through a device of this machine
};

struct ClientOptions {
  std::string host;
  std::string export_path = "/";
  uint16_t port = 2049;
  AddressFamily family = AddressFamily::kAny;
  bool reserved_port = false;
  TransportKind transport = TransportKind::kTcp;
  rdma::Versions rdma_versions = rdma::Versions::kAuto;
  // What earlier mount attempts learnt about the RPC-over-RDMA versions of the server. Null: nothing.
  std::shared_ptr<rdma::VersionMemory> rdma_memory;
  size_t rdma_inline_bytes = 4096;
  uint32_t rdma_credits = 64;
  size_t rdma_ddp_threshold = SIZE_MAX;
  bool rdma_configuration_protocol = false;
  // The device and port to use for kRdmaDevice. Default: those that lead to the server.
  fabric::verbs::Options verbs;
  // Why software RDMA is used instead of a device; shown by `status`.
  std::string fabric_reason;
  // The connect timeout for RDMA until the first success.
  std::chrono::milliseconds rdma_first_connect_timeout{10'000};

  bool soft = false;                 // nfs(5)'s default is hard
  bool soft_error_timedout = false;  // softerr: ETIMEDOUT instead of EIO
  std::chrono::milliseconds timeo{60'000};
  unsigned retrans = 2;

  uint32_t rsize = 0;  // bytes; 0: what the server allows, at most 1 MiB
  uint32_t wsize = 0;

  std::chrono::seconds acregmin{3};
  std::chrono::seconds acregmax{60};
  std::chrono::seconds acdirmin{30};
  std::chrono::seconds acdirmax{60};
  bool noac = false;  // actimeo=0 and sync
  LookupCache lookupcache = LookupCache::kAll;
  bool close_to_open = true;  // nocto turns it off
  // NFSv4.1: request delegations in OPEN. Off with noac, because its users want every access to reach the
  // server.
  bool delegations = true;
  bool readdirplus = true;
  // The front end fetches attributes before it reads its cached pages, and drops the pages itself if mtime or
  // size differ.
  bool attributes_before_reads = false;
  // NFSv4.1: how long the CLOSE of a file that nobody has open may wait, to share a COMPOUND with other
  // CLOSEs. 0: no wait.
  std::chrono::milliseconds close_delay{100};
  // A READDIR also brings names and attributes of files that nobody has asked for. How long these may answer
  // a lookup.
  std::chrono::milliseconds brought_names{1000};
  bool sync = false;  // every write is FILE_SYNC before it returns
  // The limit of cached file data, in bytes. 0: no data cache and no read-ahead.
  uint64_t cache_bytes = 0;
  // The limit of read-ahead, in bytes.
  uint64_t read_ahead_bytes = 0;
  // Limit read-ahead to what bandwidth and delay justify (client/core/read/read_pace.h). False, for tests:
  // always read ahead up to the limit.
  bool read_ahead_measured = true;
  // The server may lose unstable writes, and then only the client has the data. COMMIT is sent for data of
  // this age, as the kernel does for its pages.
  Duration uncommitted_for = std::chrono::seconds(30);
  // The shortest time between two reactions to a SEQUENCE flag (sr_status_flags) that stays set, for example
  // when the back channel cannot be established.
  Duration flags_pause = std::chrono::seconds(5);
  IdMapping id_mapping = IdMapping::kNumeric;

  // Everything goes over TCP within TLS, or not at all (RFC 9289). Absent: without TLS.
  std::optional<tls::Settings> tls;
  // NFSv4.1: how all requests of the mount are protected.
  SecurityFlavor flavor = SecurityFlavor::kSys;
  // Makes the tokens of RPCSEC_GSS. Needed unless the flavor is kSys.
  std::shared_ptr<security::TokenSource> tokens;
  // Gets the flavors that the server accepts when it refuses `flavor` at mount time. Null: nobody asks.
  std::shared_ptr<OfferedFlavors> offered_flavors;

  // Several users reach this mount (allow_other). If a directory's mode or ACL does not let everybody search
  // it, the kernel gets its names with zero lifetime, so that every path walk asks with the user's own
  // credential.
  bool many_users = false;
  // False: the administrator says that nothing on the server has an ACL. Then the mode alone decides who may
  // search.
  bool server_acls = true;

  // Sees every RPC message of NFSv4.1. Null: none.
  std::shared_ptr<rpc::MessageTap> tap;

  // Source of available memory; bounds cached and written data.
  std::function<Memory()> memory = memory_for_us;

  // NFSv3 only. Port 0: ask the server's portmapper.
  struct Version3 {
    uint16_t port = 0;  // the NFS port; the outer `port` is ignored
    uint16_t mount_port = 0;
    std::string mount_host;  // empty: `host`
  } v3;

  std::string client_name;  // co_ownerid, unique per mount; empty: host name, pid and a random part
};

}  // namespace nfsrdma::client
