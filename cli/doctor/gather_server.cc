// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/gather_server.h"

#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cli/options/source.h"
#include "cli/server/explain.h"
#include "cli/server/probe_rdma.h"
#include "cli/server/server_session.h"
#include "cli/server/server_steps.h"
#include "client/api/options.h"

namespace nfsrdma::cli::doctor {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

// A TCP handshake takes one and a half round trips, possibly around the world. A resolver asks two name
// servers.
constexpr Milliseconds kConnect = 3s, kNames = 6s;
constexpr Milliseconds kRdma = 6s, kSession = 8s, kListing = 5s;
constexpr size_t kMostEntries = 200;

// The remaining time until `end`, at most `own` and at least 1 ms.
Milliseconds within(Clock::time_point end, Milliseconds own) {
  const auto left = std::chrono::duration_cast<Milliseconds>(end - Clock::now());
  return std::clamp(left, Milliseconds(1), own);
}

// Runs a step that cannot be cancelled, on a thread of its own. Returns nothing if it has no result in time;
// the thread then continues.
template <class Step>
auto bounded(Milliseconds limit, Step step) -> std::optional<decltype(step())> {
  using Value = decltype(step());
  auto promise = std::make_shared<std::promise<Value>>();
  auto future = promise->get_future();
  std::thread([promise, step = std::move(step)]() mutable { promise->set_value(step()); }).detach();
  if (future.wait_for(limit) != std::future_status::ready) return std::nullopt;
  return future.get();
}

std::string name_of(const net::Endpoint& endpoint) {
  char text[NI_MAXHOST] = {};
  if (getnameinfo(endpoint.get(), endpoint.length, text, sizeof text, nullptr, 0, NI_NAMEREQD) != 0)
    return {};
  return text;
}

PortState state_of(int error) {
  switch (error) {
    case 0: return PortState::kOpen;
    case ECONNREFUSED: return PortState::kRefused;
    case ETIMEDOUT: return PortState::kSilent;
    default: return PortState::kUnreachable;
  }
}

unsigned path_mtu(const Fd& fd, int family) {
  int mtu = 0;
  socklen_t size = sizeof mtu;
  const bool v6 = family == AF_INET6;
  const int done = getsockopt(fd.get(), v6 ? static_cast<int>(IPPROTO_IPV6) : static_cast<int>(IPPROTO_IP),
                              v6 ? IPV6_MTU : IP_MTU, &mtu, &size);
  return done == 0 && mtu > 0 ? static_cast<unsigned>(mtu) : 0;
}

void ask_version(const Fd& fd, PortFacts& port, Clock::time_point end) {
  const auto answer = call_null(fd, 4, within(end, kConnect));
  if (!answer) {
    const bool silent = answer.error().text.ends_with("no answer");
    port.answer = silent ? NfsAnswer::kNone : NfsAnswer::kNotNfs;
    port.answer_text = answer.error().text;
    return;
  }
  if (*answer) {
    port.answer = NfsAnswer::kVersion4;
    return;
  }
  port.answer = NfsAnswer::kNotNfs;
  port.answer_text = describe(answer->error());
  if (answer->error().errnum != EPROTONOSUPPORT) return;
  if (const auto old = call_null(fd, 3, within(end, kConnect)); old && *old)
    port.answer = NfsAnswer::kVersion3;
}

PortFacts ask_port(const std::vector<net::Endpoint>& endpoints, Clock::time_point end) {
  PortFacts port;
  for (const net::Endpoint& endpoint : endpoints) {
    Connecting one = connect_to(endpoint, within(end, kConnect));
    // Keep the most informative state: a refusal tells more than silence.
    const PortState state = state_of(one.error);
    if (&endpoint == &endpoints.front() || state <= port.state) {
      port.state = state;
      port.error = one.error == 0 ? "" : std::strerror(one.error);
    }
    if (one.error != 0) continue;
    port.path_mtu = path_mtu(one.fd, endpoint.family());
    ask_version(one.fd, port, end);
    break;
  }
  return port;
}

double now_seconds() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

void note(const client::Attributes& a, SessionFacts& facts, double now) {
  for (const timespec& time : {a.atime, a.mtime, a.ctime}) {
    const double ahead = static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9 - now;
    if (!facts.newest_ahead_seconds || ahead > *facts.newest_ahead_seconds)
      facts.newest_ahead_seconds = ahead;
  }
}

void list(ServerSession& session, const client::Entry& root, SessionFacts& facts, Clock::time_point end) {
  note(root.attributes, facts, now_seconds());
  const auto answer = session.list(root.node, kMostEntries, within(end, kListing));
  facts.listed = answer && *answer;
  if (!answer) {
    facts.list_error = "no answer in time";
    return;
  }
  if (!*answer) {
    facts.list_error = describe(answer->error());
    return;
  }
  for (const client::DirectoryEntry& entry : (*answer)->entries) {
    facts.names.push_back(entry.name);
    ++facts.entries;
    if (!entry.entry) continue;
    facts.nobodys += entry.entry->attributes.uid == client::kNobody ? 1 : 0;
    note(entry.entry->attributes, facts, now_seconds());
  }
}

bool refused_by_rights(const Error& error) {
  return error.layer != Layer::kTransport && (error.errnum == EPERM || error.errnum == EACCES);
}

SessionFacts make_session(client::ClientOptions options, bool low_port, Clock::time_point end) {
  options.reserved_port = low_port;
  SessionFacts facts;
  facts.low_port_used = low_port;
  // If the server does not answer, the object is not destroyed: its destructor would wait for the answer.
  auto session = std::make_unique<ServerSession>(options);
  const auto root = session->mount(within(end, kSession));
  facts.timed_out = !root;
  if (!root) {
    (void)session.release();
    return facts;
  }
  facts.made = root->has_value();
  if (!*root) {
    facts.error = describe(root->error());
    facts.refused = refused_by_rights(root->error());
  } else {
    const client::SessionStatistics s = session->statistics().session;
    facts.server = s.server_implementation.empty() ? s.server_owner : s.server_implementation;
    facts.lease_seconds = s.lease_seconds;
    list(*session, **root, facts, end);
  }
  // The destructor may wait for the server, so it runs on its own thread.
  std::thread([gone = std::move(session)]() mutable { gone.reset(); }).detach();
  return facts;
}

// First tries a port that any user may use: whether that suffices is one of the doctor's questions.
SessionFacts ask_session(const client::ClientOptions& options, Clock::time_point end) {
  SessionFacts facts = make_session(options, false, end);
  if (facts.made || !facts.refused || geteuid() != 0) return facts;
  SessionFacts again = make_session(options, true, end);
  again.refused = true;
  again.low_port_mends = again.made;
  return again;
}

RdmaFacts ask_rdma(client::ClientOptions options, Clock::time_point end) {
  options.rdma_first_connect_timeout = kConnect;
  const auto found = bounded(within(end, kRdma), [options] { return probe_rdma(options); });
  if (!found) return {false, fmt::format("{} port {}: RDMA does not answer", options.host, options.port)};
  if (!*found) return {false, found->error().text};
  return {true, **found};
}

}  // namespace

