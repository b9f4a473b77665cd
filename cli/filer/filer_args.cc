// SPDX-License-Identifier: Apache-2.0
#include "cli/filer/filer_args.h"

#include <fmt/core.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cli/options/command_words.h"
#include "cli/support/version.h"

namespace nfsrdma::cli {
namespace {

constexpr uint16_t kNfsPort = 2049;
constexpr uint16_t kRdmaPort = 20049;

constexpr const char* kFooter = R"(
EXPORT is DIR, a directory of this host, found at its own path; or memory[:SIZE], found at /memory (SIZE of
its data, with K, M, G or T; else half of this host's memory); or /PATH=DIR, /PATH=memory[:SIZE], found at /PATH.
",sec=LIST" behind it gives this export a list of its own in place of that of --sec, as in "/srv/data,sec=krb5p:krb5i".

Run as root, the server acts as its callers by their AUTH_SYS user and groups; user 0 becomes 65534, and nobody is in
group 0, unless --no-root-squash is given. It takes callers from ports below 1024 only, which only root has on most machines.
Run by anybody else, every caller is that user: callers on this machine must be processes of his, those on other machines are
all taken, and files get no set-user-ID and set-group-ID bits. Others are answered AUTH_TOOWEAK.
--insecure takes callers from any port and of any user. Nothing protects against root of a client machine, or whoever can
send packets in its name: this is a server for networks one trusts, as any NFS server with AUTH_SYS.

With krb5 (who calls is proven), krb5i (nothing is changed on the way) or krb5p (nothing is read on the way) callers prove who
they are, and may come from any port and machine. The keytab has a key of nfs/HOST. A principal is the local user that
auth_to_local of krb5.conf says, else nobody. Run by an ordinary user, the server acts as that user for his principal only;
others read what everybody may read.

A fault RULE: EVENT [OPERATION] [nth N] [times N|always|every N]: ACTION, for example
  "request WRITE nth 3: cut"   "reply RENAME always: delay 50"   "request OPEN times 2: answer OPEN DELAY"
EVENT: request, reply, accept, header (of a call over RDMA). ACTION: cut, reset, drop, delay MS, answer OPERATION
STATUS, truncate BYTES, flip OFFSET, garbage BYTES, duplicate [N], behind [N], restart, forget, expire, recall,
revoke, change true|frozen|restless|backwards, slots N, credits N, error NAME [N [N]] (to a header: CHUNK,
REPLY_RESOURCE 9000...). A plan file has a rule a line, '#' comments.

When it serves it says so on standard output in one line: "listening tcp ADDR:PORT [rdma ADDR:PORT]".
Signals: TERM and INT end it. Exit status: 0 ended by a signal, 1 failed, 2 usage.)";

tl::unexpected<Failure> usage(std::string text) {
  return refuse(ToolExit::kUsage, std::move(text));
}

constexpr const char* kFlavorWords = "sys, krb5, krb5i and krb5p, each once, with ':' between them";

struct Endpoint {
  std::string address;
  uint16_t port = 0;
};

std::optional<uint16_t> port_number(std::string_view text) {
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return port;
}

// Parses ADDR, ADDR:PORT, [ADDR6], [ADDR6]:PORT or :PORT.
Outcome<Endpoint> parse_endpoint(const std::string& text, uint16_t usual_port) {
  Endpoint endpoint{"127.0.0.1", usual_port};
  std::string_view rest = text;
  if (rest.starts_with('[')) {
    const size_t end = rest.find(']');
    if (end == rest.npos) return usage(fmt::format("\"{}\": there is no ']'", text));
    endpoint.address = rest.substr(1, end - 1);
    rest.remove_prefix(end + 1);
  } else {
    const std::string_view address = rest.substr(0, rest.find(':'));
    if (!address.empty()) endpoint.address = address;
    rest.remove_prefix(address.size());
  }
  if (rest.empty()) return endpoint;
  const auto port = rest.front() == ':' ? port_number(rest.substr(1)) : std::nullopt;
  if (!port) return usage(fmt::format("\"{}\" is not ADDR:PORT; IPv6 addresses stand in [ ]", text));
  endpoint.port = *port;
  return endpoint;
}

std::optional<uint64_t> size_of(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || value == 0) return std::nullopt;
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  const unsigned shift = unit.empty()  ? 0
                         : unit == "K" ? 10
                         : unit == "M" ? 20
                         : unit == "G" ? 30
                         : unit == "T" ? 40
                                       : 64;
  if (shift == 64 || value > UINT64_MAX >> shift) return std::nullopt;
  return value << shift;
}

struct Exporting {
  bool read_only = false;
  bool root_squash = true;
  bool sync = true;
};

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// Takes ",sec=LIST" off the end of an EXPORT. A directory that has such a name is meant as it is.
Outcome<std::optional<filer::tree::Flavors>> take_flavors(std::string& text) {
  constexpr std::string_view kMark = ",sec=";
  const size_t mark = text.rfind(kMark);
  if (mark == std::string::npos || exists(text)) return std::nullopt;
  const auto flavors = filer::tree::Flavors::parse(std::string_view(text).substr(mark + kMark.size()));
  if (!flavors) return usage(fmt::format("\"{}\": sec= is a list of {}", text, kFlavorWords));
  text.resize(mark);
  return flavors;
}

Outcome<> add_export(std::string text, const Exporting& how, FilerCommand& command) {
  const auto flavors = take_flavors(text);
  if (!flavors) return tl::unexpected(flavors.error());
  std::string path;
  std::string what = text;
  const size_t equals = text.find('=');
  if (text.starts_with('/') && equals != std::string::npos && !exists(text)) {
    path = text.substr(0, equals);
    what = text.substr(equals + 1);
  }
  if (what == "memory" || what.starts_with("memory:")) {
    if (path.empty()) path = "/memory";
    if (what != "memory") {
      const auto bytes = size_of(std::string_view(what).substr(7));
      if (!bytes) return usage(fmt::format("\"{}\": SIZE is a number, with K, M, G or T", text));
      command.memory_bytes[path] = *bytes;
    }
    command.options.exports.push_back(path);
    if (*flavors) command.options.export_flavors[path] = **flavors;
    return {};
  }
  std::error_code error;
  const std::string directory = std::filesystem::canonical(what, error).string();
  if (error) return refuse(ToolExit::kFailed, fmt::format("{}: {}", what, error.message()));
  if (path.empty()) path = directory;
  if (path == "/") return usage("\"/\" cannot be a directory's path: give /PATH=DIR");
  if (*flavors) command.options.export_flavors[path] = **flavors;
  command.options.directories.push_back(
      {.path = path,
       .directory = directory,
       .read_only = how.read_only,
       .squash = how.root_squash ? filer::tree::Squash::kRoot : filer::tree::Squash::kNone,
       .sync = how.sync});
  return {};
}

Outcome<> set_versions(const std::string& list, rdma::ResponderOptions& options) {
  options.version1 = list == "1" || list == "1,2" || list == "2,1";
  options.version2 = list == "2" || list == "1,2" || list == "2,1";
  if (!options.version1 && !options.version2) return usage("--rdma-versions is 1, 2 or 1,2");
  return {};
}

Outcome<> set_fabrics(const std::string& list, filer::nfs::RdmaListenOptions& options) {
  const bool both = list == "software,verbs" || list == "verbs,software";
  options.software = both || list == "software";
  options.devices = both || list == "verbs";
  if (!options.software && !options.devices)
    return usage("--rdma-fabrics is software, verbs or software,verbs");
  return {};
}

// The system's usual directory for state. Creates the parents of a user's directory; the server creates the
// directory itself.
std::string usual_state_directory() {
  namespace fs = std::filesystem;
  if (geteuid() == 0) return "/var/lib/nfsrdma-filer";
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  if (state == nullptr && home == nullptr) return {};
  const fs::path base = state != nullptr ? fs::path(state) : fs::path(home) / ".local/state";
  std::error_code ignored;
  fs::create_directories(base, ignored);
  return (base / "nfsrdma-filer").string();
}

Outcome<> add_fault_plan(const std::string& file, std::vector<filer::FaultRule>& faults) {
  std::ifstream in(file);
  if (!in) return refuse(ToolExit::kFailed, fmt::format("{}: {}", file, std::strerror(errno)));
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  auto rules = filer::parse_fault_rules(text);
  if (!rules) return usage(fmt::format("{}: {}", file, rules.error().cause));
  faults.insert(faults.end(), std::make_move_iterator(rules->begin()), std::make_move_iterator(rules->end()));
  return {};
}

// The command line and the values given.
struct Given {
  CLI::App app{"An NFSv4.1 server in user space, over TCP and RDMA.", "nfsrdma-filer"};
  std::vector<std::string> exports;
  std::string listen = "127.0.0.1:2049";
  std::string rdma;
  std::string rdma_fabrics = "software,verbs";
  std::string rdma_versions = "1,2";
  std::string delegations = "none";
  std::string security = "sys";
  std::string keytab;
  std::string tls = "offered";
  std::string tls_certificate;
  std::string tls_key;
  std::string tls_trust;
  std::string state_directory;
  std::string fault_plan;
  std::vector<std::string> faults;
  std::string log_level = "info";
  unsigned lease = 90;
  unsigned grace = 90;
  unsigned slots = 64;
  unsigned credits = 64;
  size_t inline_bytes = 4096;
  bool ccp = false;
  bool read_only = false;
  bool no_root_squash = false;
  bool insecure = false;
  bool async = false;
  bool version = false;

