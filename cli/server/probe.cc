// SPDX-License-Identifier: Apache-2.0
#include "cli/server/probe.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

#include "cli/options/log_setup.h"
#include "cli/options/options.h"
#include "cli/server/explain.h"
#include "cli/server/probe_rdma.h"
#include "cli/server/probe_tls.h"
#include "cli/server/server_session.h"
#include "cli/server/server_steps.h"
#include "cli/server/translate.h"
#include "transport/fabric/verbs/verbs.h"
#include "transport/net/endpoint.h"

namespace nfsrdma::cli {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// Limits for a user who waits. Connecting and the NULL procedure take one round trip each. A session may take
// longer if the server is in its grace period.
constexpr std::chrono::seconds kRoundTrip{10};
constexpr std::chrono::seconds kSession{30};
constexpr size_t kMostEntries = 200;

class Stopwatch {
 public:
  std::string text() const {
    return fmt::format("{:.1f} ms", std::chrono::duration<double, std::milli>(Clock::now() - start_).count());
  }

 private:
  Clock::time_point start_ = Clock::now();
};

void step(std::string_view name, const std::string& text, const Stopwatch& watch) {
  fmt::print("{:<9} {}  ({})\n", name, printable(text), watch.text());
  std::fflush(stdout);
}

// Advice for the user after the step that failed.
std::string resolve_advice(const client::ClientOptions& o) {
  return fmt::format("run 'getent ahosts {}'", o.host);
}
std::string connect_advice(const client::ClientOptions& o) {
  return fmt::format(
      "see that {} runs and listens on port {} ('ss -ltn' there), or give another with -o port=", o.host,
      o.port);
}
std::string rdma_advice(const client::ClientOptions& o) {
  return fmt::format("see that {} offers NFS over RDMA on port {}, or try TCP with -o proto=tcp", o.host,
                     o.port);
}
std::string null_advice(const client::ClientOptions& o) {
  if (o.port == kNfsRdmaPort)
    return fmt::format("port {} is usually NFS over RDMA's; try it with -o proto=rdma", o.port);
  return fmt::format("see that port {} is that of the NFS server, or give another with -o port=", o.port);
}
std::string session_advice(const client::ClientOptions& o, const Error& error) {
  // The root of a server's name space lists the server's exports.
  if (o.export_path != "/" && error.layer == Layer::kNfs) return exports_advice(o);
  return fmt::format("see what the log of {} says", o.host);
}

Outcome<std::vector<net::Endpoint>> resolve(const client::ClientOptions& options) {
  const Stopwatch watch;
  auto endpoints = resolve_server(options);
  if (!endpoints) {
    return step_failed(
        fmt::format("resolve: {}: {}; {}", options.host, endpoints.error().text, resolve_advice(options)));
  }
  std::string text = options.host + ":";
  for (const net::Endpoint& endpoint : *endpoints) text += " " + to_string(endpoint);
  step("resolve", text, watch);
  return endpoints;
}

// Returns the connection to the first address that answers. Tries all addresses, to show those that fail.
Outcome<Fd> connect_any(const client::ClientOptions& options, const std::vector<net::Endpoint>& endpoints) {
  Fd connected;
  std::string last;
  for (const net::Endpoint& endpoint : endpoints) {
    const Stopwatch watch;
    Connecting one = connect_to(endpoint, kRoundTrip);
    const std::string text =
        fmt::format("{}: {}", to_string(endpoint), one.error == 0 ? "connected" : std::strerror(one.error));
    step("connect", text, watch);
    if (one.error != 0) last = text;
    if (one.error == 0 && !connected) connected = std::move(one.fd);
  }
  if (!connected) return step_failed(fmt::format("connect: {}; {}", last, connect_advice(options)));
  return connected;
}

// True if an old server speaks only version 3. A mount without vers= works with it.
Outcome<bool> only_version3(const Fd& fd) {
  const Stopwatch watch;
  const auto old = call_null(fd, 3, kRoundTrip);
  if (!old || !*old) return false;
  step("NULL", "NFS version 3 answers, and version 4 does not", watch);
  return true;
}

// Returns false if the server speaks only version 3.
Outcome<bool> find_version(const Fd& fd) {
  const Stopwatch watch;
  const auto answer = call_null(fd, 4, kRoundTrip);
  if (!answer) return tl::unexpected(answer.error());
  if (*answer) {
    step("NULL", "NFS version 4 answers", watch);
    return true;
  }
  const Error& why = answer->error();
  if (why.errnum == EPROTONOSUPPORT) {
    if (const auto old = only_version3(fd); old && *old) return false;
  }
  return step_failed(describe(why));
}

char type_letter(uint32_t mode) {
  if (S_ISDIR(mode)) return 'd';
  if (S_ISLNK(mode)) return 'l';
  return S_ISREG(mode) ? '-' : '?';
}

void print_listing(const ServerSession::Listing& listing) {
  for (const client::DirectoryEntry& entry : listing.entries) {
    fmt::print("          {} {}\n", type_letter(entry.type), printable(entry.name));
  }
  if (listing.more) fmt::print("          ... more than {}\n", kMostEntries);
}

class Probe {
 public:
  Probe(std::string program, std::string name, const client::ClientOptions& options)
      : program_(std::move(program)), name_(std::move(name)), options_(options), session_(options) {}

