// SPDX-License-Identifier: Apache-2.0
#include "cli/options/options.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "cli/options/option_table.h"

namespace nfsrdma::cli {
namespace {

std::string joined_words(std::string_view words) {
  std::string out;
  for (const std::string_view word : split_words(words)) out += (out.empty() ? "" : ", ") + std::string(word);
  return out;
}

Outcome<uint64_t> parse_number(const OptionSpec& spec, std::string_view text) {
  uint64_t value = 0;
  auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const char* end = text.data() + text.size();
  uint64_t scale = 1;
  if (spec.kind == OptionKind::kSize && stop == end - 1 && stop != text.data()) {
    const char suffix = *stop;
    if (suffix == 'k' || suffix == 'K') scale = 1ull << 10;
    if (suffix == 'm' || suffix == 'M') scale = 1ull << 20;
    if (suffix == 'g' || suffix == 'G') scale = 1ull << 30;
    if (scale != 1) ++stop;
  }
  const bool overflow = error == std::errc::result_out_of_range || value > spec.max / scale;
  if (error == std::errc::invalid_argument || (stop != end && !overflow)) {
    return refuse(MountExit::kUsage, fmt::format("\"{}\" is not a number", text));
  }
  if (overflow || value * scale < spec.min) {
    return refuse(MountExit::kUsage, fmt::format("{} is not from {} to {}", text, spec.min, spec.max));
  }
  return value * scale;
}

Outcome<> set_value(const OptionSpec& spec, MountOptions& options, const std::optional<std::string>& value) {
  if (!value)
    return bad_usage(
        fmt::format("needs a value: {}={}", spec.name, spec.unit.empty() ? spec.words : spec.unit));
  switch (spec.kind) {
    case OptionKind::kNumber:
    case OptionKind::kSize: {
      const auto number = parse_number(spec, *value);
      if (!number) return tl::unexpected(number.error());
      return spec.set(options, {.number = *number});
    }
    case OptionKind::kWord: {
      const auto words = split_words(spec.words);
      if (std::find(words.begin(), words.end(), *value) == words.end()) {
        return bad_usage(fmt::format("\"{}\" is none of {}", *value, joined_words(spec.words)));
      }
      return spec.set(options, {.text = *value});
    }
    case OptionKind::kText:
      if (value->empty()) return bad_usage(fmt::format("needs a value: {}={}", spec.name, spec.unit));
      return spec.set(options, {.text = *value});
    default: return {};
  }
}

Outcome<> apply(OptionMatch match, const OptionLayer& layer, ParsedOptions& parsed) {
  const OptionSpec& spec = *match.spec;
  const RawOption& option = layer.option;
  Outcome<> done;
  switch (spec.kind) {
    case OptionKind::kIgnored: return {};
    case OptionKind::kRefused: return bad_usage(std::string(spec.help));
    case OptionKind::kSwitch:
      if (option.value) return bad_usage("takes no value");
      done = spec.set(parsed.values, {.on = !match.negated});
      break;
    default: done = set_value(spec, parsed.values, option.value);
  }
  if (!done) return done;
  parsed.origins[std::string(spec.name)] = layer.origin;
  return {};
}

std::string unknown_text(const std::string& name) {
  const std::string nearest = nearest_option(name);
  if (!nearest.empty()) return fmt::format("unknown option \"{}\"; did you mean \"{}\"?", name, nearest);
  return fmt::format("unknown option \"{}\"; 'nfsrdma-fuse mount --help' lists them", name);
}

std::string prefixed(const OptionLayer& layer, const std::string& text) {
  return layer.where.empty() ? text : fmt::format("{}: {}", layer.where, text);
}

bool given(const std::vector<OptionLayer>& layers, std::string_view name) {
  return std::any_of(layers.begin(), layers.end(),
                     [name](const OptionLayer& layer) { return option_name(layer.option.name) == name; });
}

Outcome<> check_address_family(const MountOptions& o, const Source& source) {
  const char* const name = o.transport == Transport::kRdma ? "rdma" : "tcp";
  if (o.family == AddressFamily::kIpv4 && source.host_kind == HostKind::kIpv6) {
    return bad_usage(
        fmt::format("proto={0} means IPv4 and {1} is an IPv6 address, use proto={0}6", name, source.host));
  }
  if (o.family == AddressFamily::kIpv6 && source.host_kind == HostKind::kIpv4) {
    return bad_usage(
        fmt::format("proto={0}6 means IPv6 and {1} is an IPv4 address, use proto={0}", name, source.host));
  }
  return {};
}

// True if the user typed the option for this mount. A configuration file applies to many mounts.
bool typed(const ParsedOptions& parsed, std::string_view name) {
  const auto origin = parsed.origins.find(std::string(name));
  return origin != parsed.origins.end() && origin->second == OptionOrigin::kCommandLine;
}

template <auto Member>
bool differs(const MountOptions& o) {
  return o.*Member != MountOptions{}.*Member;
}
template <auto... Member>
void reset(MountOptions& o) {
  const MountOptions unset;
  ((o.*Member = unset.*Member), ...);
}

struct RdmaOption {
  const char* name;
  bool (*given)(const MountOptions&);
  void (*drop)(MountOptions&);
};
using O = MountOptions;
constexpr RdmaOption kRdmaOptions[] = {
    {"rdmavers", differs<&O::rdma_version>, reset<&O::rdma_version>},
    {"inline", differs<&O::rdma_inline>, reset<&O::rdma_inline>},
    {"credits", differs<&O::rdma_credits>, reset<&O::rdma_credits>},
    {"ddp", differs<&O::rdma_ddp_threshold>, reset<&O::rdma_ddp_threshold>},
    {"ccp", differs<&O::rdma_configuration>, reset<&O::rdma_configuration>},
    {"rdma_dev", differs<&O::rdma_device>, reset<&O::rdma_device, &O::rdma_port>},
    {"poll_us", differs<&O::poll>, reset<&O::poll>}};

Outcome<> check_version3_transport(ParsedOptions& parsed) {
  MountOptions& o = parsed.values;
  if (o.transport != Transport::kRdma || o.major_version != 3) return {};
  if (typed(parsed, "proto") || typed(parsed, "rdma"))
    return bad_usage("NFSv3 goes over TCP here, use vers=4.1 or proto=tcp");
  reset<&O::transport, &O::family>(o);
  return {};
}

// RPC-with-TLS is for TCP (RFC 9289 section 5.1.3), and libnfs has none.
Outcome<> check_tls(ParsedOptions& parsed) {
  const MountOptions& o = parsed.values;
  const bool mutual = o.xprtsec == TransportSecurity::kMtls || o.xprtsec == TransportSecurity::kAuto;
  for (const std::string_view name : {"tls_cert", "tls_key"}) {
    if (typed(parsed, name) && !mutual) return bad_usage(fmt::format("{} belongs to xprtsec=mtls", name));
  }
  if (typed(parsed, "tls_ca") && o.xprtsec == TransportSecurity::kNone)
    return bad_usage("tls_ca belongs to xprtsec=tls or mtls");
  for (const std::string* path : {&o.tls_ca, &o.tls_cert, &o.tls_key}) {
    if (!path->empty() && path->front() != '/')
      return bad_usage(fmt::format("{}: the path of a file for TLS begins with /", *path));
  }
  if (o.xprtsec == TransportSecurity::kMtls && o.tls_cert.empty())
    return bad_usage("xprtsec=mtls needs the certificate of this machine, tls_cert=FILE");
  if (!o.must_use_tls()) return {};
  if (o.major_version == 3) return bad_usage("NFSv3 has no TLS here, xprtsec needs vers=4.1");
  if (o.transport == Transport::kRdma) return bad_usage("RDMA has no TLS, use proto=tcp with xprtsec");
  return {};
}

Outcome<> check_rdma(ParsedOptions& parsed) {
  MountOptions& o = parsed.values;
  for (const RdmaOption& option : kRdmaOptions) {
    if (o.may_use_rdma() || !option.given(o)) continue;
    if (typed(parsed, option.name))
      return bad_usage(fmt::format("{} belongs to RDMA, use proto=rdma", option.name));
    option.drop(o);
  }
  if (!o.gid_index || o.names_rdma_device()) return {};
  if (typed(parsed, "gid_index")) return bad_usage("gid_index belongs to a device, use rdma_dev=DEVICE");
  o.gid_index.reset();
  return {};
}

}  // namespace

Outcome<ParsedOptions> parse_options(const std::vector<OptionLayer>& layers, bool sloppy) {
  ParsedOptions parsed;
  sloppy = sloppy || given(layers, "sloppy");
  const bool remount = given(layers, "remount");
  for (const OptionLayer& layer : layers) {
    const OptionMatch match = find_option(layer.option.name);
    if (match.spec == nullptr) {
      const std::string text = unknown_text(layer.option.name);
      if (!sloppy) return refuse(MountExit::kUsage, prefixed(layer, text));
      parsed.skipped.push_back(prefixed(layer, text));
      continue;
    }
    if (remount && match.spec->shown_by_kernel) continue;
    // sloppy skips nfs(5)'s options of other versions and features (kForeign). Any other option that is wrong
    // or refused still fails: without it the mount would not guarantee what the option asks for.
    const bool foreign = match.spec->section == OptionSection::kForeign;
    if (auto done = apply(match, layer, parsed); !done) {
      const bool sentence = match.spec->kind == OptionKind::kRefused;
      const std::string text =
          fmt::format("option {}{} {}", layer.option.name, sentence ? "" : ":", done.error().text);
      if (!(sloppy && foreign)) return refuse(MountExit::kUsage, prefixed(layer, text));
      parsed.skipped.push_back(prefixed(layer, text));
    }
  }
  parsed.values.sloppy = sloppy;
  if (parsed.values.major_version == 3) return parsed;
  for (const std::string_view name : version3_options()) {
    if (!typed(parsed, name)) continue;
    const std::string text = fmt::format("option {}: belongs to NFSv3, use vers=3", name);
    if (!sloppy) return refuse(MountExit::kUsage, text);
    parsed.skipped.push_back(text);
  }
  return parsed;
}

Outcome<> check_options(ParsedOptions& parsed, const Source& source) {
  MountOptions& o = parsed.values;
  if (o.major_version == 4) o.minor_version = o.minor_version.value_or(1);
  if (o.major_version == 3 && o.minor_version)
    return bad_usage("minorversion belongs to NFSv4, this is vers=3");
  if (o.major_version == 3 && !o.may_use_sys())
    return bad_usage(
        fmt::format("NFSv3 has sec=sys only here, sec={} needs vers=4.1", client::joined(o.security)));
  if (o.major_version == 3) {
    if (typed(parsed, "local_lock") && !(o.local_flock && o.local_posix_locks))
      return bad_usage("locks of an NFSv3 mount stay on this machine, use local_lock=all or nolock");
    o.local_flock = o.local_posix_locks = true;
  }
  if (auto done = check_version3_transport(parsed); !done) return done;
  if (auto done = check_address_family(o, source); !done) return done;
  if (source.port) {
    if (typed(parsed, "port") && o.port != source.port) {
      return bad_usage(fmt::format("port={} contradicts the port in {}", *o.port, source.text));
    }
    o.port = source.port;
  }
  if (auto done = check_tls(parsed); !done) return done;
  if (auto done = check_rdma(parsed); !done) return done;
  // If only one of the pair is given, the other is adjusted. If both are given in the wrong order, it is an
  // error.
  const auto order = [&](auto& low, auto& high, const char* low_name, const char* high_name) -> Outcome<> {
    if (low <= high) return {};
    if (parsed.given(low_name) && parsed.given(high_name)) {
      return bad_usage(
          fmt::format("{}={} is more than {}={}", low_name, low.count(), high_name, high.count()));
    }
    (parsed.given(high_name) ? low : high) = parsed.given(high_name) ? high : low;
    return {};
  };
  if (auto done = order(o.acregmin, o.acregmax, "acregmin", "acregmax"); !done) return done;
  if (auto done = order(o.acdirmin, o.acdirmax, "acdirmin", "acdirmax"); !done) return done;
  if (o.allow_root && o.allow_other.value_or(false))
    return bad_usage("allow_root and allow_other exclude each other");
  return {};
}

Outcome<> check_privilege(const MountOptions& options, bool root, std::string_view fuse_conf) {
  if (root) return {};
  for (const auto& [asked, name] : {std::pair(options.dev, "dev"), std::pair(options.suid, "suid"),
                                    std::pair(options.remount, "remount")}) {
    if (asked) return bad_usage(fmt::format("option {}: only root may use it", name));
  }
  const bool shared = options.allow_other.value_or(false) || options.allow_root;
  if (!shared) return {};
  while (!fuse_conf.empty()) {
    const size_t end = std::min(fuse_conf.find('\n'), fuse_conf.size());
    std::string_view line = fuse_conf.substr(0, end);
    fuse_conf.remove_prefix(std::min(end + 1, fuse_conf.size()));
    while (!line.empty() && (line.back() == ' ' || line.back() == '\t')) line.remove_suffix(1);
    while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) line.remove_prefix(1);
    if (line == "user_allow_other") return {};
  }
  return bad_usage(fmt::format("option {}: root must first write \"user_allow_other\" into /etc/fuse.conf",
                               options.allow_root ? "allow_root" : "allow_other"));
}

}  // namespace nfsrdma::cli
