// SPDX-License-Identifier: Apache-2.0
// Prometheus text exposition format, version 0.0.4. Names follow node_exporter's mountstats collector with
// another prefix, so dashboards can be adapted by renaming.
#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <iterator>

#include "cli/stats/snapshot.h"

namespace nfsrdma::cli {
namespace {

using Out = std::back_insert_iterator<std::string>;
using Labels = std::vector<std::pair<std::string_view, std::string>>;

// Escapes backslash, double quote and newline in label values.
std::string escape_label(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

std::string seconds(uint64_t microseconds) {
  return fmt::format("{:.6f}", static_cast<double>(microseconds) / 1e6);
}

class Exposition {
 public:
  explicit Exposition(const std::vector<Snapshot>& snapshots) : snapshots_(snapshots) {}
  std::string take() { return std::move(out_); }

  using Emit = std::function<void(const Labels&, std::string value)>;
  // Writes one metric. The samples of all mounts must be adjacent.
  void metric(std::string_view name, std::string_view type, std::string_view help,
              const std::function<void(const Snapshot&, const Emit&)>& samples) {
    header(name, type, help);
    for (const Snapshot& s : snapshots_) {
      samples(s, [&](const Labels& labels, const std::string& value) { sample(name, s, labels, value); });
    }
  }

  // A metric with one sample for each mount, without further labels.
  void single(std::string_view name, std::string_view type, std::string_view help,
              uint64_t (*value)(const Snapshot&)) {
    metric(name, type, help,
           [value](const Snapshot& s, const Emit& emit) { emit({}, fmt::format("{}", value(s))); });
  }

  using EmitLatency = std::function<void(Labels, const LatencyCounts&, uint64_t total_us)>;
  void histogram(std::string_view name, std::string_view help,
                 const std::function<void(const Snapshot&, const EmitLatency&)>& samples) {
    header(name, "histogram", help);
    const auto part = [name](const char* suffix) { return fmt::format("{}_{}", name, suffix); };
    for (const Snapshot& s : snapshots_) {
      samples(s, [&](Labels labels, const LatencyCounts& latency, uint64_t total_us) {
        const std::string all = fmt::format("{}", latency.total());
        sample(part("sum"), s, labels, seconds(total_us));
        sample(part("count"), s, labels, all);
        labels.emplace_back("le", "");
        for (const uint64_t edge : kEdges) {
          labels.back().second = fmt::format("{:.5f}", static_cast<double>(edge) / 1e6);
          sample(part("bucket"), s, labels, fmt::format("{}", latency.below(edge)));
        }
        labels.back().second = "+Inf";
        sample(part("bucket"), s, labels, all);
      });
    }
  }

 private:
  // In microseconds. Each is an edge of one of our latency buckets, so no count is estimated.
  static constexpr uint64_t kEdges[] = {10,   20,   40,    80,    160,    320,     640,
                                        1280, 5120, 20480, 81920, 327680, 1310720, 10485760};
  static_assert(std::ranges::all_of(kEdges, [](uint64_t edge) {
    return latency::lower_edge(latency::bucket_of(edge)) == edge;
  }));

  void sample(std::string_view name, const Snapshot& s, const Labels& labels, std::string_view value) {
    fmt::format_to(Out(out_), "nfsrdma_fuse_{}{{export=\"{}\",mountpoint=\"{}\"", name,
                   escape_label(s.source), escape_label(s.mount_point));
    for (const auto& [key, text] : labels) fmt::format_to(Out(out_), ",{}=\"{}\"", key, escape_label(text));
    fmt::format_to(Out(out_), "}} {}\n", value);
  }
  void header(std::string_view name, std::string_view type, std::string_view help) {
    fmt::format_to(Out(out_), "# HELP nfsrdma_fuse_{} {}\n# TYPE nfsrdma_fuse_{} {}\n", name, help, name,
                   type);
  }
  const std::vector<Snapshot>& snapshots_;
  std::string out_;
};

std::string protocol_of(const Snapshot& s) {
  return s.client.transports.empty() ? std::string() : s.client.transports.front().protocol;
}

void add_operations(Exposition& x) {
  using Operation = client::OperationStatistics;
  struct Metric {
    const char* name;
    const char* help;
    std::string (*value)(const Operation&);
  };
  static constexpr Metric kMetrics[] = {
      {"requests_total", "COMPOUNDs completed, by what they were for",
       [](const Operation& o) { return fmt::format("{}", o.requests); }},
      {"transmissions_total", "COMPOUNDs handed to a connection, repetitions included",
       [](const Operation& o) { return fmt::format("{}", o.requests + o.retransmissions); }},
      {"errors_total", "COMPOUNDs answered with an error",
       [](const Operation& o) { return fmt::format("{}", o.errors); }},
      {"sent_bytes_total", "bytes sent, headers included",
       [](const Operation& o) { return fmt::format("{}", o.bytes_sent); }},
      {"received_bytes_total", "bytes received, headers included",
       [](const Operation& o) { return fmt::format("{}", o.bytes_received); }},
      {"queue_time_seconds_total", "time spent waiting for a session slot",
       [](const Operation& o) { return seconds(o.queue_us); }},
      {"response_time_seconds_total", "time from sending to the reply",
       [](const Operation& o) { return seconds(o.response_us); }},
      {"request_time_seconds_total", "time from the start to the end of a request",
       [](const Operation& o) { return seconds(o.total_us); }},
  };
  for (const Metric& m : kMetrics) {
    x.metric(fmt::format("nfs_operations_{}", m.name), "counter", m.help,
             [&m](const Snapshot& s, const Exposition::Emit& emit) {
               for (const Operation& o : s.client.operations) {
                 emit({{"protocol", protocol_of(s)}, {"operation", o.name}}, m.value(o));
               }
             });
  }
}

void add_response_times(Exposition& x) {
  x.histogram("nfs_response_seconds", "time from sending a COMPOUND to its reply, by what it was for",
              [](const Snapshot& s, const Exposition::EmitLatency& emit) {
                for (const client::OperationStatistics& o : s.client.operations)
                  emit({{"protocol", protocol_of(s)}, {"operation", o.name}}, o.latency, o.response_us);
              });
}

void add_fuse(Exposition& x) {
  x.histogram("fuse_request_seconds", "time in FUSE requests, by operation",
              [](const Snapshot& s, const Exposition::EmitLatency& emit) {
                for (const FuseOperation& o : s.fuse.operations)
                  emit({{"op", o.name}}, o.latency, o.total_us);
              });
  x.metric("fuse_errors_total", "counter", "FUSE requests answered with an error",
           [](const Snapshot& s, const Exposition::Emit& emit) {
             for (const FuseOperation& o : s.fuse.operations)
               emit({{"op", o.name}}, fmt::format("{}", o.errors));
           });
  x.metric("fuse_bytes_total", "counter", "bytes that applications read and wrote",
           [](const Snapshot& s, const Exposition::Emit& emit) {
             emit({{"direction", "read"}}, fmt::format("{}", s.fuse.read_bytes));
             emit({{"direction", "write"}}, fmt::format("{}", s.fuse.write_bytes));
           });
}

uint64_t sum(const Snapshot& s, uint64_t rpc::TransportStatus::*member) {
  uint64_t total = 0;
  for (const rpc::TransportStatus& t : s.client.transports) total += t.*member;
  return total;
}

void add_mount(Exposition& x) {
  x.single("age_seconds", "gauge", "time since the mount",
           [](const Snapshot& s) { return s.client.age_seconds; });
  x.single("server_responding", "gauge", "1 while the server answers",
           [](const Snapshot& s) { return uint64_t{s.responding ? 1u : 0u}; });
  x.metric("session_slots", "gauge", "slots of the session's fore channel",
           [](const Snapshot& s, const Exposition::Emit& emit) {
             emit({{"state", "granted"}}, fmt::format("{}", s.client.session.slots));
             emit({{"state", "target"}}, fmt::format("{}", s.client.session.slots_target));
             emit({{"state", "in_use"}}, fmt::format("{}", s.client.session.slots_in_use));
           });
  x.single("reconnects_total", "counter", "connections made after the first", [](const Snapshot& s) {
    uint64_t total = 0;
    for (const rpc::TransportStatus& t : s.client.transports) total += t.connects > 0 ? t.connects - 1 : 0;
    return total;
  });
  x.single("sessions_created_total", "counter", "sessions made",
           [](const Snapshot& s) { return s.client.session.sessions_created; });
  x.single("state_recoveries_total", "counter", "times that opens and locks were reclaimed",
           [](const Snapshot& s) { return s.client.session.state_recoveries; });
}

void add_transport(Exposition& x) {
  x.single("transport_bad_messages_total", "counter", "malformed, unsolicited or oversized messages",
           [](const Snapshot& s) { return sum(s, &rpc::TransportStatus::bad_messages); });
  x.single("transport_sent_bytes_total", "counter", "bytes sent",
           [](const Snapshot& s) { return sum(s, &rpc::TransportStatus::bytes_sent); });
  x.single("transport_received_bytes_total", "counter", "bytes received",
           [](const Snapshot& s) { return sum(s, &rpc::TransportStatus::bytes_received); });
  x.single("transport_placed_bytes_total", "counter", "bytes received straight into their place",
           [](const Snapshot& s) { return sum(s, &rpc::TransportStatus::bytes_placed); });
  x.single("transport_spliced_bytes_total", "counter", "bytes of these that did not pass through our memory",
           [](const Snapshot& s) { return sum(s, &rpc::TransportStatus::bytes_spliced); });
}

// Written and kept file data.
void add_data(Exposition& x) {
  x.single("dirty_bytes", "gauge", "bytes written by applications and not yet by the server",
           [](const Snapshot& s) { return s.client.cache.dirty_bytes; });
  x.single("uncommitted_bytes", "gauge", "bytes written and not yet on the server's stable storage",
           [](const Snapshot& s) { return s.client.cache.uncommitted_bytes; });
  x.single("refused_bytes_total", "counter", "bytes written by applications that the server did not take",
           [](const Snapshot& s) { return s.client.cache.refused_bytes; });
  x.single("cached_data_bytes", "gauge", "memory that holds file data for reads to come",
           [](const Snapshot& s) { return s.client.cache.data_bytes; });
  x.single("cached_data_limit_bytes", "gauge", "the most it may be",
           [](const Snapshot& s) { return s.client.cache.data_limit_bytes; });
  x.single("cached_data_hits_total", "counter", "reads answered with kept data, wholly or in part",
           [](const Snapshot& s) { return s.client.cache.data_hits; });
  x.single("cached_data_hit_bytes_total", "counter", "bytes that they were answered with",
           [](const Snapshot& s) { return s.client.cache.data_hit_bytes; });
  x.single("read_ahead_bytes_total", "counter", "bytes read ahead and kept",
           [](const Snapshot& s) { return s.client.cache.ahead_bytes; });
  x.single("read_ahead_wasted_bytes_total", "counter", "bytes of these that were gone before they were read",
           [](const Snapshot& s) { return s.client.cache.ahead_wasted_bytes; });
  x.single("read_ahead_refused_bytes_total", "counter", "bytes read ahead and not kept: the file had changed",
           [](const Snapshot& s) { return s.client.cache.ahead_refused_bytes; });
  x.single("cached_data_evicted_bytes_total", "counter", "memory taken from kept data for want of room",
           [](const Snapshot& s) { return s.client.cache.evicted_bytes; });
}

void add_memory(Exposition& x) {
  x.single("resident_bytes", "gauge", "memory of the daemon",
           [](const Snapshot& s) { return s.memory.resident_bytes; });
  x.single("huge_page_bytes", "gauge", "bytes of it in huge pages",
           [](const Snapshot& s) { return s.memory.huge_page_bytes; });
  x.single("buffer_bytes", "gauge", "memory of buffers in use",
           [](const Snapshot& s) { return s.memory.buffer_bytes; });
  x.single("idle_buffer_bytes", "gauge", "memory of buffers that nothing uses",
           [](const Snapshot& s) { return s.memory.idle_buffer_bytes; });
}

void add_state(Exposition& x) {
  x.single("open_files", "gauge", "files open on the server",
           [](const Snapshot& s) { return s.client.cache.open_files; });
  x.metric("delegations", "gauge", "delegations held", [](const Snapshot& s, const Exposition::Emit& emit) {
    emit({{"type", "read"}}, fmt::format("{}", s.client.delegations.held_read));
    emit({{"type", "write"}}, fmt::format("{}", s.client.delegations.held_write));
  });
  x.metric("delegations_total", "counter", "what became of delegations",
           [](const Snapshot& s, const Exposition::Emit& emit) {
             const client::DelegationStatistics& d = s.client.delegations;
             emit({{"event", "granted"}}, fmt::format("{}", d.granted));
             emit({{"event", "recalled"}}, fmt::format("{}", d.recalled));
             emit({{"event", "returned"}}, fmt::format("{}", d.returned));
             emit({{"event", "revoked"}}, fmt::format("{}", d.revoked));
           });
  x.single("local_opens_total", "counter", "opens answered under a delegation",
           [](const Snapshot& s) { return s.client.delegations.local_opens; });
  x.single("cached_inodes", "gauge", "files and directories known to the client",
           [](const Snapshot& s) { return s.client.cache.nodes; });
}

// A counter group of RPC over RDMA; `label` tells the values apart.
struct RdmaMetric {
  const char* name;
  const char* type;
  const char* help;
  const char* label;
  std::vector<std::pair<const char*, uint64_t (*)(const rdma::RdmaStatus&)>> values;
};

std::vector<RdmaMetric> rdma_metrics() {
  using R = rdma::RdmaStatus;
  return {
      {"rdma_messages_total",
       "counter",
       "RPC-over-RDMA messages and chunks, by how they travelled",
       "form",
       {{"inline_call", [](const R& r) { return r.inline_calls; }},
        {"read_chunk", [](const R& r) { return r.read_chunks; }},
        {"long_call", [](const R& r) { return r.long_calls; }},
        {"inline_reply", [](const R& r) { return r.inline_replies; }},
        {"write_chunk", [](const R& r) { return r.write_chunks; }},
        {"reply_chunk", [](const R& r) { return r.reply_chunks; }}}},
      {"rdma_bytes_total",
       "counter",
       "bytes of RPC messages and their data, by path",
       "path",
       {{"inline", [](const R& r) { return r.bytes_inline; }},
        {"placed", [](const R& r) { return r.bytes_placed; }},
        {"fetched", [](const R& r) { return r.bytes_fetched; }},
        {"long", [](const R& r) { return r.bytes_long; }}}},
      {"rdma_reads_not_placed_total",
       "counter",
       "READs whose data did not come through a Write chunk, by reason",
       "reason",
       {{"inline", [](const R& r) { return r.reads_inline; }},
        {"long_reply", [](const R& r) { return r.reads_long; }},
        {"chunk_unused", [](const R& r) { return r.reads_chunk_unused; }}}},
      {"rdma_events_total",
       "counter",
       "handles that the server closed, transport errors, calls repeated because of one",
       "event",
       {{"remote_invalidation", [](const R& r) { return r.remotely_invalidated; }},
        {"error_received", [](const R& r) { return r.errors_received; }},
        {"error_sent", [](const R& r) { return r.errors_sent; }},
        {"call_repeated", [](const R& r) { return r.calls_repeated; }}}},
      {"rdma_credits",
       "gauge",
       "calls that may be outstanding",
       "state",
       {{"asked", [](const R& r) { return uint64_t{r.credits_asked}; }},
        {"granted", [](const R& r) { return uint64_t{r.credits_granted}; }},
        {"in_use", [](const R& r) { return uint64_t{r.credits_in_use}; }}}},
      {"rdma_memory_segments",
       "gauge",
       "segments of memory that the server can reach",
       "state",
       {{"open", [](const R& r) { return r.segments_open; }}}},
      {"rdma_inline_threshold_bytes",
       "gauge",
       "longest message without chunks",
       "direction",
       {{"send", [](const R& r) { return r.inline_send; }},
        {"receive", [](const R& r) { return r.inline_receive; }}}},
  };
}

// Sums over all RDMA connections of a mount. Their negotiated thresholds are equal and are not summed.
void add_rdma(Exposition& x) {
  x.metric("rdma_info", "gauge", "how the mount's RPC over RDMA goes; 1",
           [](const Snapshot& s, const Exposition::Emit& emit) {
             for (const rpc::TransportStatus& t : s.client.transports) {
               if (!t.rdma) continue;
               return emit({{"fabric", t.rdma->fabric},
                            {"version", fmt::format("{}", t.rdma->version)},
                            {"exposure", t.rdma->exposure}},
                           "1");
             }
           });
  for (const RdmaMetric& m : rdma_metrics()) {
    const bool threshold = std::string_view(m.name) == "rdma_inline_threshold_bytes";
    x.metric(m.name, m.type, m.help, [&](const Snapshot& s, const Exposition::Emit& emit) {
      for (const auto& [label, value] : m.values) {
        uint64_t total = 0;
        bool any = false;
        for (const rpc::TransportStatus& t : s.client.transports) {
          if (!t.rdma) continue;
          any = true;
          total = threshold ? value(*t.rdma) : total + value(*t.rdma);
        }
        if (any) emit({{m.label, label}}, fmt::format("{}", total));
      }
    });
  }
}

}  // namespace

std::string stats_prometheus(const std::vector<Snapshot>& snapshots) {
  Exposition x(snapshots);
  add_operations(x);
  add_response_times(x);
  add_fuse(x);
  add_mount(x);
  add_transport(x);
  add_data(x);
  add_memory(x);
  add_state(x);
  add_rdma(x);
  return x.take();
}

}  // namespace nfsrdma::cli