  Outcome<> run() {
    const Stopwatch watch;
    const auto root = session_.mount(kSession);
    if (!root) give_up(operation_under_way(session_.statistics()));
    if (!*root)
      return step_failed(
          fmt::format("{}; {}", describe(root->error()), session_advice(options_, root->error())));
    print_session(watch);
    return list((*root)->node);
  }

 private:
  // Exits without the destructor, which would wait for the server's outstanding replies.
  [[noreturn]] void give_up(std::string_view operation) const {
    std::_Exit(report(program_, Failure(ToolExit::kFailed,
                                        fmt::format("{}: {}: no answer within {} s; {}", name_, operation,
                                                    kSession.count(), session_advice(options_, {})))));
  }

  void print_session(const Stopwatch& watch) const {
    const client::Statistics statistics = session_.statistics();
    const client::SessionStatistics& s = statistics.session;
    step(
        "session",
        fmt::format("{} slots, {} operations and {} bytes in a request, lease {} s, back channel {}", s.slots,
                    s.max_operations, s.max_request_bytes, s.lease_seconds, s.back_channel ? "up" : "down"),
        watch);
    if (!s.server_implementation.empty())
      fmt::print("{:<9} {}\n", "server", printable(s.server_implementation));
    if (!s.server_owner.empty()) fmt::print("{:<9} {}\n", "owner", printable(s.server_owner));
    fmt::print("{:<9} rsize {}, wsize {}\n", "transfer", s.rsize, s.wsize);
  }

  Outcome<> list(const client::NodeRef& root) {
    const Stopwatch watch;
    const auto answer = session_.list(root, kMostEntries, kSession);
    if (!answer) give_up("READDIR");
    const Result<ServerSession::Listing>& listing = *answer;
    if (!listing)
      return step_failed(
          fmt::format("{}; {}", describe(listing.error()), session_advice(options_, listing.error())));
    step("list", fmt::format("{}: {} entries", options_.export_path, listing->entries.size()), watch);
    print_listing(*listing);
    return {};
  }

