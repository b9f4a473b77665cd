// SPDX-License-Identifier: Apache-2.0
#include "cli/options/option_table.h"

#include <algorithm>

#include "cli/options/option_setters.h"
#include "cli/options/option_split.h"

namespace nfsrdma::cli {
namespace {

using O = MountOptions;
using K = OptionKind;
using S = OptionSection;
using M = Mutability;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using Deciseconds = std::chrono::duration<int64_t, std::deci>;

// Linux takes attribute times as int seconds.
constexpr uint64_t kMaxSeconds = 0x7fffffff;
// A bound that keeps retry times inside what steady_clock can represent (292 years of nanoseconds).
constexpr uint64_t kMaxMinutes = 100ull * 365 * 24 * 60;
constexpr uint64_t kMaxUint32 = 0xffffffff;
constexpr uint64_t kMaxCacheBytes = uint64_t{1} << 40;
// A bound that keeps timeo * (retrans + 1) far inside 64 bits of milliseconds.
constexpr uint64_t kMaxRetrans = 10'000;

constexpr OptionSpec refused(S section, std::string_view name, std::string_view help,
                             std::string_view aliases = {}) {
  return {.name = name, .aliases = aliases, .kind = K::kRefused, .section = section, .help = help};
}
constexpr OptionSpec ignored(std::string_view name, std::string_view help, std::string_view aliases = {}) {
  return {.name = name, .aliases = aliases, .kind = K::kIgnored, .section = S::kIgnored, .help = help};
}

constexpr std::string_view kOnlyV41 = "is not implemented, use vers=4.1 or vers=3";
constexpr std::string_view kReserved = "is set by the program";
constexpr std::string_view kTimes =
    "is decided by attribute caching, use acregmin, acregmax, acdirmin and acdirmax";
constexpr std::string_view kAtime = "the server keeps access times (nfs(5), File timestamp maintenance)";
constexpr std::string_view kFstab = "is for mount(8), systemd and the like";
constexpr std::string_view kLegacy = "has no effect any more (nfs(5))";

constexpr OptionSpec kTable[] = {
    // clang-format off
    {.name = "ro", .off = "rw", .section = S::kVfs, .mutability = M::kRemount, .fallback = "off",
     .help = "mount read-only; rw: read-write",
     .set = set_switch<&O::read_only>, .show = show_switch<&O::read_only, "ro", "rw">},

    // --- protocol and server
    {.name = "vers", .aliases = "nfsvers", .kind = K::kText, .section = S::kServer, .unit = "VERSION", .words = "4.1|4|3",
     .fallback = "(4.1, and 3 of a server that has no 4.1)", .help = "NFS protocol version, 4.1 or 3",
     .set = set_version, .show = show_version},
    {.name = "minorversion", .kind = K::kNumber, .section = S::kServer, .unit = "N", .min = 0, .max = kMaxUint32,
     .fallback = "1", .help = "minor version: vers=4,minorversion=1 is vers=4.1",
     .set = set_minor_version},
    {.name = "v4.1", .section = S::kServer, .help = "the same as vers=4.1",
     .set = [](O& o, const OptionValue&) { return set_version(o, {.text = "4.1"}); }},
    {.name = "v4", .section = S::kServer, .help = "the same as vers=4",
     .set = [](O& o, const OptionValue&) { return set_version(o, {.text = "4"}); }},
    {.name = "v3", .section = S::kServer, .help = "the same as vers=3",
     .set = [](O& o, const OptionValue&) { return set_version(o, {.text = "3"}); }},
    refused(S::kServer, "v4.2", kOnlyV41, "v4.0|v2"),
    {.name = "proto", .kind = K::kText, .section = S::kServer, .unit = "NETID", .words = "rdma|rdma6|tcp|tcp6|auto",
     .fallback = "(auto; with port or vers=3 TCP)", .help = "transport: rdma and tcp are IPv4 only, rdma6 and tcp6 IPv6 only; auto is RDMA, and TCP where the server has no RDMA",
     .set = set_protocol, .show = show_protocol},
    {.name = "tcp", .section = S::kServer, .help = "the same as proto=tcp",
     .set = [](O& o, const OptionValue&) { return set_protocol(o, {.text = "tcp"}); }},
    {.name = "rdma", .section = S::kServer, .help = "the same as proto=rdma",
     .set = [](O& o, const OptionValue&) { return set_protocol(o, {.text = "rdma"}); }},
    {.name = "rdmavers", .kind = K::kWord, .section = S::kServer, .words = "auto|1|2",
     .fallback = "auto", .help = "RPC-over-RDMA version; auto: 2, and 1 of a server that has no 2",
     .set = set_rdma_version, .show = show_rdma_version},
    {.name = "inline", .kind = K::kSize, .section = S::kServer, .unit = "BYTES", .min = 1024, .max = 65536,
     .fallback = "(4096)", .help = "with RDMA: the longest message that is sent and taken without RDMA Read or Write, a multiple of 1024",
     .set = set_inline, .show = show_number<&O::rdma_inline, "inline">},
    {.name = "credits", .kind = K::kNumber, .section = S::kServer, .unit = "N", .min = 2, .max = 1024,
     .fallback = "(64)", .help = "with RDMA: requests that the server is asked to take at once",
     .set = set_number<&O::rdma_credits>, .show = show_number<&O::rdma_credits, "credits">},
    {.name = "ddp", .kind = K::kSize, .section = S::kServer, .unit = "BYTES", .min = 0, .max = kMaxUint32,
     .fallback = "(what does not fit inline)", .help = "with RDMA: data of so many bytes and more is placed by RDMA even where it fits inline",
     .set = set_number<&O::rdma_ddp_threshold>, .show = show_number<&O::rdma_ddp_threshold, "ddp">},
    {.name = "ccp", .off = "noccp", .section = S::kServer, .fallback = "off",
     .help = "with rdmavers=1: ask for the server's limits by RFC 5666's Connection Configuration Protocol, which hardly any server has",
     .set = set_switch<&O::rdma_configuration>, .show = show_switch<&O::rdma_configuration, "ccp", "">},
    {.name = "rdma_dev", .kind = K::kText, .section = S::kServer, .unit = "DEVICE[:PORT]|software|auto",
     .fallback = "(auto)", .help = "RDMA device, see ibv_devices(1); auto: the one that leads to the server, and RDMA in software where there is none; software: that only",
     .set = set_rdma_device, .show = show_rdma_device},
    {.name = "gid_index", .kind = K::kNumber, .section = S::kServer, .unit = "N", .min = 0, .max = 65535,
     .fallback = "(any that fits)", .help = "the entry of rdma_dev's GID table, on RoCE an address of its interface, that connections come from",
     .set = set_number<&O::gid_index>, .show = show_number<&O::gid_index, "gid_index">},
    refused(S::kServer, "udp", "is not possible, use proto=tcp"),
    {.name = "port", .kind = K::kNumber, .section = S::kServer, .unit = "PORT", .min = 1, .max = 65535,
     .fallback = "(that in nfs://host:port/path, else 2049, with RDMA 20049; with vers=3 what the server's portmapper says)", .help = "the server's port; without proto it is TCP's",
     .set = set_number<&O::port>, .show = show_number<&O::port, "port">},
    {.name = "resvport", .off = "noresvport", .section = S::kServer, .fallback = "(on for root)",
     .help = "connect from a port below 1024, as servers want unless they export with \"insecure\"",
     .set = set_switch<&O::reserved_port>, .show = show_switch<&O::reserved_port, "resvport", "noresvport">},
    refused(S::kServer, "max_connect", "is not implemented: one address of the server is used, with nconnect=N connections"),

    // --- waiting for the server
    {.name = "hard", .off = "soft", .section = S::kWaiting, .fallback = "on",
     .help = "repeat requests until the server answers",
     .set = set_choice<&O::on_timeout, OnTimeout::kHard, OnTimeout::kSoft>,
     .show = show_choice<&O::on_timeout, OnTimeout::kHard, "hard">},
    {.name = "soft", .off = "hard", .section = S::kWaiting, .fallback = "off",
     .help = "fail a request with EIO after timeo * (retrans + 1), at most 600 seconds; can lose data",
     .set = set_choice<&O::on_timeout, OnTimeout::kSoft, OnTimeout::kHard>,
     .show = show_choice<&O::on_timeout, OnTimeout::kSoft, "soft">},
    {.name = "softerr", .off = "hard", .section = S::kWaiting, .fallback = "off",
     .help = "as soft, failing with ETIMEDOUT",
     .set = set_choice<&O::on_timeout, OnTimeout::kSoftErr, OnTimeout::kHard>,
     .show = show_choice<&O::on_timeout, OnTimeout::kSoftErr, "softerr">},
    {.name = "timeo", .kind = K::kNumber, .section = S::kWaiting, .unit = "DECISECONDS", .min = 1, .max = kMaxUint32,
     .fallback = "600", .help = "how long an answer may take, in tenths of a second, before the server counts as not responding; at most 6000",
     .set = set_timeo, .show = show_number<&O::timeo, "timeo", Deciseconds>},
    {.name = "retrans", .kind = K::kNumber, .section = S::kWaiting, .unit = "N", .min = 0, .max = kMaxRetrans,
     .fallback = "2", .help = "retries before further recovery: a new connection, or with soft an error",
     .set = set_number<&O::retrans>, .show = show_number<&O::retrans, "retrans">},
    {.name = "retry", .kind = K::kNumber, .section = S::kWaiting, .unit = "MINUTES", .min = 0, .max = kMaxMinutes,
     .fallback = "(2, with bg 10000)", .help = "how long the mount command goes on trying; 0: one attempt, of 10 seconds where nothing answers",
     .set = set_retry, .show = show_number<&O::retry, "retry", minutes>},
    {.name = "bg", .off = "fg", .section = S::kWaiting, .fallback = "off",
     .help = "when the first attempt fails for a passing reason, go on trying in the background",
     .set = set_switch<&O::background>, .show = show_switch<&O::background, "bg", "">},
    refused(S::kWaiting, "softreval", "is not implemented"),

    // --- transfer
    {.name = "rsize", .kind = K::kSize, .section = S::kTransfer, .unit = "BYTES", .min = 0, .max = kMaxUint32,
     .fallback = "(what the server allows)", .help = "largest READ, a multiple of 1024 up to 1048576",
     .set = set_rsize, .show = show_number<&O::rsize, "rsize">},
    {.name = "wsize", .kind = K::kSize, .section = S::kTransfer, .unit = "BYTES", .min = 0, .max = kMaxUint32,
     .fallback = "(what the server allows)", .help = "largest WRITE, a multiple of 1024 up to 1048576",
     .set = set_wsize, .show = show_number<&O::wsize, "wsize">},
    {.name = "rdirplus", .off = "nordirplus", .section = S::kTransfer, .fallback = "on",
     .help = "read directories with the attributes of their entries",
     .set = set_switch<&O::readdirplus>, .show = show_switch<&O::readdirplus, "rdirplus", "nordirplus">},
    {.name = "read_ahead_kb", .kind = K::kNumber, .section = S::kTransfer, .unit = "KIB", .min = 0, .max = kMaxUint32,
     .fallback = "(the kernel 4096 as root, else its own 128; the daemon 16384)", .help = "how far to read ahead at most: the kernel, which takes more than its own from root only, and the daemon, as far as bandwidth and delay make worthwhile",
     .set = set_number<&O::read_ahead_kb>, .show = show_number<&O::read_ahead_kb, "read_ahead_kb">},
    {.name = "cache_mem", .kind = K::kSize, .section = S::kTransfer, .unit = "BYTES", .min = 0, .max = kMaxCacheBytes,
     .fallback = "(a sixteenth of the memory, at most 1g)", .help = "memory for file data that the daemon keeps, beside the kernel's page cache; less while memory is short; 0: none, and the daemon reads nothing ahead",
     .set = set_number<&O::cache_mem>, .show = show_number<&O::cache_mem, "cache_mem">},

    {.name = "poll_us", .kind = K::kNumber, .section = S::kTransfer, .unit = "MICROSECONDS", .min = 0, .max = 1'000'000,
     .fallback = "0", .help = "with an RDMA device: how long to poll for the next completion before the loop sleeps; costs that much CPU",
     .set = set_number<&O::poll>, .show = show_poll},

    // --- coherence
    {.name = "ac", .off = "noac", .section = S::kCoherence, .fallback = "on",
     .help = "cache attributes; noac: never, and write synchronously",
     .set = set_switch<&O::attribute_cache>, .show = show_switch<&O::attribute_cache, "ac", "noac">},
    {.name = "acregmin", .kind = K::kNumber, .section = S::kCoherence, .unit = "SECONDS", .min = 0, .max = kMaxSeconds,
     .fallback = "3", .help = "shortest time that attributes of a file are cached",
     .set = set_number<&O::acregmin, seconds>, .show = show_number<&O::acregmin, "acregmin", seconds>},
    {.name = "acregmax", .kind = K::kNumber, .section = S::kCoherence, .unit = "SECONDS", .min = 0, .max = kMaxSeconds,
     .fallback = "60", .help = "longest time that attributes of a file are cached",
     .set = set_number<&O::acregmax, seconds>, .show = show_number<&O::acregmax, "acregmax", seconds>},
    {.name = "acdirmin", .kind = K::kNumber, .section = S::kCoherence, .unit = "SECONDS", .min = 0, .max = kMaxSeconds,
     .fallback = "30", .help = "shortest time that attributes of a directory are cached",
     .set = set_number<&O::acdirmin, seconds>, .show = show_number<&O::acdirmin, "acdirmin", seconds>},
    {.name = "acdirmax", .kind = K::kNumber, .section = S::kCoherence, .unit = "SECONDS", .min = 0, .max = kMaxSeconds,
     .fallback = "60", .help = "longest time that attributes of a directory are cached",
     .set = set_number<&O::acdirmax, seconds>, .show = show_number<&O::acdirmax, "acdirmax", seconds>},
    {.name = "actimeo", .kind = K::kNumber, .section = S::kCoherence, .unit = "SECONDS", .min = 0, .max = kMaxSeconds,
     .fallback = "(see the four above)", .help = "sets acregmin, acregmax, acdirmin and acdirmax",
     .set = set_actimeo},
    {.name = "lookupcache", .kind = K::kWord, .section = S::kCoherence, .words = "all|pos|positive|none",
     .fallback = "all", .help = "which names are cached: all, only existing ones (pos, positive), none",
     .set = set_lookup_cache, .show = show_lookup_cache},
    {.name = "cto", .off = "nocto", .section = S::kCoherence, .fallback = "on",
     .help = "close-to-open consistency: open sees what another client's close has written",
     .set = set_switch<&O::close_to_open>, .show = show_switch<&O::close_to_open, "cto", "nocto">},
    {.name = "delegations", .off = "nodelegations", .section = S::kCoherence, .fallback = "on",
     .help = "NFSv4.1, without noac: ask for delegations, under which opens, closes and attributes need not ask the server",
     .set = set_switch<&O::delegations>, .show = show_switch<&O::delegations, "", "nodelegations">},
    {.name = "sync", .off = "async", .section = S::kCoherence, .fallback = "off",
     .help = "a write returns when the server has the data on stable storage",
     .set = set_switch<&O::sync>, .show = show_switch<&O::sync, "sync", "">},
    {.name = "dirsync", .section = S::kCoherence, .fallback = "off",
     .help = "directory changes are synchronous; over NFS they always are",
     .set = set_switch<&O::dirsync>, .show = show_switch<&O::dirsync, "dirsync", "">},

    // --- locking
    {.name = "local_lock", .kind = K::kWord, .section = S::kLocking, .words = "all|flock|posix|none",
     .fallback = "none", .help = "which locks stay on this machine",
     .set = set_local_lock, .show = show_local_lock},

    {.name = "nolock", .off = "lock", .section = S::kLocking, .fallback = "(on with vers=3)",
     .help = "NFSv3 only: locks stay on this machine; lock: is not possible",
     .set = set_no_lock},

    // --- NFSv3
    {.name = "mountport", .kind = K::kNumber, .section = S::kServer, .unit = "PORT", .min = 1, .max = 65535,
     .fallback = "(what the server's portmapper says)", .help = "NFSv3 only: the port of the server's MOUNT service",
     .set = set_number<&O::mount_port>, .show = show_mount_port},
    {.name = "mounthost", .aliases = "mountaddr", .kind = K::kText, .section = S::kServer, .unit = "HOST",
     .fallback = "(the server)", .help = "NFSv3 only: where the MOUNT service is",
     .set = set_text<&O::mount_host>, .show = show_mount_host},
    {.name = "mountproto", .kind = K::kWord, .section = S::kServer, .words = "tcp|tcp6",
     .fallback = "(as proto)", .help = "NFSv3 only: the MOUNT service's transport; it follows proto",
     .set = set_nothing},
    {.name = "mountvers", .kind = K::kNumber, .section = S::kServer, .unit = "N", .min = 3, .max = 3,
     .fallback = "3", .help = "NFSv3 only: the MOUNT service's version",
     .set = set_nothing},

    // --- security
    {.name = "sec", .kind = K::kText, .section = S::kSecurity, .unit = "FLAVOR[:FLAVOR...]", .words = "sys|krb5|krb5i|krb5p",
     .fallback = "(sys, or what the server wants)", .help = "security flavors that are acceptable: sys (user and group IDs, as they are), or Kerberos with each user's own ticket: krb5 (proves who asks), krb5i (and that nothing is changed on the way), krb5p (and encrypts everything); the first is tried first, and if the server refuses it, the server's order decides among the rest; who controls the network can force a list with sys, or no list, down to sys; NFSv4.1 only",
     .set = set_security, .show = show_security},
    {.name = "xprtsec", .kind = K::kWord, .section = S::kSecurity, .words = "none|tls|mtls|auto",
     .fallback = "none", .help = "TLS between this machine and the server, over TCP with NFSv4.1: tls proves who the server is and encrypts everything, mtls also proves who this machine is, auto takes what the server offers, and so protects against listeners only",
     .set = set_xprtsec, .show = show_xprtsec},
    {.name = "tls_ca", .kind = K::kText, .section = S::kSecurity, .unit = "FILE",
     .fallback = "(those that this system trusts)", .help = "PEM file with the authorities that may sign the server's certificate",
     .set = set_text<&O::tls_ca>, .show = show_text<&O::tls_ca, "tls_ca">},
    {.name = "tls_cert", .kind = K::kText, .section = S::kSecurity, .unit = "FILE",
     .fallback = "(none)", .help = "PEM file with this machine's certificate, for mtls",
     .set = set_text<&O::tls_cert>, .show = show_text<&O::tls_cert, "tls_cert">},
    {.name = "tls_key", .kind = K::kText, .section = S::kSecurity, .unit = "FILE",
     .fallback = "(in the file of tls_cert)", .help = "PEM file with the key of this machine's certificate",
     .set = set_text<&O::tls_key>, .show = show_text<&O::tls_key, "tls_key">},

    // --- VFS
    {.name = "dev", .off = "nodev", .section = S::kVfs, .mutability = M::kRemount, .fallback = "off", .help = "device files work; root only",
     .set = set_switch<&O::dev>, .show = show_switch<&O::dev, "dev", "nodev">},
    {.name = "suid", .off = "nosuid", .section = S::kVfs, .mutability = M::kRemount, .fallback = "off",
     .help = "set-user-ID files and file capabilities work; root only",
     .set = set_switch<&O::suid>, .show = show_switch<&O::suid, "suid", "nosuid">},
    {.name = "exec", .off = "noexec", .section = S::kVfs, .mutability = M::kRemount, .fallback = "on", .help = "programs can be run",
     .set = set_switch<&O::exec>, .show = show_switch<&O::exec, "", "noexec">},
    {.name = "remount", .section = S::kVfs, .help = "change ro, suid and exec of a mount that exists, and dev of one that was mounted with it; root only",
     .set = set_switch<&O::remount>},

    // --- FUSE
    {.name = "allow_other", .section = S::kFuse, .fallback = "(on for root)",
     .help = "other users than the one who mounts may use the mount",
     .set = set_switch<&O::allow_other>, .show = show_switch<&O::allow_other, "allow_other", "">},
    {.name = "allow_root", .section = S::kFuse, .fallback = "off", .help = "root may use the mount of a user",
     .set = set_switch<&O::allow_root>, .show = show_switch<&O::allow_root, "allow_root", "">},
    {.name = "default_permissions", .section = S::kFuse, .fallback = "off",
     .help = "the kernel checks modes too; without it the server alone decides, and nobody is asked before a FIFO or "
             "socket is opened (on with dev)",
     .set = set_switch<&O::default_permissions>, .show = show_switch<&O::default_permissions, "default_permissions", "">},
    {.name = "server_acls", .kind = K::kWord, .section = S::kFuse, .words = "ask|none", .fallback = "ask",
     .help = "root's mount of a server that shows no ACLs: ask it for each name of a path, under the caller's identity; "
             "none: nothing there has an ACL, and modes say which names the kernel may keep (the second ls -l of "
             "10,000 files: 0 LOOKUPs instead of 40,005; where an ACL denies search after all, who is denied can follow "
             "names that the kernel keeps)",
     .set = set_server_acls, .show = show_server_acls},
    {.name = "auto_unmount", .section = S::kFuse, .fallback = "off", .help = "unmount when the daemon dies",
     .set = set_switch<&O::auto_unmount>, .show = show_switch<&O::auto_unmount, "auto_unmount", "">},
    {.name = "fsname", .aliases = "subtype|fd|user_id|group_id|rootmode|max_read|blksize|blkdev", .kind = K::kRefused,
     .section = S::kFuse, .help = kReserved, .shown_by_kernel = true},
    refused(S::kFuse, "attr_timeout", kTimes, "entry_timeout|negative_timeout|ac_attr_timeout"),
    refused(S::kFuse, "kernel_cache", "is decided by the change attribute and by delegations", "auto_cache|direct_io"),
    refused(S::kFuse, "umask", "is not possible: owners and modes are the server's", "uid|gid|fmask|dmask"),

    // --- the daemon
    {.name = "threads", .aliases = "nconnect|fuse_threads", .kind = K::kNumber, .section = S::kDaemon, .unit = "N", .min = 1, .max = 16,
     .fallback = "(a quarter of the processors, 1 to 4)", .help = "event loops, each with a connection to the server and a reader of FUSE requests of its own",
     .set = set_number<&O::threads>, .show = show_number<&O::threads, "threads">},
    {.name = "idmap", .kind = K::kWord, .section = S::kDaemon, .words = "numeric|nfsidmap",
     .fallback = "numeric", .help = "owners as numbers, or as names through nfsidmap(5)",
     .set = set_idmap, .show = show_idmap},
    {.name = "conf", .kind = K::kText, .section = S::kDaemon, .unit = "FILE",
     .fallback = "(/etc/nfsrdma-fuse.conf and /etc/nfsrdma-fuse.conf.d/*.conf)", .help = "configuration file",
     .set = set_text<&O::config_file>, .show = show_config_file},
    {.name = "log", .kind = K::kText, .section = S::kDaemon, .mutability = M::kLive, .unit = "journal|syslog|stderr|FILE",
     .fallback = "(syslog; in the foreground stderr)", .help = "where log lines go",
     .set = set_log, .show = show_log},
    {.name = "log_level", .kind = K::kWord, .section = S::kDaemon, .mutability = M::kLive, .words = "error|warning|info|debug|trace",
     .fallback = "info", .help = "least important lines that are logged; file names appear from debug on; trace: each operation",
     .set = set_log_level, .show = show_log_level},
    {.name = "log_format", .kind = K::kWord, .section = S::kDaemon, .mutability = M::kLive, .words = "text|json",
     .fallback = "text", .help = "form of the log lines",
     .set = set_log_format, .show = show_log_format},
    {.name = "notify", .kind = K::kWord, .section = S::kDaemon, .words = "auto|none",
     .fallback = "auto", .help = "notices on the desktop of the user whose mount it is: the server does not answer, is back, is full; locks are lost",
     .set = set_notify, .show = show_notify},
    {.name = "metrics", .kind = K::kText, .section = S::kDaemon, .unit = "unix:PATH|ADDRESS:PORT",
     .fallback = "(off)", .help = "serve what stats --format=prometheus prints at http://ADDRESS:PORT/metrics, or by HTTP on a socket file that only its owner can use; there is no authentication: whoever reaches the address, on 127.0.0.1 every user of this machine, reads all numbers and the names of export and mount point; costs a millisecond of CPU a request",
     .set = set_metrics, .show = show_metrics},
    {.name = "sloppy", .section = S::kDaemon, .fallback = "off", .help = "skip unknown options instead of failing",
     .set = set_switch<&O::sloppy>},

    // --- of other versions and features
    refused(S::kForeign, "namlen", "is the server's to say", "namelen"),
    refused(S::kForeign, "acl", "is not implemented"),
    refused(S::kForeign, "sharecache", "is not possible: every mount has a cache of its own"),
    refused(S::kForeign, "fsc", "is not implemented"),
    refused(S::kForeign, "trunkdiscovery", "is not implemented"),
    refused(S::kForeign, "write", "is not implemented"),

    // --- without effect by definition
    ignored("defaults", "stands for no option at all"),
    ignored("_netdev", kFstab, "auto|noauto|nofail|user|users|nouser|owner|noowner|group|nogroup|comment|uhelper|helper|x_*|X_*"),
    ignored("noatime", kAtime, "atime|diratime|nodiratime|relatime|norelatime|strictatime|nostrictatime|lazytime|nolazytime"),
    ignored("intr", kLegacy, "nointr"),
    ignored("clientaddr", "is for NFSv4.0: here the server calls back over the client's connection", "migration|nomigration"),
    ignored("noacl", "is always so"),
    ignored("nosharecache", "is always so"),
    ignored("nofsc", "is always so"),
    ignored("nosoftreval", "is always so", "notrunkdiscovery"),
    ignored("nonempty", "is always so (FUSE 3)"),
    ignored("reconnect", "is always so"),
    ignored("silent", "is always so", "loud|nomand|noiversion"),
    // clang-format on
};

bool in_list(std::string_view list, std::string_view name) {
  for (const std::string_view word : split_words(list)) {
    if (word == name) return true;
    if (word.ends_with('*') && name.starts_with(word.substr(0, word.size() - 1))) return true;
  }
  return false;
}

}  // namespace

std::span<const OptionSpec> option_table() {
  return kTable;
}

std::span<const std::string_view> version3_options() {
  static constexpr std::string_view kNames[] = {"mountport", "mounthost", "mountproto", "mountvers",
                                                "nolock"};
  return kNames;
}

std::vector<std::string_view> split_words(std::string_view words) {
  std::vector<std::string_view> out;
  while (!words.empty()) {
    const size_t bar = std::min(words.find('|'), words.size());
    out.push_back(words.substr(0, bar));
    words.remove_prefix(std::min(bar + 1, words.size()));
  }
  return out;
}

std::string option_name(std::string_view name) {
  std::string out(name);
  for (char& c : out) {
    if (c == '-') c = '_';
  }
  return out;
}

OptionMatch find_option(std::string_view given) {
  const std::string name = option_name(given);
  // First by its own name: `soft` is an option, and also turns `hard` off.
  for (const OptionSpec& spec : kTable) {
    if (spec.name == name || in_list(spec.aliases, name)) return {&spec, false};
  }
  for (const OptionSpec& spec : kTable) {
    if (!spec.off.empty() && spec.off == name) return {&spec, true};
  }
  return {};
}

namespace {

void append_item(std::string& list, const std::string& item) {
  if (item.empty()) return;
  if (!list.empty()) list += ',';
  list += item;
}

}  // namespace

std::string show_options(const MountOptions& options) {
  std::string out;
  for (const OptionSpec& spec : kTable) {
    if (spec.show != nullptr) append_item(out, escape_option(spec.show(options)));
  }
  return out;
}

std::string fixed_changes(const MountOptions& now, const MountOptions& wanted) {
  std::string out;
  for (const OptionSpec& spec : kTable) {
    if (spec.show == nullptr || spec.mutability == M::kLive) continue;
    const std::string text = spec.show(wanted);
    if (text == spec.show(now)) continue;
    if (!text.empty()) {
      append_item(out, text);
    } else if (spec.off.empty()) {
      append_item(out, std::string(spec.name));
    } else if (find_option(spec.off).negated) {  // otherwise the opposite has its own row
      append_item(out, std::string(spec.off));
    }
  }
  return out;
}

std::string_view title(OptionSection section) {
  switch (section) {
    case S::kServer: return "Server and protocol";
    case S::kWaiting: return "Waiting for the server";
    case S::kTransfer: return "Transfer";
    case S::kCoherence: return "Data and attribute coherence";
    case S::kLocking: return "Locking";
    case S::kSecurity: return "Security";
    case S::kVfs: return "File system";
    case S::kFuse: return "FUSE";
    case S::kDaemon: return "Daemon";
    case S::kForeign: return "Of other protocol versions";
    case S::kIgnored: return "Accepted without effect";
  }
  return "";
}

}  // namespace nfsrdma::cli
