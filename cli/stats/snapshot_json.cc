// SPDX-License-Identifier: Apache-2.0
// Converts a Snapshot to JSON and back. One description of each structure serves both directions.
#include <algorithm>

#include "cli/stats/snapshot.h"

namespace nfsrdma::cli {
namespace {

constexpr rpc::TransportState kTransportStates[] = {
    rpc::TransportState::kIdle,  rpc::TransportState::kConnecting, rpc::TransportState::kHandshake,
    rpc::TransportState::kReady, rpc::TransportState::kBackoff,    rpc::TransportState::kClosed};

class Writer {
 public:
  explicit Writer(Json& json) : json_(json) {}
  template <class T>
  void field(const char* name, const T& value) {
    if constexpr (std::is_same_v<T, pid_t>) {
      json_[name] = static_cast<uint64_t>(value);
    } else {
      json_[name] = value;
    }
  }
  template <class T, class Describe>
  void list(const char* name, const std::vector<T>& values, Describe describe) {
    Json& array = json_[name] = Json::array();
    for (const T& value : values) {
      Writer writer(array.emplace_back(Json::object()));
      describe(writer, value);
    }
  }
  template <class T, class Describe>
  void object(const char* name, const T& value, Describe describe) {
    Writer writer(json_[name] = Json::object());
    describe(writer, value);
  }
  template <class T, class Describe>
  void optional(const char* name, const std::optional<T>& value, Describe describe) {
    if (value) object(name, *value, describe);
  }
  void state(const char* name, rpc::TransportState value) { json_[name] = transport_state_name(value); }
  // Writes the non-empty buckets: [lower edge in microseconds, count], shortest first.
  void latency(const char* name, const LatencyCounts& counts) {
    Json& array = json_[name] = Json::array();
    for (size_t i = 0; i < latency::kBuckets; ++i) {
      if (counts[i] != 0) array.push_back(Json::array({latency::lower_edge(i), counts[i]}));
    }
  }

 private:
  Json& json_;
};

// Reads the members that have the right type and leaves the others at their defaults: the text may come from
// any source.
class Reader {
 public:
  explicit Reader(const Json& json) : json_(json) {}
  template <class T>
  void field(const char* name, T& value) const {
    const auto found = json_.find(name);
    if (found == json_.end()) return;
    if constexpr (std::is_same_v<T, std::string>) {
      if (found->is_string()) value = found->template get<std::string>();
    } else if constexpr (std::is_same_v<T, bool>) {
      if (found->is_boolean()) value = found->template get<bool>();
    } else {
      if (found->is_number_unsigned()) value = static_cast<T>(found->template get<uint64_t>());
    }
  }
  template <class T, class Describe>
  void list(const char* name, std::vector<T>& values, Describe describe) const {
    const auto found = json_.find(name);
    if (found == json_.end() || !found->is_array()) return;
    for (const Json& element : *found) {
      if (!element.is_object()) continue;
      const Reader reader(element);
      describe(reader, values.emplace_back());
    }
  }
  template <class T, class Describe>
  void object(const char* name, T& value, Describe describe) const {
    const auto found = json_.find(name);
    if (found == json_.end() || !found->is_object()) return;
    const Reader reader(*found);
    describe(reader, value);
  }
  template <class T, class Describe>
  void optional(const char* name, std::optional<T>& value, Describe describe) const {
    const auto found = json_.find(name);
    if (found != json_.end() && found->is_object()) object(name, value.emplace(), describe);
  }
  void state(const char* name, rpc::TransportState& value) const {
    std::string text;
    field(name, text);
    for (const rpc::TransportState candidate : kTransportStates) {
      if (transport_state_name(candidate) == text) value = candidate;
    }
  }
  void latency(const char* name, LatencyCounts& counts) const {
    const auto found = json_.find(name);
    if (found == json_.end() || !found->is_array()) return;
    for (const Json& bucket : *found) {
      if (!bucket.is_array() || bucket.size() != 2) continue;
      if (!bucket[0].is_number_unsigned() || !bucket[1].is_number_unsigned()) continue;
      counts[latency::bucket_of(bucket[0].get<uint64_t>())] += bucket[1].get<uint64_t>();
    }
  }