  const std::string program_;
  const std::string name_;  // the server, as given
  const client::ClientOptions options_;
  ServerSession session_;
};

Outcome<> try_rdma(const client::ClientOptions& options) {
  const Stopwatch watch;
  const auto found = probe_rdma(options);
  step("rdma", found ? *found : found.error().text, watch);
  if (!found) return step_failed(fmt::format("{}; {}", found.error().text, rdma_advice(options)));
  return {};
}

// Says what the server offers by TLS. Silence means no TLS, and may mean a server that is old.
void show_tls(const client::ClientOptions& options, const std::vector<net::Endpoint>& endpoints) {
  const Stopwatch watch;
  for (const net::Endpoint& endpoint : endpoints) {
    const Connecting one = connect_to(endpoint, kRoundTrip);
    if (one.error != 0) continue;
    const std::string offered = probe_tls(options, one.fd);
    if (!offered.empty()) step("tls", offered, watch);
    return;
  }
}

// Returns false if the server was reached and speaks only version 3.
Outcome<bool> try_tcp(const client::ClientOptions& options, const std::vector<net::Endpoint>& endpoints) {
  const auto connection = connect_any(options, endpoints);
  if (!connection) return tl::unexpected(connection.error());
  auto found = find_version(*connection);
  if (!found) found.error().text += "; " + null_advice(options);
  if (found && *found) show_tls(options, endpoints);
  return found;
}

// Says what it means to mount a server that speaks only version 3.
Outcome<> show_version3(const std::string& host) {
  fmt::print("{:<9} mount it as any other; its locks then exclude programs of this machine only\n",
             "version 3");
  fmt::print("{:<9} 'showmount -e {}' lists them\n", "exports", printable(host));
  return {};
}

// Tries RDMA (a device, then software) until one way works, and then TCP; shows each result. Makes the
// session over the first transport that works.
Outcome<> probe(const std::string& program, const std::string& name, const ServerWays& wanted) {
  const auto endpoints = resolve(wanted.tcp ? *wanted.tcp : wanted.rdma.front());
  if (!endpoints) return tl::unexpected(endpoints.error());
  Outcome<> rdma = step_failed("");
  size_t used = 0;
  for (size_t i = 0; i < wanted.rdma.size() && !rdma; ++i) rdma = try_rdma(wanted.rdma[used = i]);
  if (!wanted.tcp && !rdma) return rdma;
  if (wanted.tcp) {
    const auto tcp = try_tcp(*wanted.tcp, *endpoints);
    if (!tcp && !rdma) return tl::unexpected(tcp.error());
    if (tcp && !*tcp && !rdma) return show_version3(wanted.tcp->host);
    if (!tcp) fmt::print("{:<9} {}\n", "tcp", printable(tcp.error().text));
  }
  return Probe(program, name, rdma ? wanted.rdma[used] : *wanted.tcp).run();
}

}  // namespace

Outcome<ServerWays> ways_to_server(const ProbeVerb& verb) {
  const auto source = parse_server(verb.server);
  if (!source) return refuse(ToolExit::kUsage, source.error().text);
  std::vector<OptionLayer> layers;
  for (const RawOption& option : verb.options) layers.push_back({OptionOrigin::kCommandLine, {}, option});
  auto parsed = parse_options(layers, false);
  if (!parsed) return refuse(ToolExit::kUsage, parsed.error().text);
  if (auto done = check_options(*parsed, *source); !done) return refuse(ToolExit::kUsage, done.error().text);
  if (parsed->values.major_version == 3)
    return refuse(ToolExit::kUsage, "probe speaks version 4; " + probe_advice(*source, parsed->values));
  const bool root = geteuid() == 0;
  const auto over = [&](Transport transport) {
    MountOptions options = parsed->values;
    options.transport = transport;
    decide_reserved_port(options);
    return make_client_options(options, *source, root);
  };
  ServerWays wanted;
  if (parsed->values.may_use_rdma_device(fabric::verbs::missing({}).empty())) {
    wanted.rdma.push_back(over(Transport::kRdma));
    wanted.rdma.back().transport = client::TransportKind::kRdmaDevice;
  }
  if (parsed->values.may_use_software_rdma()) wanted.rdma.push_back(over(Transport::kRdma));
  if (parsed->values.transport != Transport::kRdma) wanted.tcp = over(Transport::kTcp);
  return wanted;
}

int run_probe(const std::string& program, const ProbeVerb& verb) {
  const ProcessLog log;
  set_log_level(LogLevel::kError);
  const auto wanted = ways_to_server(verb);
  if (!wanted) return report(program, wanted.error());
  const auto done = probe(program, verb.server, *wanted);
  if (done) return static_cast<int>(ToolExit::kOk);
  return report(program,
                Failure(done.error().exit_code, fmt::format("{}: {}", verb.server, done.error().text)));
}

}  // namespace nfsrdma::cli