std::optional<ServerFacts> gather_server(const ProbeVerb& verb, Clock::time_point end) {
  const auto source = parse_server(verb.server);
  const auto ways = ways_to_server(verb);
  if (!source || !ways) return std::nullopt;
  ServerFacts facts;
  facts.host = source->host;
  facts.path = source->path;
  facts.literal = source->host_kind != HostKind::kName;
  facts.rdma_wanted_only = !ways->tcp;
  const client::ClientOptions& named = ways->tcp ? *ways->tcp : ways->rdma.front();
  const auto resolved = bounded(within(end, kNames), [named] { return resolve_server(named); });
  facts.resolve_timed_out = !resolved;
  if (!resolved) return facts;
  if (!*resolved) {
    facts.resolve_error = resolved->error().text;
    return facts;
  }
  facts.resolved = true;
  const std::vector<net::Endpoint>& endpoints = **resolved;
  for (const net::Endpoint& endpoint : endpoints)
    facts.addresses.push_back(net::address_in(net::to_string(endpoint)));
  facts.reverse =
      bounded(within(end, kNames), [first = endpoints.front()] { return name_of(first); }).value_or("");

  const client::ClientOptions* way = nullptr;
  for (const client::ClientOptions& rdma : ways->rdma) {
    facts.rdma.push_back(ask_rdma(rdma, end));
    if (facts.rdma.back().works) {
      way = &rdma;
      break;
    }
  }
  if (ways->tcp) {
    facts.tcp = ask_port(endpoints, end);
    facts.tcp->port = ways->tcp->port;
    if (way == nullptr && facts.tcp->answer == NfsAnswer::kVersion4) way = &*ways->tcp;
  }
  if (way != nullptr) facts.session = ask_session(*way, end);
  return facts;
}

}  // namespace nfsrdma::cli::doctor
