// SPDX-License-Identifier: Apache-2.0
// Setters and printers of options whose values have rules of their own.
#include <algorithm>
#include <charconv>

#include "cli/options/option_setters.h"

namespace nfsrdma::cli {
namespace {

std::optional<unsigned> digits(std::string_view text) {
  unsigned value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

Outcome<> bad_version(std::string_view version) {
  return bad_usage(fmt::format("version {} is not implemented, use vers=4.1 or vers=3", version));
}

}  // namespace

Outcome<> set_version(MountOptions& o, const OptionValue& v) {
  const size_t dot = std::min(v.text.find('.'), v.text.size());
  const auto major = digits(v.text.substr(0, dot));
  const auto minor = dot < v.text.size() ? digits(v.text.substr(dot + 1)) : std::nullopt;
  if (!major || (dot < v.text.size() && !minor)) {
    return bad_usage(fmt::format("\"{}\" is not a protocol version, use vers=4.1 or vers=3", v.text));
  }
  const bool known = (*major == 4 && minor.value_or(1) == 1) || (*major == 3 && !minor);
  if (!known) return bad_version(v.text);
  o.any_version = false;
  o.major_version = *major;
  o.minor_version = minor;
  return {};
}

Outcome<> set_minor_version(MountOptions& o, const OptionValue& v) {
  if (v.number != 1) return bad_version(fmt::format("4.{}", v.number));
  o.any_version = false;
  o.minor_version = static_cast<unsigned>(v.number);
  return {};
}

// NLM needs a lock manager and a status monitor on the client that the server can reach; this client has
// none.
Outcome<> set_no_lock(MountOptions&, const OptionValue& v) {
  if (!v.on) return bad_usage("locks of an NFSv3 mount stay on this machine, use nolock");
  return {};
}

Outcome<> set_nothing(MountOptions&, const OptionValue&) {
  return {};
}

// The configuration file may set these options for all mounts, so they are shown only for an NFSv3 mount.
std::string show_mount_port(const MountOptions& o) {
  return o.major_version == 3 && o.mount_port ? fmt::format("mountport={}", *o.mount_port) : std::string();
}

std::string show_mount_host(const MountOptions& o) {
  return o.major_version == 3 && !o.mount_host.empty() ? "mounthost=" + o.mount_host : std::string();
}

// With vers=4 alone the client chooses the minor version; it supports only 1.
std::string show_version(const MountOptions& o) {
  if (o.major_version == 3) return "vers=3";
  return fmt::format("vers={}.{}", o.major_version, o.minor_version.value_or(1));
}

Outcome<> set_protocol(MountOptions& o, const OptionValue& v) {
  struct Netid {
    std::string_view name;
    Transport transport;
    AddressFamily family;
  };
  static constexpr Netid kNetids[] = {{"auto", Transport::kAuto, AddressFamily::kAny},
                                      {"rdma", Transport::kRdma, AddressFamily::kIpv4},
                                      {"rdma6", Transport::kRdma, AddressFamily::kIpv6},
                                      {"tcp", Transport::kTcp, AddressFamily::kIpv4},
                                      {"tcp6", Transport::kTcp, AddressFamily::kIpv6}};
  for (const Netid& netid : kNetids) {
    if (netid.name != v.text) continue;
    o.transport = netid.transport;
    o.family = netid.family;
    return {};
  }
  if (v.text == "udp" || v.text == "udp6")
    return bad_usage(fmt::format("{} is not possible, use proto=tcp", v.text));  // RFC 8881 section 2.9.1
  return bad_usage(fmt::format("\"{}\" is not a transport, use rdma, tcp or auto", v.text));
}

std::string show_protocol(const MountOptions& o) {
  const char* const name = o.transport == Transport::kRdma ? "rdma" : "tcp";
  switch (o.family) {
    case AddressFamily::kAny: return {};  // unknown until there is a connection, see options_in_use()
    case AddressFamily::kIpv4: return fmt::format("proto={}", name);
    case AddressFamily::kIpv6: return fmt::format("proto={}6", name);
  }
  return {};
}

Outcome<> set_rdma_version(MountOptions& o, const OptionValue& v) {
  o.rdma_version = digits(v.text).value_or(0);
  return {};
}

std::string show_rdma_version(const MountOptions& o) {
  return o.rdma_version == 0 ? std::string() : fmt::format("rdmavers={}", o.rdma_version);
}

// RFC 8797 section 4: the sizes are encoded in units of 1024 bytes.
Outcome<> set_inline(MountOptions& o, const OptionValue& v) {
  o.rdma_inline = static_cast<uint32_t>(v.number / 1024 * 1024);
  return {};
}

Outcome<> set_rdma_device(MountOptions& o, const OptionValue& v) {
  std::string_view name = v.text;
  unsigned port = 0;
  if (const size_t colon = name.rfind(':'); colon != name.npos) {
    port = digits(name.substr(colon + 1)).value_or(0);
    if (port == 0 || port > 255) return bad_usage(fmt::format("\"{}\" is not DEVICE:PORT", v.text));
    name = name.substr(0, colon);
  }
  if (name.empty()) return bad_usage(fmt::format("\"{}\" is not DEVICE:PORT", v.text));
  o.rdma_device = name == "auto" ? std::string() : std::string(name);
  o.rdma_port = port;
  return {};
}

std::string show_rdma_device(const MountOptions& o) {
  if (o.rdma_device.empty()) return {};
  return o.rdma_port == 0 ? fmt::format("rdma_dev={}", o.rdma_device)
                          : fmt::format("rdma_dev={}:{}", o.rdma_device, o.rdma_port);
}

std::string show_poll(const MountOptions& o) {
  return o.poll.count() == 0 ? std::string() : fmt::format("poll_us={}", o.poll.count());
}

// nfs(5): a colon-separated list of acceptable flavors.
Outcome<> set_security(MountOptions& o, const OptionValue& v) {
  std::vector<client::SecurityFlavor> flavors;
  std::string_view rest = v.text;
  while (true) {
    const size_t colon = std::min(rest.find(':'), rest.size());
    const std::string_view name = rest.substr(0, colon);
    if (name == "none") return bad_usage("none is not implemented, use sec=sys");
    const auto flavor = client::security_flavor(name);
    if (!flavor)
      return bad_usage(fmt::format("\"{}\" is not a security flavor, use sys, krb5, krb5i or krb5p", name));
    if (std::find(flavors.begin(), flavors.end(), *flavor) == flavors.end()) flavors.push_back(*flavor);
    if (colon == rest.size()) break;
    rest.remove_prefix(colon + 1);
  }
  o.security = std::move(flavors);
  return {};
}

namespace {

struct NamedPolicy {
  TransportSecurity policy;
  std::string_view name;
};
constexpr NamedPolicy kPolicies[] = {{TransportSecurity::kNone, "none"},
                                     {TransportSecurity::kTls, "tls"},
                                     {TransportSecurity::kMtls, "mtls"},
                                     {TransportSecurity::kAuto, "auto"}};

}  // namespace

// RPC-with-TLS, RFC 9289. The option table has checked the word.
Outcome<> set_xprtsec(MountOptions& o, const OptionValue& v) {
  o.xprtsec = std::ranges::find(kPolicies, v.text, &NamedPolicy::name)->policy;
  return {};
}

std::string show_xprtsec(const MountOptions& o) {
  if (o.xprtsec == TransportSecurity::kNone) return {};
  return fmt::format("xprtsec={}", std::ranges::find(kPolicies, o.xprtsec, &NamedPolicy::policy)->name);
}

std::string show_security(const MountOptions& o) {
  return o.security.empty() ? "sec=sys" : "sec=" + client::joined(o.security);
}

// nfs(5): "Specified rsize values lower than 1024 are replaced with 4096; values larger than 1048576 are
// replaced with 1048576". Other values are rounded down to a multiple of 1024. 0 lets the server decide, as
// on Linux.
static std::optional<uint32_t> transfer_size(uint64_t bytes) {
  if (bytes == 0) return std::nullopt;
  if (bytes < 1024) return 4096;
  return static_cast<uint32_t>(std::min<uint64_t>(bytes, 1 << 20) / 1024 * 1024);
}

Outcome<> set_rsize(MountOptions& o, const OptionValue& v) {
  o.rsize = transfer_size(v.number);
  return {};
}
Outcome<> set_wsize(MountOptions& o, const OptionValue& v) {
  o.wsize = transfer_size(v.number);
  return {};
}

// Limits timeo to 600 seconds: in nfs(5) the timeout grows "up to the maximum of 600 seconds".
Outcome<> set_timeo(MountOptions& o, const OptionValue& v) {
  o.timeo = std::chrono::milliseconds(100) * std::min<uint64_t>(v.number, 6000);
  return {};
}

Outcome<> set_actimeo(MountOptions& o, const OptionValue& v) {
  const std::chrono::seconds time(v.number);
  o.acregmin = o.acregmax = o.acdirmin = o.acdirmax = time;
  return {};
}

Outcome<> set_lookup_cache(MountOptions& o, const OptionValue& v) {
  if (v.text == "all") o.lookup_cache = LookupCache::kAll;
  if (v.text == "pos" || v.text == "positive") o.lookup_cache = LookupCache::kPositive;
  if (v.text == "none") o.lookup_cache = LookupCache::kNone;
  return {};
}

std::string show_lookup_cache(const MountOptions& o) {
  switch (o.lookup_cache) {
    case LookupCache::kAll: return "lookupcache=all";
    case LookupCache::kPositive: return "lookupcache=pos";
    case LookupCache::kNone: return "lookupcache=none";
  }
  return {};
}

Outcome<> set_local_lock(MountOptions& o, const OptionValue& v) {
  o.local_flock = v.text == "flock" || v.text == "all";
  o.local_posix_locks = v.text == "posix" || v.text == "all";
  return {};
}

std::string show_local_lock(const MountOptions& o) {
  if (o.local_flock && o.local_posix_locks) return "local_lock=all";
  if (o.local_flock) return "local_lock=flock";
  return o.local_posix_locks ? "local_lock=posix" : "local_lock=none";
}

Outcome<> set_server_acls(MountOptions& o, const OptionValue& v) {
  o.server_acls = v.text != "none";
  return {};
}

std::string show_server_acls(const MountOptions& o) {
  return o.server_acls ? "" : "server_acls=none";
}

Outcome<> set_retry(MountOptions& o, const OptionValue& v) {
  o.retry = std::chrono::minutes(v.number);
  return {};
}

Outcome<> set_idmap(MountOptions& o, const OptionValue& v) {
  o.idmap = v.text == "nfsidmap" ? IdMap::kNfsidmap : IdMap::kNumeric;
  return {};
}

std::string show_idmap(const MountOptions& o) {
  return o.idmap == IdMap::kNfsidmap ? "idmap=nfsidmap" : "idmap=numeric";
}

Outcome<> set_log(MountOptions& o, const OptionValue& v) {
  o.log_file.clear();
  if (v.text == "journal") {
    o.log_target = LogTarget::kJournal;
  } else if (v.text == "syslog") {
    o.log_target = LogTarget::kSyslog;
  } else if (v.text == "stderr") {
    o.log_target = LogTarget::kStderr;
  } else if (v.text.starts_with('/')) {
    o.log_target = LogTarget::kFile;
    o.log_file = v.text;
  } else {
    return bad_usage(
        fmt::format("\"{}\" is neither journal, syslog or stderr nor a path that begins with /", v.text));
  }
  return {};
}

Outcome<> set_metrics(MountOptions& o, const OptionValue& v) {
  auto place = parse_metrics_place(v.text);
  if (!place) return bad_usage(place.error().text);
  o.metrics = *std::move(place);
  return {};
}

std::string show_metrics(const MountOptions& o) {
  return o.metrics ? "metrics=" + o.metrics->text() : std::string();
}

std::string show_log(const MountOptions& o) {
  switch (o.log_target) {
    case LogTarget::kDefault: return {};
    case LogTarget::kJournal: return "log=journal";
    case LogTarget::kSyslog: return "log=syslog";
    case LogTarget::kStderr: return "log=stderr";
    case LogTarget::kFile: return "log=" + o.log_file;
  }
  return {};
}

Outcome<> set_log_level(MountOptions& o, const OptionValue& v) {
  const auto level = parse_log_level(v.text);
  if (!level) return bad_usage(fmt::format("\"{}\" is not a level", v.text));
  o.log_level = *level;
  return {};
}

std::string show_log_level(const MountOptions& o) {
  return fmt::format("log_level={}", to_string(o.log_level));
}

Outcome<> set_log_format(MountOptions& o, const OptionValue& v) {
  o.log_format = v.text == "json" ? LogFormat::kJson : LogFormat::kText;
  return {};
}

std::string show_log_format(const MountOptions& o) {
  return o.log_format == LogFormat::kJson ? "log_format=json" : "log_format=text";
}

Outcome<> set_notify(MountOptions& o, const OptionValue& v) {
  o.notices = v.text == "auto";
  return {};
}

std::string show_notify(const MountOptions& o) {
  return o.notices ? std::string() : "notify=none";
}

std::string show_config_file(const MountOptions& o) {
  return o.config_file.empty() ? std::string() : "conf=" + o.config_file;
}

std::string_view to_string(LogLevel level) {
  switch (level) {
    case LogLevel::kError: return "error";
    case LogLevel::kWarning: return "warning";
    case LogLevel::kInfo: return "info";
    case LogLevel::kDebug: return "debug";
    case LogLevel::kTrace: return "trace";
  }
  return "";
}

std::optional<LogLevel> parse_log_level(std::string_view name) {
  for (const LogLevel level :
       {LogLevel::kError, LogLevel::kWarning, LogLevel::kInfo, LogLevel::kDebug, LogLevel::kTrace}) {
    if (name == to_string(level)) return level;
  }
  return std::nullopt;
}

}  // namespace nfsrdma::cli
