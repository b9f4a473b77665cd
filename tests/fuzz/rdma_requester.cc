// SPDX-License-Identifier: Apache-2.0
// Fuzz entry: the Requester (RdmaConnection) with a server that sends anything. The actions of the server, of
// the owner and of the adapter come in any order.
//
// Checked: no more calls are outstanding than granted, and only one before the first grant (RFC 8166 section
// 3.3.1). No message is longer than the server accepts. A call's memory is closed when its caller is told of
// its end. A call ends once, and no event follows. When the connection has ended, no memory is open and
// nothing refers to it.
//
// Input: four bytes (see Requester's constructor), then steps: one byte selects the action, its arguments
// follow (see Requester::step()).

#include <optional>
#include <set>

#include "tests/fuzz/fuzz_endpoint.h"
#include "tests/fuzz/input.h"
#include "transport/rdma/connection.h"
#include "xdr/rpc.h"
#include "xdr/rpcrdma/private_data.h"

namespace {

using namespace nfsrdma;           // NOLINT
using namespace nfsrdma::rpcrdma;  // NOLINT: used throughout this file
using fuzz::credit_of;
using fuzz::Input;
using fuzz::require;
using fuzz::size_of;
using rdma::RdmaConnection;

constexpr size_t kMaxCalls = 24;
constexpr size_t kMaxMessage = 8192;  // the server does not Send longer messages here
constexpr size_t kMaxCallbacks = 32;  // as in ClientTransport
constexpr uint32_t kFirstXid = 0x70;
constexpr size_t kDataOffset = 32;  // in a READ's reply, as this target builds it

void append_words(ByteVector& out, std::initializer_list<uint32_t> values) {
  for (const uint32_t v : values) {
    out.resize(out.size() + 4);
    store_be32(out.data() + out.size() - 4, v);
  }
}

// A READ's reply: a success header, a status, the data's length, then the data.
rpc::Locate locate(ConstBytes prefix, rpc::BulkPlace& place) {
  if (prefix.size() < kDataOffset) return rpc::Locate::kNeedMore;
  if (load_be32(prefix.data() + 24) != 0) return rpc::Locate::kNone;
  place = {kDataOffset, load_be32(prefix.data() + 28)};
  return rpc::Locate::kFound;
}

struct Made {
  explicit Made(rpc::Call c) : call(std::move(c)), pending(call) {}
  rpc::Call call;
  rpc::PendingCall pending;
  std::set<uint32_t> handles;  // handles in the call's messages
  uint64_t room = 0;           // size of its Reply chunk
  bool over = false;
  bool abandoned = false;
};

class Requester final : public rpc::ConnectionOwner {
 public:
  Requester(Loop& loop, Input input) : loop_(loop), input_(input), wire_(std::make_shared<fuzz::Wire>(loop)) {
    const uint8_t kind = input_.byte(), sizes = input_.byte();
    const uint8_t inline_bytes = input_.byte(), credits = input_.byte();
    ask_ = (kind & 1) != 0;
    wire_->closes_later = (kind & 2) != 0;
    wire_->limits.remote_invalidation = (kind & 4) != 0;
    const private_data theirs{(kind & 8) != 0, 4096, size_t{1024} << (sizes & 3)};
    const auto said = encode(theirs);
    if ((kind & 16) != 0) wire_->private_data.assign(said.begin(), said.end());
    if ((kind & 32) != 0) wire_->limits.max_segment_bytes = 16384;
    options_.max_reply_bytes = 100'000;
    if ((kind & 64) != 0) options_.negotiation_timeout = std::chrono::milliseconds(0);
    options_.inline_bytes = (inline_bytes & 1) != 0 ? 4096 : 1024;
    options_.ddp_threshold = (inline_bytes & 2) != 0 ? 100 : SIZE_MAX;
    options_.credits = 1u << (credits % 6);
    wire_->on_send = [this](ConstBytes message, uint32_t invalidate) { on_send(message, invalidate); };
    wire_->on_write = [](const segment&, ConstBytes) { require(false, "a Requester writes nothing"); };
  }

  // One pool for all inputs, because mapping its memory costs more than the rest of an input.
  static BufferPool& pool() {
    static BufferPool all;
    return all;
  }

  void run() {
    connection_ = std::make_shared<RdmaConnection>(loop_, std::make_unique<fuzz::FuzzEndpoint>(wire_), *this,
                                                   pending_, counters_, options_, rdma_counters_, pool_);
    loop_.spawn(agree());
    poll();
    while (!input_.empty() && connection_) {
      step();
      check();
    }
    end();
  }

