// SPDX-License-Identifier: Apache-2.0
// MountOptions: the typed options of a mount, the result of every way to give options.
//
// parse_options() (cli/options/options.h) fills it from the configuration file and the command line.
// cli/server/translate.h translates it into the option structures of client/ and fuse/. A plain value. The
// member initialisers are the defaults of nfs(5); the table in cli/options/option_table.cc prints the same
// values (a test compares them). An empty optional means "not requested": the server, the kernel or the
// user's privilege decides.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options/metrics_place.h"
#include "client/api/security_flavor.h"

namespace nfsrdma::cli {

// proto=; a netid names a transport and an address family (RFC 5665, RFC 8166 section 5.1).
enum class Transport : uint8_t {
  kAuto,  // tries the rungs of the ladder (cli/mount/ladder.h)
  kTcp,
  kRdma,
};
enum class AddressFamily : uint8_t { kAny, kIpv4, kIpv6 };

// What happens to a request that is not answered after retrans retries.
enum class OnTimeout : uint8_t {
  kHard,     // retry forever
  kSoft,     // EIO
  kSoftErr,  // ETIMEDOUT
};

enum class LookupCache : uint8_t { kAll, kPositive, kNone };
enum class IdMap : uint8_t { kNumeric, kNfsidmap };
enum class LogTarget : uint8_t { kDefault, kJournal, kSyslog, kStderr, kFile };
enum class LogLevel : uint8_t { kError, kWarning, kInfo, kDebug, kTrace };
enum class LogFormat : uint8_t { kText, kJson };

std::string_view to_string(LogLevel level);
std::optional<LogLevel> parse_log_level(std::string_view name);

// nfs(5), xprtsec=. kAuto: TLS if the server offers it, and a certificate of this machine if there is one.
enum class TransportSecurity : uint8_t { kNone, kTls, kMtls, kAuto };

struct MountOptions {
  // --- protocol
  unsigned major_version = 4;             // or 3
  bool any_version = true;                // no version was requested: use 3 if the server has nothing newer
  std::optional<unsigned> minor_version;  // 1 once validated
  Transport transport = Transport::kAuto;
  AddressFamily family = AddressFamily::kAny;
  unsigned rdma_version = 0;                   // of RPC-over-RDMA, 1 or 2; 0: 2, or 1 if the server has no 2
  std::optional<uint32_t> rdma_inline;         // bytes of a Send, a multiple of 1024 in [1024, 65536]
  std::optional<uint32_t> rdma_credits;        // calls outstanding
  std::optional<uint32_t> rdma_ddp_threshold;  // bytes; absent: chunks only for data that does not fit inline
  bool rdma_configuration = false;             // RFC 5666 section 6
  // rdma_dev=. Empty: a device that leads to the server, else software RDMA. kSoftwareRdma: only software
  // RDMA. Otherwise: only this device, and only its port rdma_port unless that is 0.
  std::string rdma_device;
  unsigned rdma_port = 0;
  std::optional<unsigned> gid_index;  // of that device: the source address of connections
  std::chrono::microseconds poll{0};
  std::optional<uint16_t> port;       // absent: the source's port (nfs://host:port/), or the default
  std::optional<bool> reserved_port;  // absent: on for root, but not for the root of a user namespace

  // --- NFSv3 only
  std::optional<uint16_t> mount_port;  // absent: ask the portmapper
  std::string mount_host;              // empty: the server's host