  Given() {
    use_plain_words(app);
    app.footer(kFooter);
    app.add_option("-e,--export", exports, "what to export; may be repeated")
        ->type_name("EXPORT")
        ->allow_extra_args(false);
    app.add_option("-l,--listen", listen, "TCP address and port; port 0: one that is free")
        ->type_name("ADDR:PORT")
        ->capture_default_str();
    app.add_option("--rdma", rdma, "also RPC over RDMA, there; port 20049 if none is given")
        ->type_name("ADDR[:PORT]");
    app.add_option(
           "--rdma-fabrics", rdma_fabrics,
           "what carries RDMA: software, verbs (the devices that have the address), or software,verbs")
        ->type_name("LIST")
        ->capture_default_str();
    app.add_option("--rdma-versions", rdma_versions, "RPC-over-RDMA versions spoken: 1, 2 or 1,2")
        ->type_name("LIST")
        ->capture_default_str();
    app.add_option("--lease", lease, "lease time in seconds")->check(within(1, 3600))->capture_default_str();
    app.add_option("--grace", grace, "for how long clients may reclaim after a restart, in seconds")
        ->check(within(0, 3600))
        ->capture_default_str();
    app.add_option("--state-dir", state_directory,
                   "keeps who may reclaim, and the key of filehandles; default with a DIR exported: "
                   "/var/lib/nfsrdma-filer as root, else ~/.local/state/nfsrdma-filer")
        ->type_name("DIR");
    app.add_flag("--read-only", read_only, "exports cannot be changed");
    app.add_flag("--no-root-squash", no_root_squash, "user 0 of a client is user 0 here");
    app.add_flag("--insecure", insecure,
                 "take callers from ports of 1024 and more (run as root), and of other users of this machine "
                 "(run by anybody else)");
    app.add_option(
           "--sec", security,
           "the security that exports accept, best first: krb5p, krb5i, krb5, sys; clients choose by it")
        ->type_name("LIST")
        ->capture_default_str();
    app.add_option("--keytab", keytab,
                   "the keys of nfs/HOST for krb5, krb5i and krb5p; default: the system's, /etc/krb5.keytab")
        ->type_name("FILE");
    app.add_option("--tls-cert", tls_certificate,
                   "PEM file with this server's certificate: clients may then use TLS over TCP")
        ->type_name("FILE");
    app.add_option("--tls-key", tls_key, "PEM file with its key; default: the file of the certificate")
        ->type_name("FILE");
    app.add_option("--tls-ca", tls_trust,
                   "PEM file with the authorities whose certificates clients may have; default: the system's")
        ->type_name("FILE");
    app.add_option("--tls", tls,
                   "offered: clients choose; required: they must use it; mutual: and have a certificate")
        ->check(one_of({"offered", "required", "mutual"}))
        ->capture_default_str();
    app.add_flag("--async", async, "answer changes of names before they are on the disk");
    app.add_option("--delegations", delegations,
                   "none, read or write; this host's own programs do not recall them")
        ->check(one_of({"none", "read", "write"}))
        ->capture_default_str();
    app.add_option("--slots", slots, "session slots a client gets at most")
        ->check(within(1, 1024))
        ->capture_default_str();
    app.add_option("--credits", credits, "RPC-over-RDMA credits granted")
        ->check(within(1, 1024))
        ->capture_default_str();
    app.add_option("--inline", inline_bytes,
                   "RPC-over-RDMA messages up to so many bytes go without RDMA Read or Write")
        ->check(within(1024, 65536))
        ->capture_default_str();
    app.add_flag("--ccp", ccp, "answer RFC 5666's Connection Configuration Protocol");
    app.add_option("--fault", faults, "a fault rule; may be repeated")
        ->type_name("RULE")
        ->allow_extra_args(false);
    app.add_option("--fault-plan", fault_plan, "fault rules from a file")->type_name("FILE");
    app.add_option("--log-level", log_level, "error, warning, info, debug or trace")
        ->check(one_of({"error", "warning", "info", "debug", "trace"}))
        ->capture_default_str();
    app.add_flag("-V,--version", version, "show the version");
  }
};

Outcome<> set_addresses(const Given& given, filer::nfs::Options& options) {
  auto tcp = parse_endpoint(given.listen, kNfsPort);
  if (!tcp) return tl::unexpected(std::move(tcp).error());
  options.address = tcp->address;
  options.port = tcp->port;
  if (auto set = set_versions(given.rdma_versions, options.rdma.responder); !set) return set;
  if (auto set = set_fabrics(given.rdma_fabrics, options.rdma); !set) return set;
  if (given.rdma.empty()) return {};
  auto rdma = parse_endpoint(given.rdma, kRdmaPort);
  if (!rdma) return tl::unexpected(std::move(rdma).error());
  options.rdma.listen = true;
  options.rdma.address = rdma->address;
  options.rdma.port = rdma->port;
  return {};
}

Outcome<> set_security(const Given& given, filer::nfs::Options& options) {
  const auto flavors = filer::tree::Flavors::parse(given.security);
  if (!flavors) return usage(fmt::format("--sec \"{}\": it is a list of {}", given.security, kFlavorWords));
  options.flavors = *flavors;
  options.keytab = given.keytab;
  // --sec counts for the exports without a list of their own.
  const auto accepts = [&options](const std::string& path) {
    const auto own = options.export_flavors.find(path);
    return (own == options.export_flavors.end() ? options.flavors : own->second).has_kerberos();
  };
  for (const std::string& path : options.exports) options.kerberos |= accepts(path);
  for (const auto& exported : options.directories) options.kerberos |= accepts(exported.path);
  if (!given.keytab.empty() && !options.kerberos)
    return usage("--keytab is given, and no export has krb5: --sec krb5p:krb5i:krb5:sys");
  return {};
}

Outcome<> set_tls(const Given& given, filer::nfs::Options& options) {
  using Policy = filer::links::TlsPolicy;
  if (given.tls_certificate.empty()) {
    if (given.tls == "offered" && given.tls_key.empty() && given.tls_trust.empty()) return {};
    return usage("TLS needs a certificate: --tls-cert FILE");
  }
  options.tls =
      tls::Settings{.trust = given.tls_trust, .certificate = given.tls_certificate, .key = given.tls_key};
  if (given.tls == "required") options.tls_policy = Policy::kRequired;
  if (given.tls == "mutual") options.tls_policy = Policy::kMutual;
  if (options.tls_policy != Policy::kOffered && options.rdma.listen)
    return usage("--rdma has no TLS: --tls required and mutual are for TCP alone");
  return {};
}

Outcome<FilerCommand> command_of(const Given& given) {
  FilerCommand command;
  command.options.exports.clear();
  command.options.journal = false;
  command.options.lease = std::chrono::seconds(given.lease);
  command.options.grace = std::chrono::seconds(given.grace);
  command.options.limits.max_slots = given.slots;
  rdma::ResponderOptions& responder = command.options.rdma.responder;
  responder.credits = given.credits;
  responder.inline_bytes = given.inline_bytes / 1024 * 1024;
  responder.receive_bytes = std::max(responder.receive_bytes, responder.inline_bytes);
  responder.configuration_protocol = given.ccp;
  command.read_only = given.read_only;
  command.insecure = given.insecure;
  command.log_level = parse_log_level(given.log_level).value_or(LogLevel::kInfo);
  // Courtesy as in Linux' server: a client that slept longer than its lease keeps state that no other client
  // has claimed since.
  command.switches.expiry = filer::nfs::Expiry::kCourtesy;
  command.switches.delegations = given.delegations == "none"   ? filer::nfs::Delegations::kNever
                                 : given.delegations == "read" ? filer::nfs::Delegations::kRead
                                                               : filer::nfs::Delegations::kReadOrWrite;
  if (auto set = set_addresses(given, command.options); !set) return tl::unexpected(std::move(set).error());
  if (given.exports.empty()) return usage("nothing is exported: --export DIR or --export memory");
  const Exporting how{given.read_only, !given.no_root_squash, !given.async};
  for (const std::string& text : given.exports) {
    if (auto added = add_export(text, how, command); !added) return tl::unexpected(std::move(added).error());
  }
  if (auto set = set_security(given, command.options); !set) return tl::unexpected(std::move(set).error());
  if (auto set = set_tls(given, command.options); !set) return tl::unexpected(std::move(set).error());
  command.options.state_directory = given.state_directory;
  if (given.state_directory.empty() && !command.options.directories.empty())
    command.options.state_directory = usual_state_directory();
  for (const std::string& text : given.faults) {
    auto rule = filer::parse_fault_rule(text);
    if (!rule) return usage(fmt::format("--fault \"{}\": {}", text, rule.error().cause));
    command.faults.push_back(*std::move(rule));
  }
  if (!given.fault_plan.empty()) {
    if (auto read = add_fault_plan(given.fault_plan, command.faults); !read)
      return tl::unexpected(std::move(read).error());
  }
  return command;
}

}  // namespace

CommandOutline filer_outline() {
  const Given given;
  return outline_of(given.app);
}

Outcome<FilerInvocation> parse_filer_arguments(std::vector<std::string> arguments) {
  Given given;
  CLI::App& app = given.app;
  try {
    std::reverse(arguments.begin(), arguments.end());  // CLI11 parses from the back
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    return FilerInvocation(FilerText{app.help()});
  } catch (const CLI::ParseError& error) {
    return usage(usage_text(app, error, "nfsrdma-filer"));
  }
  if (given.version) return FilerInvocation(FilerText{fmt::format("nfsrdma-filer {}\n", kVersion)});
  Outcome<FilerCommand> command = command_of(given);
  if (!command) return tl::unexpected(std::move(command).error());
  return FilerInvocation(*std::move(command));
}

}  // namespace nfsrdma::cli