 private:
  // A message of ours and the handles in it.
  struct Sent {
    rpcrdma::header header;
    std::vector<uint32_t> handles;
  };

  // As the dialer does.
  Task<> agree() {
    const auto connection = connection_;
    const auto agreement = co_await connection->agree(ask_);
    using Agreement = RdmaConnection::Agreement;
    ready_ = agreement == Agreement::kVersion1 || agreement == Agreement::kVersion2;
    if (!ready_) connection_.reset();
  }

  void step() {
    const uint8_t what = input_.byte();
    const uint8_t which = input_.byte();
    switch (what % 18) {
      case 0: return make_call(which);
      case 1: return deliver(input_.bytes(which));
      case 2: return deliver_patched(which);
      case 3:
      case 4: return answer(which);
      case 5: return answer_error(which);
      case 6: return answer_properties(which);
      case 7: return use_memory(which);
      case 8: return wire_->complete_invalidation();
      case 9: return call_back(which);
      case 10: return answer_callback(which);
      case 11: return abandon(which);
      case 12: return refuse_exposures(which);
      case 13: return configure(which);
      case 14: return make_call(which);
      case 15: return which % 4 == 0 ? wire_->end(fuzz::lost_error()) : poll();
      case 16:
        return which % 4 == 0 && connection_ && ready_ ? connection_->drop(fuzz::lost_error()) : poll();
      default: return poll();
    }
  }

  void poll() { fuzz::settle(loop_); }

  void refuse_exposures(uint8_t which) {
    wire_->refuse_after = which % 4;
    wire_->refuse_exposures = 1 + which / 4 % 4;
  }

  // --- the owner

  void make_call(uint8_t shape) {
    if (!ready_ || !connection_->open() || made_.size() == kMaxCalls) return;
    rpc::Call call;
    call.op = "FUZZ";
    const size_t size = size_of(input_.byte());
    append_words(call.head, {0, rpc::CALL, 2, 100003, 4, 1, 0, 0, 0, 0});
    call.max_reply_bytes = 24 + ((shape & 8) != 0 ? size_of(input_.byte() % 13) : 64);
    call.renewal = (shape & 16) != 0;
    if ((shape & 1) != 0) call.head.resize(call.head.size() + xdr_padded(size));
    if ((shape & 2) != 0 && size > 0) {
      const Slice data = pool_.slice(size);
      std::ranges::fill(data.bytes, std::byte{0x11});
      call.bulks = {{call.head.size(), data.bytes, call.head.size()}};
      call.keep = {data};
      append_words(call.head, {0, 0});
    }
    if ((shape & 4) != 0 && size > 0) {
      call.sink = {pool_.slice(size), locate, kDataOffset, nullptr};
      call.max_reply_bytes += 8;
    }
    Made& m = *made_.emplace_back(std::make_unique<Made>(std::move(call)));
    pending_.add(m.pending, Clock::now());
    connection_->send(m.pending);
  }

  void abandon(uint8_t which) {
    Made* m = made(which);
    if (m == nullptr || m->over) return;
    m->abandoned = true;
    if (connection_) connection_->forget(m->pending);
    over(*m);
  }

  void configure(uint8_t which) {
    if (!ready_ || rdma_counters_.version.load() != kVersion1) return;
    const auto bytes = static_cast<uint32_t>(1024 + 64 * which);
    connection_->configured({bytes, 4, 8});
  }

  void answer_callback(uint8_t code) {
    if (callbacks_ == 0 || !ready_) return;
    --callbacks_;
    ByteVector reply;
    append_words(reply, {code, rpc::REPLY});
    reply.resize(reply.size() + xdr_padded(size_of(code)));
    connection_->send(std::move(reply));
  }

  // --- the server

  // A valid reply for a call, with some bytes changed.
  void answer(uint8_t which) {
    const Sent* to = sent(which);
    if (to == nullptr) return;
    const uint8_t form = input_.byte();
    const size_t size = size_of(input_.byte());
    header h = header_to(*to);
    ByteVector body;
    append_words(body, {to->header.xid, rpc::REPLY, 0, 0, 0, 0, form & 8u, static_cast<uint32_t>(size)});
    h.chunks.writes = to->header.chunks.writes;
    h.chunks.reply = to->header.chunks.reply;
    h.chunks.has_reply = to->header.chunks.has_reply && form % 8 != 0;
    const bool placed = (form & 1) != 0, is_long = (form & 2) != 0 && h.chunks.has_reply;
    const bool beyond = (form & 16) != 0;
    if (!placed && !is_long) body.resize(body.size() + std::min<size_t>(size, 2000));
    for (size_t i = 0; i < h.chunks.writes.size(); ++i)
      shorten(h.chunks.writes[i], placed ? size : 0, beyond);
    const size_t whole = body.size() + ((form & 4) != 0 ? size : 0);
    if (is_long) place(h.chunks.reply, body);
    shorten(h.chunks.reply, is_long ? whole : 0, beyond);
    if (is_long) h.type = RDMA_NOMSG, body.clear();
    send(h, body);
  }