  // --- waiting
  OnTimeout on_timeout = OnTimeout::kHard;
  std::chrono::milliseconds timeo{60'000};
  unsigned retrans = 2;
  std::optional<std::chrono::milliseconds> retry;  // absent: 2 minutes, or 10000 minutes with bg
  bool background = false;

  // --- transfer
  std::optional<uint32_t> rsize;  // bytes, a multiple of 1024 in [1024, 1 MiB]
  std::optional<uint32_t> wsize;
  bool readdirplus = true;
  bool delegations = true;
  std::optional<uint32_t> read_ahead_kb;
  std::optional<uint64_t> cache_mem;  // bytes; absent: derived from the machine's memory

  // --- coherence
  bool attribute_cache = true;  // false: noac, which also makes writes synchronous
  std::chrono::seconds acregmin{3};
  std::chrono::seconds acregmax{60};
  std::chrono::seconds acdirmin{30};
  std::chrono::seconds acdirmax{60};
  LookupCache lookup_cache = LookupCache::kAll;
  bool close_to_open = true;
  bool local_flock = false;        // local_lock=flock, all
  bool local_posix_locks = false;  // local_lock=posix, all

  // --- security
  // sec=, as the user prefers them. Empty: not requested; the mount uses what the server accepts.
  std::vector<client::SecurityFlavor> security;
  TransportSecurity xprtsec = TransportSecurity::kNone;
  std::string tls_ca;  // PEM files; empty: the system's authorities, no certificate, the certificate's file
  std::string tls_cert;
  std::string tls_key;

  // --- FUSE and VFS
  bool read_only = false;
  bool sync = false;
  bool dirsync = false;
  bool dev = false;  // off unless root requests it: a user-space file system is not trusted with devices
  bool suid = false;
  bool exec = true;
  std::optional<bool> allow_other;  // absent: on for root
  bool allow_root = false;
  bool default_permissions = false;
  bool server_acls = true;  // false (server_acls=none): modes decide who may search a directory
  bool auto_unmount = false;
  bool remount = false;

  // --- ours
  std::optional<unsigned> threads;  // loops; absent: derived from the number of cores
  IdMap idmap = IdMap::kNumeric;
  std::string config_file;                     // conf=; empty: /etc/nfsrdma-fuse.conf and .conf.d
  LogTarget log_target = LogTarget::kDefault;  // kDefault: syslog; stderr in the foreground
  std::string log_file;                        // with LogTarget::kFile, absolute
  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kText;
  bool notices = true;                  // on the desktop of the user who owns the mount
  std::optional<MetricsPlace> metrics;  // absent: metrics are not served
  bool sloppy = false;

  static constexpr const char* kSoftwareRdma = "software";

  // Without proto=, port= means TCP's port: another server may listen on the default RDMA port.
  bool may_use_rdma() const {
    if (transport == Transport::kAuto) return major_version == 4 && !port && !must_use_tls();
    return transport == Transport::kRdma;
  }
  bool names_rdma_device() const { return !rdma_device.empty() && rdma_device != kSoftwareRdma; }
  // `there`: this machine has a device. A device that the user names is always tried, and nothing else is.
  bool may_use_rdma_device(bool there) const {
    return may_use_rdma() && (names_rdma_device() || (rdma_device.empty() && there));
  }
  bool may_use_software_rdma() const { return may_use_rdma() && !names_rdma_device(); }
  // Kerberos may be used: it is requested, or what is used is left to the server.
  bool may_use_kerberos() const {
    if (major_version != 4) return false;
    return security.empty() || std::any_of(security.begin(), security.end(), client::uses_kerberos);
  }
  bool may_use_sys() const {
    return security.empty() ||
           std::find(security.begin(), security.end(), client::SecurityFlavor::kSys) != security.end();
  }
  // TLS is a condition of the mount, which excludes RDMA and NFSv3.
  bool must_use_tls() const {
    return xprtsec == TransportSecurity::kTls || xprtsec == TransportSecurity::kMtls;
  }
  // noac is "sync plus actimeo=0" (nfs(5), THE REMOUNT OPTION).
  bool synchronous_writes() const { return sync || !attribute_cache; }
  std::chrono::milliseconds retry_time() const {
    return retry.value_or(std::chrono::minutes(background ? 10'000 : 2));
  }
};

}  // namespace nfsrdma::cli