 private:
  const Json& json_;
};

constexpr auto operation = [](auto& x, auto& o) {
  x.field("name", o.name);
  x.field("requests", o.requests);
  x.field("errors", o.errors);
  x.field("retransmissions", o.retransmissions);
  x.field("bytes_sent", o.bytes_sent);
  x.field("bytes_received", o.bytes_received);
  x.field("queue_us", o.queue_us);
  x.field("response_us", o.response_us);
  x.field("total_us", o.total_us);
  x.field("max_us", o.max_us);
  x.latency("response_histogram", o.latency);
};

constexpr auto rdma_transport = [](auto& x, auto& r) {
  x.field("fabric", r.fabric);
  x.field("fabric_reason", r.fabric_reason);
  x.field("version", r.version);
  x.field("version_reason", r.version_reason);
  x.field("credits_asked", r.credits_asked);
  x.field("credits_granted", r.credits_granted);
  x.field("credits_in_use", r.credits_in_use);
  x.field("segments_open", r.segments_open);
  x.field("inline_send", r.inline_send);
  x.field("inline_receive", r.inline_receive);
  x.field("exposure", r.exposure);
  x.field("remote_invalidation", r.remote_invalidation);
  x.field("inline_calls", r.inline_calls);
  x.field("read_chunks", r.read_chunks);
  x.field("long_calls", r.long_calls);
  x.field("inline_replies", r.inline_replies);
  x.field("write_chunks", r.write_chunks);
  x.field("reply_chunks", r.reply_chunks);
  x.field("bytes_inline", r.bytes_inline);
  x.field("bytes_placed", r.bytes_placed);
  x.field("bytes_fetched", r.bytes_fetched);
  x.field("bytes_long", r.bytes_long);
  x.field("reads_inline", r.reads_inline);
  x.field("reads_long", r.reads_long);
  x.field("reads_chunk_unused", r.reads_chunk_unused);
  x.field("remotely_invalidated", r.remotely_invalidated);
  x.field("errors_received", r.errors_received);
  x.field("errors_sent", r.errors_sent);
  x.field("calls_repeated", r.calls_repeated);
};

constexpr auto transport = [](auto& x, auto& t) {
  x.state("state", t.state);
  x.field("protocol", t.protocol);
  x.field("peer", t.peer);
  x.field("local", t.local);
  x.field("tls", t.tls);
  x.field("calls", t.calls);
  x.field("replies", t.replies);
  x.field("retransmissions", t.retransmissions);
  x.field("connects", t.connects);
  x.field("bytes_sent", t.bytes_sent);
  x.field("bytes_received", t.bytes_received);
  x.field("bytes_placed", t.bytes_placed);
  x.field("bytes_spliced", t.bytes_spliced);
  x.field("bytes_copied", t.bytes_copied);
  x.field("bad_messages", t.bad_messages);
  x.field("pending", t.pending);
  x.field("responding", t.responding);
  x.field("last_error", t.last_error);
  x.optional("rdma", t.rdma, rdma_transport);
};

constexpr auto context = [](auto& x, auto& c) {
  x.field("user", c.user);
  x.field("ends", c.ends);
  x.field("seconds_left", c.seconds_left);
  x.field("refusal", c.refusal);
};

constexpr auto session = [](auto& x, auto& s) {
  x.field("session_id", s.session_id);
  x.field("server_owner", s.server_owner);
  x.field("server_scope", s.server_scope);
  x.field("server_implementation", s.server_implementation);
  x.field("slots", s.slots);
  x.field("slots_target", s.slots_target);
  x.field("slots_in_use", s.slots_in_use);
  x.field("max_request_bytes", s.max_request_bytes);
  x.field("max_response_bytes", s.max_response_bytes);
  x.field("max_operations", s.max_operations);
  x.field("lease_seconds", s.lease_seconds);
  x.field("lease_holds", s.lease_holds);
  x.field("back_channel", s.back_channel);
  x.field("sessions_created", s.sessions_created);
  x.field("client_ids_established", s.client_ids_established);
  x.field("state_recoveries", s.state_recoveries);
  x.field("callbacks", s.callbacks);
  x.field("rsize", s.rsize);
  x.field("wsize", s.wsize);
  x.field("security", s.security);
  x.list("contexts", s.contexts, context);
};

constexpr auto delegations = [](auto& x, auto& d) {
  x.field("held_read", d.held_read);
  x.field("held_write", d.held_write);
  x.field("returning", d.returning);
  x.field("granted", d.granted);
  x.field("recalled", d.recalled);
  x.field("returned", d.returned);
  x.field("revoked", d.revoked);
  x.field("local_opens", d.local_opens);
};

constexpr auto cache = [](auto& x, auto& c) {
  x.field("nodes", c.nodes);
  x.field("names", c.names);
  x.field("attribute_hits", c.attribute_hits);
  x.field("attribute_misses", c.attribute_misses);
  x.field("name_hits", c.name_hits);
  x.field("name_misses", c.name_misses);
  x.field("dirty_bytes", c.dirty_bytes);
  x.field("uncommitted_bytes", c.uncommitted_bytes);
  x.field("refused_bytes", c.refused_bytes);
  x.field("open_files", c.open_files);
  x.field("locks", c.locks);
  x.field("data_bytes", c.data_bytes);
  x.field("data_limit_bytes", c.data_limit_bytes);
  x.field("data_hits", c.data_hits);
  x.field("data_hit_bytes", c.data_hit_bytes);
  x.field("ahead_bytes", c.ahead_bytes);
  x.field("ahead_wasted_bytes", c.ahead_wasted_bytes);
  x.field("ahead_refused_bytes", c.ahead_refused_bytes);
  x.field("evicted_bytes", c.evicted_bytes);
};

constexpr auto fuse_operation = [](auto& x, auto& o) {
  x.field("name", o.name);
  x.field("requests", o.requests);
  x.field("errors", o.errors);
  x.field("total_us", o.total_us);
  x.field("max_us", o.max_us);
  x.latency("histogram", o.latency);
};

constexpr auto costs = [](auto& x, auto& c) {
  x.field("requests", c.requests);
  x.field("read_bytes", c.read_bytes);
  x.field("write_bytes", c.write_bytes);
  x.field("total_us", c.total_us);
};

constexpr auto caller = [](auto& x, auto& c) {
  x.field("tid", c.tid);
  costs(x, c);
  x.field("seen_ms", c.seen_ms);
  x.field("idle_ms", c.idle_ms);
};

constexpr auto fuse_side = [](auto& x, auto& f) {
  x.list("operations", f.operations, fuse_operation);
  x.field("read_bytes", f.read_bytes);
  x.field("write_bytes", f.write_bytes);
  x.field("in_flight", f.in_flight);
  x.field("interrupts", f.interrupts);
  x.field("early_answers", f.early_answers);
  x.field("undone", f.undone);
  x.field("unanswered", f.unanswered);
  x.field("kernel_inodes", f.kernel_inodes);
  x.field("invalidations", f.invalidations);
  x.field("invalidations_merged", f.invalidations_merged);
  x.field("invalidation_floods", f.invalidation_floods);
  x.list("callers", f.callers, caller);
  x.object("replaced_callers", f.replaced_callers, costs);
};

constexpr auto memory = [](auto& x, auto& m) {
  x.field("resident_bytes", m.resident_bytes);
  x.field("huge_page_bytes", m.huge_page_bytes);
  x.field("buffer_bytes", m.buffer_bytes);
  x.field("idle_buffer_bytes", m.idle_buffer_bytes);
};

constexpr auto whole_snapshot = [](auto& x, auto& s) {
  x.field("version", s.version);
  x.field("pid", s.pid);
  x.field("state", s.state);
  x.field("responding", s.responding);
  x.field("source", s.source);
  x.field("mount_point", s.mount_point);
  x.field("notice", s.notice);
  x.field("mount_options", s.mount_options);
  x.field("found_transport", s.found_transport);
  x.field("log_level", s.log_level);
  x.field("server", s.client.server);
  x.field("export", s.client.export_path);
  x.field("age_seconds", s.client.age_seconds);
  x.list("operations", s.client.operations, operation);
  x.list("transports", s.client.transports, transport);
  x.object("session", s.client.session, session);
  x.object("cache", s.client.cache, cache);
  x.object("delegations", s.client.delegations, delegations);
  x.object("fuse", s.fuse, fuse_side);
  x.object("memory", s.memory, memory);
};

}  // namespace

std::string_view transport_state_name(rpc::TransportState state) {
  switch (state) {
    case rpc::TransportState::kIdle: return "idle";
    case rpc::TransportState::kConnecting: return "connecting";
    case rpc::TransportState::kHandshake: return "handshake";
    case rpc::TransportState::kReady: return "connected";
    case rpc::TransportState::kBackoff: return "waiting to reconnect";
    case rpc::TransportState::kClosed: return "closed";
  }
  return "";
}

Json to_json(const Snapshot& snapshot) {
  Json json = Json::object();
  Writer writer(json);
  whole_snapshot(writer, snapshot);
  return json;
}

Outcome<Snapshot> snapshot_from_json(const Json& json) {
  Snapshot snapshot;
  if (!json.is_object() || !json.contains("operations") || !json.contains("mount_point")) {
    return refuse(ToolExit::kFailed, "these are no statistics of a mount");
  }
  const Reader reader(json);
  whole_snapshot(reader, snapshot);
  return snapshot;
}

FuseSnapshot make_fuse_snapshot(const fuse::FuseStatistics& s) {
  FuseSnapshot out;
  for (const fuse::FuseOperationStatistics& o : s.operations) {
    out.operations.push_back({std::string(o.name), o.count, o.errors, o.total_us, o.max_us, o.latency});
  }
  out.read_bytes = s.read_bytes;
  out.write_bytes = s.write_bytes;
  out.in_flight = s.in_flight;
  out.interrupts = s.interrupts;
  out.early_answers = s.early_answers;
  out.undone = s.undone;
  out.unanswered = s.unanswered;
  out.kernel_inodes = s.kernel_inodes;
  out.invalidations = s.invalidations;
  out.invalidations_merged = s.invalidations_merged;
  out.invalidation_floods = s.invalidation_floods;
  out.callers = s.callers;
  out.replaced_callers = s.replaced_callers;
  return out;
}

namespace {

// A daemon's counters only grow. A smaller value means that `before` comes from another daemon.
uint64_t minus(uint64_t now, uint64_t before) {
  return now >= before ? now - before : now;
}

template <class T>
const T* named(const std::vector<T>& list, const std::string& name) {
  const auto found = std::find_if(list.begin(), list.end(), [&](const T& item) { return item.name == name; });
  return found == list.end() ? nullptr : &*found;
}

template <class T, class... Member>
void subtract(T& now, const T& before, Member... member) {
  ((now.*member = minus(now.*member, before.*member)), ...);
}

// The interval's maximum is at most the upper bound of its highest bucket.
template <class Operation>
void subtract_latency(Operation& now, const Operation& before) {
  now.latency.subtract(before.latency);
  now.max_us = std::min(now.max_us, now.latency.upper_bound());
}

// If a thread has been seen for a shorter time than the thread of `before` with the same number, it is
// another thread.
void subtract_callers(FuseSnapshot& now, const FuseSnapshot& before) {
  const auto subtract_one = [](Caller& n, const Caller& b) {
    subtract(n, b, &Caller::requests, &Caller::read_bytes, &Caller::write_bytes, &Caller::total_us);
  };
  subtract_one(now.replaced_callers, before.replaced_callers);
  for (Caller& c : now.callers) {
    const auto same = std::find_if(before.callers.begin(), before.callers.end(),
                                   [&](const Caller& b) { return b.tid == c.tid && b.seen_ms <= c.seen_ms; });
    if (same != before.callers.end()) subtract_one(c, *same);
  }
  std::erase_if(now.callers, [](const Caller& c) { return c.requests + c.read_bytes + c.write_bytes == 0; });
}

void subtract_rdma(rdma::RdmaStatus& now, const rdma::RdmaStatus& before) {
  using R = rdma::RdmaStatus;
  subtract(now, before, &R::inline_calls, &R::read_chunks, &R::long_calls, &R::inline_replies,
           &R::write_chunks, &R::reply_chunks, &R::bytes_inline, &R::bytes_placed, &R::bytes_fetched,
           &R::bytes_long, &R::reads_inline, &R::reads_long, &R::reads_chunk_unused, &R::remotely_invalidated,
           &R::errors_received, &R::errors_sent, &R::calls_repeated);
}

}  // namespace

Snapshot difference(const Snapshot& now, const Snapshot& before) {
  Snapshot out = now;
  if (before.client.age_seconds > now.client.age_seconds || (before.pid != 0 && before.pid != now.pid))
    return out;
  subtract(out.client, before.client, &client::Statistics::age_seconds);
  using Operation = client::OperationStatistics;
  for (Operation& o : out.client.operations) {
    if (const Operation* b = named(before.client.operations, o.name)) {
      subtract(o, *b, &Operation::requests, &Operation::errors, &Operation::retransmissions,
               &Operation::bytes_sent, &Operation::bytes_received, &Operation::queue_us,
               &Operation::response_us, &Operation::total_us);
      subtract_latency(o, *b);
    }
  }
  using Transport = rpc::TransportStatus;
  for (size_t i = 0; i < std::min(out.client.transports.size(), before.client.transports.size()); ++i) {
    Transport& t = out.client.transports[i];
    const Transport& b = before.client.transports[i];
    subtract(t, b, &Transport::calls, &Transport::replies, &Transport::retransmissions, &Transport::connects,
             &Transport::bytes_sent, &Transport::bytes_received, &Transport::bytes_placed,
             &Transport::bytes_spliced, &Transport::bytes_copied, &Transport::bad_messages);
    if (t.rdma && b.rdma) subtract_rdma(*t.rdma, *b.rdma);
  }
  using Session = client::SessionStatistics;
  subtract(out.client.session, before.client.session, &Session::sessions_created,
           &Session::client_ids_established, &Session::state_recoveries, &Session::callbacks);
  using Cache = client::CacheStatistics;
  subtract(out.client.cache, before.client.cache, &Cache::attribute_hits, &Cache::attribute_misses,
           &Cache::name_hits, &Cache::name_misses, &Cache::data_hits, &Cache::data_hit_bytes,
           &Cache::ahead_bytes, &Cache::ahead_wasted_bytes, &Cache::ahead_refused_bytes,
           &Cache::evicted_bytes);
  using Held = client::DelegationStatistics;
  subtract(out.client.delegations, before.client.delegations, &Held::granted, &Held::recalled,
           &Held::returned, &Held::revoked, &Held::local_opens);
  for (FuseOperation& o : out.fuse.operations) {
    if (const FuseOperation* b = named(before.fuse.operations, o.name)) {
      subtract(o, *b, &FuseOperation::requests, &FuseOperation::errors, &FuseOperation::total_us);
      subtract_latency(o, *b);
    }
  }
  using Fuse = FuseSnapshot;
  subtract(out.fuse, before.fuse, &Fuse::read_bytes, &Fuse::write_bytes, &Fuse::interrupts,
           &Fuse::early_answers, &Fuse::undone, &Fuse::unanswered, &Fuse::invalidations,
           &Fuse::invalidations_merged, &Fuse::invalidation_floods);
  subtract_callers(out.fuse, before.fuse);
  return out;
}

}  // namespace nfsrdma::cli