  void answer_error(uint8_t which) {
    const Sent* to = sent(which);
    if (to == nullptr) return;
    header h = header_to(*to);
    h.type = RDMA_ERROR;
    h.error.code = static_cast<errcode>(input_.byte() % 11);
    h.error.first = static_cast<uint32_t>(size_of(input_.byte()));
    h.error.second = input_.byte();
    send(h, {});
  }

  void answer_properties(uint8_t which) {
    const Sent* to = which < 128 && !sent_.empty() ? &sent_.front() : sent(which);
    if (to == nullptr) return;
    header h = header_to(*to);
    h.vers = kVersion2;
    h.type = RDMA2_CONNPROP;
    h.flags = RPCRDMA2_F_RESPONSE;
    h.properties.receive_buffer_bytes = static_cast<uint32_t>(size_of(input_.byte()));
    send(h, {});
  }

  // A call from the server. Its XID may equal the XID of one of our calls.
  void call_back(uint8_t which) {
    const Sent* like = sent(which);
    header h;
    h.vers = rdma_counters_.version.load() == kVersion2 ? kVersion2 : kVersion1;
    h.xid = which % 2 == 0 || like == nullptr ? which : like->header.xid;
    h.credit = credit_of(input_.byte());
    const uint8_t chunks = input_.byte();
    if ((chunks & 1) != 0) h.chunks.reads.push_back({40, {1, 2, 3}});
    if ((chunks & 2) != 0) h.chunks.writes.add_chunk();
    ByteVector body;
    append_words(body, {h.xid, rpc::CALL, 2, 0x40000000, 1, 0, 0, 0, 0, 0});
    send(h, body);
  }

  void deliver_patched(uint8_t which) {
    const Sent* to = sent(which);
    const ConstBytes raw = input_.bytes(input_.byte());
    ByteVector message(raw.begin(), raw.end());
    if (to != nullptr && message.size() >= 4) store_be32(message.data(), to->header.xid);
    deliver(message, handle(to));
  }

  void use_memory(uint8_t which) {
    if (wire_->open.empty() || !wire_->up()) return;
    auto at = wire_->open.begin();
    std::advance(at, which % wire_->open.size());
    const fuzz::Wire::Exposure& e = at->second;
    if (e.closed_by_peer) return;
    if (e.access == fabric::Access::kRemoteWrite) {
      std::ranges::fill(e.memory, std::byte{which});
    } else {
      for (const std::byte b : e.memory) seen_ = seen_ ^ b;
    }
  }

  header header_to(const Sent& to) {
    header h;
    h.xid = to.header.xid;
    h.vers = to.header.vers;
    h.credit = credit_of(input_.byte());
    h.flags = h.vers == kVersion2 ? RPCRDMA2_F_RESPONSE : 0;
    invalidate_ = handle(&to);
    return h;
  }

  // No handle, a handle of the call, a handle of another call, or an unknown one.
  uint32_t handle(const Sent* to) {
    const uint8_t code = input_.byte();
    if (code < 160 || to == nullptr) return 0;
    if (code >= 250) return code;
    if (code >= 240 && !wire_->open.empty()) return wire_->open.begin()->first;
    return to->handles.empty() ? 0 : to->handles[code % to->handles.size()];
  }

  void send(const header& h, ConstBytes body) {
    ByteVector message;
    if (!encode(message, h)) return;
    message.insert(message.end(), body.begin(), body.end());
    input_.spoil(message);
    deliver(message, std::exchange(invalidate_, 0));
  }

  void deliver(ConstBytes message, uint32_t invalidate = 0) {
    const bool foreign =
        ready_ && wire_->up() && wire_->open.contains(invalidate) && !is_of(message, invalidate);
    note_delivered(message);
    wire_->deliver(message, invalidate);
    // RFC 8797 section 4.1: only handles of the transaction that ends may be invalidated.
    require(!foreign || !connection_ || !connection_->open(), "who closes another call's memory is cut off");
  }

