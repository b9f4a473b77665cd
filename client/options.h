// SPDX-License-Identifier: Apache-2.0
// ClientOptions: how a mount behaves, in the terms of nfs(5). Filled by cli/, immutable afterwards.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "transport/fabric/verbs/options.h"
#include "transport/memory/available_memory.h"
#include "transport/rdma/options.h"
#include "transport/rdma/version_memory.h"
#include "transport/rpc/message_tap.h"

namespace nfsrdma::client {

enum class LookupCache : uint8_t { kAll, kPositive, kNone };
enum class IdMapping : uint8_t { kNumeric, kNfsidmap };
enum class AddressFamily : uint8_t { kAny, kIpv4, kIpv6 };

// How long a request may go unanswered before a soft mount gives it up. nfs(5) names `retrans` repetitions
// and a back-off that grows by `timeo`, up to 600 seconds; the kernel's client, which users know, gives up
// after timeo * (retrans + 1), at most 600 seconds (and always after one timeo).
constexpr std::chrono::milliseconds soft_patience(std::chrono::milliseconds timeo, unsigned retrans) {
  constexpr std::chrono::milliseconds kLongest = std::chrono::seconds(600);
  if (timeo >= kLongest / (int64_t{retrans} + 1)) return std::max(timeo, kLongest);
  return timeo * (int64_t{retrans} + 1);
}

// The rungs of the ladder (cli/ladder.h) that NFSv4.1 has.
enum class TransportKind : uint8_t {
  kTcp,
  kSoftwareRdma,  // RPC over RDMA, the RDMA in user space over TCP
  kRdmaDevice,    // RPC over RDMA, through a device of this machine
};

struct ClientOptions {
  std::string host;
  std::string export_path = "/";
  uint16_t port = 2049;
  AddressFamily family = AddressFamily::kAny;
  bool reserved_port = false;
  TransportKind transport = TransportKind::kTcp;
  rdma::Versions rdma_versions = rdma::Versions::kAuto;
  // What earlier attempts to mount have learnt of the server; null: nothing.
  std::shared_ptr<rdma::VersionMemory> rdma_memory;
  size_t rdma_inline_bytes = 4096;
  uint32_t rdma_credits = 64;
  size_t rdma_ddp_threshold = SIZE_MAX;
  bool rdma_configuration_protocol = false;
  // What is to be used of this machine for kRdmaDevice; nothing asked for: what leads to the server.
  fabric::verbs::Options verbs;
  // Why it is software RDMA and no device; for status.
  std::string fabric_reason;
  // How long connecting with RDMA may take until it has succeeded once.
  std::chrono::milliseconds rdma_first_connect_timeout{10'000};

  bool soft = false;                 // hard is nfs(5)'s default
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
  // NFSv4.1: delegations are asked for with OPEN. Not with noac, whose users want the server asked each time.
  bool delegations = true;
  bool readdirplus = true;
  // The front end asks for attributes before it reads what it has kept, and drops it itself when mtime or
  // size differ.
  bool attributes_before_reads = false;
  // NFSv4.1: how long the CLOSE of a file that nobody has open any more may wait for those of others, to
  // share a COMPOUND with them. 0: not at all.
  std::chrono::milliseconds close_delay{100};
  // How long names and attributes that a READDIR brought of files that nobody had asked for may answer who
  // asks.
  std::chrono::milliseconds brought_names{1000};
  bool sync = false;  // every write is FILE_SYNC before it returns
  // Bytes of file data that are kept at most; 0: none, and nothing is read ahead.
  uint64_t cache_bytes = 0;
  // How far is read ahead of the application at most.
  uint64_t read_ahead_bytes = 0;
  // Not farther than bandwidth and delay make worthwhile (client/cache/read_pace.h). False, for tests: always
  // to the limit.
  bool read_ahead_measured = true;
  // What the server has not committed it may lose, and then only we have it: it is told to once data is this
  // old, as the kernel writes back its pages.
  Duration uncommitted_for = std::chrono::seconds(30);
  // A flag of SEQUENCE that stays up (a back channel that cannot be had) is looked at no more often than
  // this.
  Duration flags_pause = std::chrono::seconds(5);
  IdMapping id_mapping = IdMapping::kNumeric;

  // Several users reach this mount (allow_other): names under directories that not everybody may search, by
  // mode and by ACL, are then answered with no lifetime, so that every path walk asks under its own
  // credential.
  bool many_users = false;
  // False: the administrator says that nothing on the server has an ACL. Then the mode alone says who may
  // search.
  bool server_acls = true;

  // Sees every RPC message of NFSv4.1; null: nobody looks.
  std::shared_ptr<rpc::MessageTap> tap;

  // What is kept, and written, follows it.
  std::function<Memory()> memory = memory_for_us;

  // NFSv3 only. A port of 0: the server's portmapper is asked.
  struct Version3 {
    uint16_t port = 0;  // NFS's; `port` is not looked at
    uint16_t mount_port = 0;
    std::string mount_host;  // empty: `host`
  } v3;

  std::string client_name;  // co_ownerid: unique per mount; empty: host name, pid and a random part
};

}  // namespace nfsrdma::client
