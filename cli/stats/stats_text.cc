// SPDX-License-Identifier: Apache-2.0
// The text forms of status and stats.
#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "cli/stats/snapshot.h"

namespace nfsrdma::cli {
namespace {

using Out = std::back_insert_iterator<std::string>;

std::string duration_text(uint64_t seconds) {
  if (seconds < 60) return fmt::format("{} s", seconds);
  if (seconds < 3600) return fmt::format("{} min {} s", seconds / 60, seconds % 60);
  if (seconds < 86400) return fmt::format("{} h {} min", seconds / 3600, seconds / 60 % 60);
  return fmt::format("{} d {} h", seconds / 86400, seconds / 3600 % 24);
}

std::string bytes_text(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  size_t unit = 0;
  auto value = static_cast<double>(bytes);
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

double per(double value, uint64_t count) {
  return count == 0 ? 0 : value / static_cast<double>(count);
}

double percent(uint64_t part, uint64_t whole) {
  return per(100.0 * static_cast<double>(part), whole);
}

// Names and messages come from the server or the network: they must not control the terminal.
void add_row(std::string& out, std::string_view name, const std::string& value) {
  if (!value.empty()) fmt::format_to(Out(out), "  {:<12} {}\n", name, printable(value));
}

std::string session_line(const client::SessionStatistics& s) {
  if (s.session_id.empty()) return "none";
  return fmt::format(
      "{}, lease {} s, {} of {} slots in use{}, back channel {}", s.session_id, s.lease_seconds,
      s.slots_in_use, s.slots,
      s.slots_target != 0 && s.slots_target != s.slots ? fmt::format(" (target {})", s.slots_target) : "",
      s.back_channel ? "up" : "down");
}

std::string context_text(const client::ContextStatistics& c) {
  if (!c.refusal.empty()) return fmt::format("user {}: {}", c.user, c.refusal);
  if (!c.ends) return fmt::format("user {} without end", c.user);
  return fmt::format("user {} for {}", c.user, duration_text(c.seconds_left));
}

// Whose security contexts there are, and how much longer they last.
void add_contexts(std::string& out, const client::SessionStatistics& s) {
  constexpr size_t kMostShown = 20;
  if (s.security.empty()) return;
  if (s.contexts.empty()) add_row(out, "security", s.security + ", nobody has a context");
  for (size_t i = 0; i < std::min(s.contexts.size(), kMostShown); ++i)
    add_row(out, i == 0 ? "security" : "", fmt::format("{}, {}", s.security, context_text(s.contexts[i])));
  if (s.contexts.size() > kMostShown)
    add_row(out, "", fmt::format("and {} users more", s.contexts.size() - kMostShown));
}

std::string transport_line(const rpc::TransportStatus& t) {
  std::string line = fmt::format("{} {}", t.protocol, transport_state_name(t.state));
  if (!t.peer.empty()) line += fmt::format(" to {}", t.peer);
  if (!t.local.empty()) line += fmt::format(" from {}", t.local);
  if (!t.tls.empty()) line += fmt::format(", {}", t.tls);
  if (t.pending != 0) line += fmt::format(", {} calls pending", t.pending);
  if (!t.responding) line += ", not responding";
  if (t.connects > 1) line += fmt::format(", reconnected {} times", t.connects - 1);
  if (t.state != rpc::TransportState::kReady && !t.last_error.empty())
    line += fmt::format(" ({})", t.last_error);
  return line;
}

std::string rdma_line(const rdma::RdmaStatus& r) {
  std::string line = r.fabric;
  if (!r.fabric_reason.empty()) line += fmt::format(" ({})", r.fabric_reason);
  if (r.version == 0) return line;
  line += fmt::format(", version {}", r.version);
  if (!r.version_reason.empty()) line += fmt::format(" ({})", r.version_reason);
  line += fmt::format(", {} of {} credits in use ({} asked for)", r.credits_in_use, r.credits_granted,
                      r.credits_asked);
  line += fmt::format(", inline up to {} bytes out and {} in, {} segments of memory open, {}", r.inline_send,
                      r.inline_receive, r.segments_open, r.exposure);
  // Linux' server invalidates remotely without announcing it.
  const bool by_replies = r.remote_invalidation || r.remotely_invalidated > 0;
  return line + (by_replies ? ", closed by the server's replies" : ", closed by ourselves");
}

void add_rdma_counters(std::string& out, const rdma::RdmaStatus& r) {
  add_row(out, "",
          fmt::format("calls: {} inline, {} with a Read chunk, {} long; replies: {} inline ({} with a Write "
                      "chunk), {} long",
                      r.inline_calls, r.read_chunks, r.long_calls, r.inline_replies, r.write_chunks,
                      r.reply_chunks));
  add_row(out, "",
          fmt::format("{} inline, {} placed, {} fetched, {} in long calls and replies",
                      bytes_text(r.bytes_inline), bytes_text(r.bytes_placed), bytes_text(r.bytes_fetched),
                      bytes_text(r.bytes_long)));
  add_row(out, "",
          fmt::format("READs not placed: {} short enough to come inline, {} in a long reply, {} with a chunk "
                      "that the server did not use",
                      r.reads_inline, r.reads_long, r.reads_chunk_unused));
  add_row(out, "",
          fmt::format("{} handles closed by the server, {} errors received, {} sent, {} calls repeated",
                      r.remotely_invalidated, r.errors_received, r.errors_sent, r.calls_repeated));
}

// The operations that occurred, most frequent first.
template <class Operation>
std::vector<Operation> used_operations(std::vector<Operation> operations) {
  std::erase_if(operations, [](const auto& o) { return o.requests == 0; });
  std::stable_sort(operations.begin(), operations.end(),
                   [](const auto& a, const auto& b) { return a.requests > b.requests; });
  return operations;
}

// The median and the 99th percentile come from the histogram; their error is at most 12.5 %.
std::string latency_heads() {
  return fmt::format("{:>11}{:>11}{:>11}{:>12}", "avg ms", "median ms", "99% ms", "max ms");
}

std::string latency_columns(uint64_t total_us, uint64_t requests, const LatencyCounts& latency,
                            uint64_t max_us) {
  // The middle of the last bucket may exceed the maximum, which is exact.
  const auto quantile = [&](double share) {
    return std::min(latency.quantile(share), static_cast<double>(max_us));
  };
  return fmt::format("{:>11.3f}{:>11.3f}{:>11.3f}{:>12.3f}",
                     per(static_cast<double>(total_us) / 1000, requests), quantile(0.5) / 1000,
                     quantile(0.99) / 1000, static_cast<double>(max_us) / 1000);
}

void add_operations(std::string& out, const Snapshot& s, double seconds) {
  const auto operations = used_operations(s.client.operations);
  fmt::format_to(Out(out), "  {:<22}{:>12}{:>10}{:>12}{:>10}{:>10}{:>10}{:>9}{:>9}\n", "NFS", "requests",
                 "op/s", "kB/s", "kB/op", "RTT ms", "exe ms", "retrans", "errors");
  for (const client::OperationStatistics& o : operations) {
    const double kilobytes = static_cast<double>(o.bytes_sent + o.bytes_received) / 1024;
    fmt::format_to(Out(out), "  {:<22}{:>12}{:>10.1f}{:>12.1f}{:>10.1f}{:>10.3f}{:>10.3f}{:>9}{:>9}\n",
                   o.name, o.requests, static_cast<double>(o.requests) / seconds, kilobytes / seconds,
                   per(kilobytes, o.requests), per(static_cast<double>(o.response_us) / 1000, o.requests),
                   per(static_cast<double>(o.total_us) / 1000, o.requests), o.retransmissions, o.errors);
  }
  if (operations.empty()) out += "  none\n";
}

std::string held_line(const client::DelegationStatistics& d) {
  return fmt::format("{} to read and {} to write held", d.held_read, d.held_write);
}

std::string moved_line(const client::DelegationStatistics& d) {
  return fmt::format("{} granted, {} recalled, {} returned, {} revoked; {} opens needed no OPEN", d.granted,
                     d.recalled, d.returned, d.revoked, d.local_opens);
}

void add_fuse_operations(std::string& out, const Snapshot& s, double seconds) {
  const auto operations = used_operations(s.fuse.operations);
  fmt::format_to(Out(out), "\n  {:<22}{:>12}{:>10}{}{:>9}\n", "FUSE", "requests", "op/s", latency_heads(),
                 "errors");
  for (const FuseOperation& o : operations) {
    fmt::format_to(Out(out), "  {:<22}{:>12}{:>10.1f}{}{:>9}\n", o.name, o.requests,
                   static_cast<double>(o.requests) / seconds,
                   latency_columns(o.total_us, o.requests, o.latency, o.max_us), o.errors);
  }
  if (operations.empty()) out += "  none\n";
}

void add_response_times(std::string& out, const Snapshot& s) {
  const auto operations = used_operations(s.client.operations);
  fmt::format_to(Out(out), "\n  {:<22}{:>12}{}\n", "NFS response", "requests", latency_heads());
  for (const client::OperationStatistics& o : operations) {
    fmt::format_to(Out(out), "  {:<22}{:>12}{}\n", o.name, o.requests,
                   latency_columns(o.response_us, o.requests, o.latency, o.max_us));
  }
  if (operations.empty()) out += "  none\n";
}

void add_transports(std::string& out, const Snapshot& s) {
  out += '\n';
  for (const rpc::TransportStatus& t : s.client.transports) {
    add_row(out, "transport", transport_line(t));
    add_row(out, "",
            fmt::format("{} calls, {} replies, {} sent again, {} connects, {} bad messages", t.calls,
                        t.replies, t.retransmissions, t.connects, t.bad_messages));
    add_row(out, "",
            fmt::format("{} sent, {} received: {} placed without a copy ({} spliced), {} copied",
                        bytes_text(t.bytes_sent), bytes_text(t.bytes_received), bytes_text(t.bytes_placed),
                        bytes_text(t.bytes_spliced), bytes_text(t.bytes_copied)));
    if (!t.rdma) continue;
    add_row(out, "rdma", rdma_line(*t.rdma));
    add_rdma_counters(out, *t.rdma);
  }
}

}  // namespace

std::string status_text(const Snapshot& s) {
  std::string out = fmt::format("{} on {}\n", printable(s.source), printable(s.mount_point));
  add_row(out, "state", s.responding ? s.state : s.state + ", server not responding");
  add_row(
      out, "daemon",
      fmt::format("process {}, version {}, up {}", s.pid, s.version, duration_text(s.client.age_seconds)));
  add_row(out, "options", s.mount_options);
  if (!s.notice.empty()) add_row(out, "notice", printable(s.notice));
  const client::SessionStatistics& session = s.client.session;
  add_row(out, "transfer", fmt::format("rsize {}, wsize {}", session.rsize, session.wsize));
  for (const rpc::TransportStatus& t : s.client.transports) {
    add_row(out, "transport", transport_line(t));
    if (!t.rdma) continue;
    add_row(out, "rdma", rdma_line(*t.rdma));
    add_rdma_counters(out, *t.rdma);
  }
  if (!session.session_id.empty()) add_row(out, "session", session_line(session));
  add_contexts(out, session);
  const std::string& server =
      session.server_implementation.empty() ? session.server_owner : session.server_implementation;
  if (!server.empty()) add_row(out, "server", server);
  if (session.sessions_created > 1 || session.state_recoveries != 0) {
    add_row(out, "recovery",
            fmt::format("{} sessions made, {} client IDs, state recovered {} times", session.sessions_created,
                        session.client_ids_established, session.state_recoveries));
  }
  const client::CacheStatistics& cache = s.client.cache;
  add_row(out, "files",
          fmt::format("{} open, {} locks, {} inodes known to the kernel", cache.open_files, cache.locks,
                      s.fuse.kernel_inodes));
  add_row(out, "unwritten",
          fmt::format("{}, and {} written but not committed", bytes_text(cache.dirty_bytes),
                      bytes_text(cache.uncommitted_bytes)));
  const client::DelegationStatistics& delegations = s.client.delegations;
  if (delegations.granted != 0)
    add_row(out, "delegations", held_line(delegations) + "; " + moved_line(delegations));
  if (cache.data_limit_bytes != 0)
    add_row(out, "kept data",
            fmt::format("{} of at most {}; read ahead {}, not used {}", bytes_text(cache.data_bytes),
                        bytes_text(cache.data_limit_bytes), bytes_text(cache.ahead_bytes),
                        bytes_text(cache.ahead_wasted_bytes + cache.ahead_refused_bytes)));
  const MemorySnapshot& memory = s.memory;
  add_row(out, "memory",
          fmt::format("{}, {} of it in huge pages; buffers {}, and {} that nothing uses",
                      bytes_text(memory.resident_bytes), bytes_text(memory.huge_page_bytes),
                      bytes_text(memory.buffer_bytes), bytes_text(memory.idle_buffer_bytes)));
  if (cache.refused_bytes != 0)
    add_row(out, "lost", fmt::format("{} that the server did not take", bytes_text(cache.refused_bytes)));
  return out;
}

std::string stats_table(const Snapshot& s, double seconds, StatsSelection selection) {
  // The interval is 0 for a mount that is less than a second old: do not divide by it.
  if (seconds <= 0) seconds = 1;
  const client::CacheStatistics& cache = s.client.cache;
  std::string out =
      fmt::format("{} on {}: {:.0f} s\n", printable(s.source), printable(s.mount_point), seconds);
  fmt::format_to(Out(out),
                 "  applications read {}, wrote {}; names {:.0f}% and attributes {:.0f}% from the cache\n",
                 bytes_text(s.fuse.read_bytes), bytes_text(s.fuse.write_bytes),
                 percent(cache.name_hits, cache.name_hits + cache.name_misses),
                 percent(cache.attribute_hits, cache.attribute_hits + cache.attribute_misses));
  const client::DelegationStatistics& delegations = s.client.delegations;
  if (delegations.held_read + delegations.held_write + delegations.granted != 0)
    fmt::format_to(Out(out), "  delegations: {}; {}\n", held_line(delegations), moved_line(delegations));
  if (cache.ahead_bytes != 0 || cache.data_hits != 0)
    fmt::format_to(Out(out),
                   "  {} read ahead, {} of it for nothing; {} answered from kept data, {} let go for room\n",
                   bytes_text(cache.ahead_bytes), bytes_text(cache.ahead_wasted_bytes),
                   bytes_text(cache.data_hit_bytes), bytes_text(cache.evicted_bytes));
  out += '\n';
  add_operations(out, s, seconds);
  if (selection.operations) {
    add_response_times(out, s);
    add_fuse_operations(out, s, seconds);
  }
  if (selection.transports) add_transports(out, s);
  return out;
}

}  // namespace nfsrdma::cli