  bool is_of(ConstBytes message, uint32_t handle) const {
    if (message.size() < 4) return false;
    const rpc::PendingCall* p = pending_.find(load_be32(message.data()));
    return std::ranges::any_of(
        made_, [&](const auto& m) { return &m->pending == p && m->handles.contains(handle); });
  }

  // Shortens a chunk to `bytes` from its beginning. `beyond`: its last segment then extends past its end.
  static void shorten(std::span<segment> chunk, size_t bytes, bool beyond) {
    for (segment& s : chunk) {
      s.length = static_cast<uint32_t>(std::min<size_t>(s.length, bytes));
      bytes -= s.length;
    }
    if (beyond && !chunk.empty()) chunk.back().length += static_cast<uint32_t>(bytes);
  }

  // RDMA Writes of `bytes` to the beginning of a chunk, as far as it is open and long enough.
  void place(std::span<const segment> chunk, ConstBytes bytes) {
    for (const segment& s : chunk) {
      const auto at = wire_->open.find(s.handle);
      if (at == wire_->open.end() || at->second.closed_by_peer) return;
      const size_t n = std::min(bytes.size(), at->second.memory.size());
      std::ranges::copy(bytes.first(n), at->second.memory.begin());
      bytes = bytes.subspan(n);
    }
  }

  // --- what was sent

  const Sent* sent(uint8_t which) const {
    return sent_.empty() ? nullptr : &sent_[sent_.size() - 1 - which % sent_.size()];
  }
  Made* made(uint8_t which) { return made_.empty() ? nullptr : &*made_[which % made_.size()]; }

  void on_send(ConstBytes message, uint32_t invalidate) {
    require(invalidate == 0, "a Requester invalidates nothing of the server's");
    Sent s;
    size_t length = 0;
    require(decode(message, s.header, &length) == Defect::kNone, "what is sent can be understood");
    const size_t most = ready_ || sent_.size() > 0 ? rdma_counters_.inline_send.load() : 1024;
    require(message.size() <= std::min(most, options_.inline_bytes),
            "and is not longer than the server takes");
    const header& h = s.header;
    if (!h.carries_rpc() || (h.type == RDMA_MSG && load_be32(&message[length + 4]) == rpc::REPLY)) {
      if (h.type == RDMA2_CONNPROP) sent_.push_back(std::move(s));
      return;
    }
    for (const read_segment& r : h.chunks.reads) named(s, r.target, fabric::Access::kRemoteRead);
    for (const segment& w : h.chunks.writes.all()) named(s, w, fabric::Access::kRemoteWrite);
    for (const segment& r : h.chunks.reply) named(s, r, fabric::Access::kRemoteWrite);
    require(h.inv_handle == 0 || std::ranges::find(s.handles, h.inv_handle) != s.handles.end(),
            "the handle that may be invalidated is one of the call's");
    rpc::PendingCall* p = pending_.find(h.xid);
    require(p != nullptr, "only what was asked for is called");
    for (const auto& m : made_) {
      if (&m->pending != p) continue;
      m->handles.insert(s.handles.begin(), s.handles.end());
      m->room = chunk_bytes(h.chunks.reply);
    }
    if (outstanding_.insert(h.xid).second)
      require(outstanding_.size() <= granted_, "no more calls than were granted");
    require(h.credit == options_.credits, "and the same number is asked for");
    sent_.push_back(std::move(s));
  }

  void named(Sent& s, const segment& range, fabric::Access access) {
    const auto at = wire_->open.find(range.handle);
    require(at != wire_->open.end() && at->second.range == range, "what is offered is open");
    require(at->second.access == access, "for what it is offered for");
    s.handles.push_back(range.handle);
  }

  // Applies the grant and the end of a call that this message may bring.
  void note_delivered(ConstBytes message) {
    if (message.size() < 12 || !wire_->up()) return;
    outstanding_.erase(load_be32(message.data()));
    granted_ = std::clamp(load_be32(message.data() + 8), granted_, std::max(granted_, options_.credits));
  }

  // --- ConnectionOwner

  void on_reply(rpc::Connection&, rpc::ReceivedReply reply) override {
    rpc::PendingCall* p = pending_.find(reply.xid);
    require(p != nullptr, "a reply is one to a call that waits");
    Made& m = of(*p);
    if (reply.defect == nullptr) check_reply(m, reply);
    over(m);
  }
  void on_refused(rpc::Connection&, rpc::PendingCall& call, Error) override { over(of(call)); }
  void on_call(rpc::Connection& connection, uint32_t, ByteVector message) override {
    require(message.size() >= 8 && load_be32(message.data() + 4) == rpc::CALL, "a call is one");
    if (++callbacks_ > kMaxCallbacks) connection.drop(fuzz::lost_error());
  }
  void on_bad_message(rpc::Connection&, const BadMessage&) override {}
  void on_bytes_received() override {}
  void on_dropped(rpc::Connection& connection, Error) override {
    require(ready_ && &connection == connection_.get(), "it ends for who has it");
    require(!std::exchange(dropped_, true), "a connection ends once");
    require(wire_->open.empty(), "and nothing is open then");
    pending_.connection_lost();
    connection_.reset();
  }

  static void check_reply(const Made& m, const rpc::ReceivedReply& reply) {
    require(reply.head.size() >= 8, "a reply has its XID");
    require(load_be32(reply.head.data()) == reply.xid, "which is its call's");
    require(reply.head.size() <= std::max<uint64_t>(m.room, kMaxMessage),
            "and is no longer than there is room");
    if (!reply.placed) return;
    rpc::BulkPlace place;
    require(locate(reply.head, place) == rpc::Locate::kFound && place.length == reply.bulk_length,
            "what was placed is what the reply says");
    require(reply.bulk_length <= m.call.sink.destination.size(), "and fits");
  }

  Made& of(const rpc::PendingCall& call) {
    const auto at = std::ranges::find_if(made_, [&](const auto& m) { return &m->pending == &call; });
    require(at != made_.end() && !(*at)->over, "nothing is heard of a call that is over");
    return **at;
  }

  void over(Made& m) {
    for (const uint32_t handle : m.handles) {
      const auto at = wire_->open.find(handle);
      // A caller that gives up before its reply leaves the memory to be closed later.
      const bool closed = at == wire_->open.end() || !wire_->usable() || (m.abandoned && at->second.closing);
      require(closed, "what a call had open is closed with it");
    }
    require(m.pending.mark == 0, "and the connection has forgotten it");
    m.over = true;
    pending_.remove(m.pending);
  }

  // --- between steps, and at the end

  void check() {
    if (!ready_ || dropped_ || !connection_->open()) return;
    require(rdma_counters_.credits_in_use.load() <= options_.credits, "credits are counted");
    const bool idle = std::ranges::all_of(made_, [](const auto& m) { return m->over; });
    const bool abandoned = std::ranges::any_of(made_, [](const auto& m) { return m->abandoned; });
    if (!idle || abandoned || wire_->invalidating()) return;
    require(wire_->open.empty() && rdma_counters_.segments_open.load() == 0,
            "who has no call has nothing open");
    require(rdma_counters_.credits_in_use.load() == 0, "and uses no credit");
  }

  void end() {
    poll();
    const std::weak_ptr<RdmaConnection> connection = connection_;
    if (connection_ && ready_) {
      connection_->drop(fuzz::lost_error());
    } else {
      wire_->end(fuzz::lost_error());
    }
    poll();
    require(!ready_ || dropped_, "a connection that ends says so");
    connection_.reset();
    for (const auto& m : made_) {
      require(m->over || m->pending.mark == 0, "who waits for another connection is not with this one");
      if (!m->over) pending_.remove(m->pending);
    }
    poll();
    require(connection.expired() && wire_->gone, "nothing keeps a connection that has ended");
    made_.clear();
    require(pool_.outstanding_bytes() == 0, "or any memory");
  }

  Loop& loop_;
  Input input_;
  BufferPool& pool_ = pool();
  rdma::RdmaOptions options_;
  rpc::Counters counters_;
  rdma::RdmaCounters rdma_counters_;
  rpc::PendingCalls pending_{kFirstXid};
  const std::shared_ptr<fuzz::Wire> wire_;
  std::shared_ptr<RdmaConnection> connection_;
  bool ask_ = false;
  bool ready_ = false;
  bool dropped_ = false;
  std::vector<std::unique_ptr<Made>> made_;
  std::vector<Sent> sent_;
  std::set<uint32_t> outstanding_;  // XIDs
  uint32_t granted_ = 1;            // the largest grant so far
  uint32_t invalidate_ = 0;
  size_t callbacks_ = 0;
  std::byte seen_{};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Loop loop;
  Requester(loop, Input(data, size)).run();
  require(loop.live_tasks() == 0, "every coroutine ended");
  return 0;
}
