// SPDX-License-Identifier: Apache-2.0
// Fuzz entry: the Responder with a client that sends anything. The actions of the client and of the filer
// come in any order.
//
// Checked: the Responder reads only offered memory, at one time at most the credits times the longest call.
// It writes only memory that an unanswered call has offered, and no more than that. A call gets at most one
// reply, an error none. No message is longer than the client accepts. There are no more calls in the reverse
// direction than granted. When the connection has ended, no event follows and nothing refers to it.
//
// Input: four bytes (see Peer's constructor), then steps: one byte selects the action, its arguments follow
// (see Peer::step()).

#include "transport/rdma/responder.h"

#include <set>

#include "tests/fuzz/fuzz_endpoint.h"
#include "tests/fuzz/input.h"
#include "transport/rdma/configuration.h"
#include "xdr/rpc.h"
#include "xdr/rpcrdma/private_data.h"

namespace {

using namespace nfsrdma;           // NOLINT
using namespace nfsrdma::rpcrdma;  // NOLINT: used throughout this file
using fuzz::credit_of;
using fuzz::Input;
using fuzz::require;
using fuzz::size_of;

constexpr size_t kMaxCall = 20'000;
constexpr size_t kMaxReverseCalls = 16;
constexpr uint32_t kReverseXid = 0x5000;

void append_words(ByteVector& out, std::initializer_list<uint32_t> values) {
  for (const uint32_t v : values) {
    out.resize(out.size() + 4);
    store_be32(out.data() + out.size() - 4, v);
  }
}

bool within(const segment& inner, const segment& outer) {
  return inner.handle == outer.handle && inner.offset >= outer.offset &&
         inner.offset - outer.offset + inner.length <= outer.length;
}

class Peer final : public rdma::ResponderEvents {
 public:
  Peer(Loop& loop, Input input) : loop_(loop), input_(input), wire_(std::make_shared<fuzz::Wire>(loop)) {
    const uint8_t kind = input_.byte(), sizes = input_.byte();
    const uint8_t credits = input_.byte(), limits = input_.byte();
    options_.version1 = (kind & 3) != 1;
    options_.version2 = (kind & 3) != 2;
    options_.use_every_reply_chunk = (kind & 4) != 0;
    options_.configuration_protocol = (kind & 8) != 0;
    options_.invalidate = (kind & 16) != 0;
    options_.inline_bytes = (sizes & 1) != 0 ? 4096 : 1024;
    options_.max_call_bytes = kMaxCall;
    options_.credits = 1 + credits % 4;
    options_.callback_credits = 1 + credits / 4 % 4;
    options_.max_segments = limits % 8 == 7 ? 64 : 1 + limits % 8;
    options_.max_read_chunks = 1 + limits / 8 % 4;
    options_.max_write_chunks = 1 + limits / 32 % 4;
    wire_->limits.max_read_bytes = (sizes & 2) != 0 ? 1000 : 1u << 20;
    const private_data theirs{(kind & 32) != 0, 4096, size_t{1024} << (sizes / 4 % 4)};
    const auto said = encode(theirs);
    if ((kind & 64) != 0) wire_->private_data.assign(said.begin(), said.end());
    // RFC 8797 section 5.1: a client without private data accepts 1024 bytes.
    inline_ = std::min(options_.inline_bytes, (kind & 64) != 0 ? theirs.receive_bytes : size_t{1024});
    wire_->on_send = [this](ConstBytes message, uint32_t invalidate) { on_send(message, invalidate); };
    wire_->on_write = [this](const segment& target, ConstBytes source) { on_write(target, source); };
  }

  void run() {
    responder_ =
        std::make_unique<rdma::Responder>(std::make_unique<fuzz::FuzzEndpoint>(wire_), options_, *this);
    responder_->start();
    while (!input_.empty() && !closed_) {
      step();
      check();
    }
    if (input_.byte() % 2 == 0) wire_->end(fuzz::lost_error());
    poll();
    require(closed_ || wire_->up(), "a connection that ends says so");
    responder_.reset();
    poll();
    require(wire_->gone && wire_->reads.empty(), "and nothing is left of it");
  }

 private:
  void step() {
    const uint8_t what = input_.byte();
    const uint8_t which = input_.byte();
    switch (what % 16) {
      case 0: return deliver(input_.bytes(which));
      case 1:
      case 2:
      case 3: return call(which);
      case 4: return wire_->complete_read(which);
      case 5: return fetch_all();
      case 6:
      case 7: return answer(which);
      case 8: return call_back(which);
      case 9: return answer_reverse(which);
      case 10: return say_error(which);
      case 11: return say_properties(which);
      case 12: return configure(which);
      case 13: return responder_->grant(credit_of(which));
      case 14: return which % 4 == 0 ? end(which) : poll();
      default: return set_refusal(which);
    }
  }

  void poll() { fuzz::settle(loop_); }

  // --- the client

  header header_of(uint8_t version) {
    header h;
    h.vers = responder_->version() != 0 ? responder_->version() : 1 + (version & 1);
    h.xid = input_.byte() % 8;
    h.credit = credit_of(input_.byte());
    return h;
  }

  segment offered() {
    static constexpr uint32_t kLengths[] = {0, 1, 5, 8, 40, 100, 1000, 1024, 4096, 9000, 20'000, UINT32_MAX};
    const uint8_t code = input_.byte();
    next_offset_ += 1u << 16;
    return {0x1000u + code / 16, kLengths[code % std::size(kLengths)], next_offset_};
  }

  // A call with chunks from the input, then some of its bytes changed.
  void call(uint8_t shape) {
    header h = header_of(shape);
    const uint8_t chunks = input_.byte();
    const bool is_long = (shape & 2) != 0;
    h.type = is_long ? RDMA_NOMSG : RDMA_MSG;
    uint32_t position = is_long ? 0 : 40;
    for (unsigned n = chunks & 3; n > 0; --n) {
      h.chunks.reads.push_back({position, offered()});
      if ((shape & 4) != 0) position += static_cast<uint32_t>(xdr_padded(input_.half()));
    }
    const unsigned times = (shape & 128) != 0 ? 24 : 1;
    for (unsigned n = chunks >> 2 & 7; n > 0; --n) {
      if ((shape & 8) != 0 || h.chunks.writes.empty()) h.chunks.writes.add_chunk();
      for (unsigned i = 0; i < times; ++i) h.chunks.writes.add_segment(offered());
    }
    h.chunks.has_reply = (shape & 16) != 0;
    for (unsigned n = h.chunks.has_reply ? (chunks >> 5) * times : 0; n > 0; --n)
      h.chunks.reply.push_back(offered());
    if (h.vers == kVersion2 && (shape & 32) != 0) h.inv_handle = 0x1000;
    ByteVector body;
    if (!is_long) append_words(body, {h.xid, rpc::CALL, 2, 100003, 4, 1, 0, 0, 0, 0});
    if (!is_long && (shape & 64) != 0) body.resize(body.size() + input_.byte());
    send(h, body);
  }

  void fetch_all() {
    while (wire_->up() && !wire_->reads.empty()) {
      // The XID, if the message begins here.
      const MutableBytes target = wire_->reads.front().target;
      std::ranges::fill(target, std::byte{0});
      if (target.size() >= 4) store_be32(target.data(), input_.byte() % 8);
      wire_->complete_read(0);
    }
  }

  void answer_reverse(uint8_t which) {
    header h = header_of(0);
    h.xid = kReverseXid + which % kMaxReverseCalls;
    h.flags = h.vers == kVersion2 ? RPCRDMA2_F_RESPONSE : 0;
    ByteVector body;
    append_words(body, {h.xid, rpc::REPLY, 0, 0, 0, 0});
    send(h, body);
  }

  void say_error(uint8_t which) {
    header h = header_of(which);
    h.xid = which % 2 == 0 ? h.xid : kReverseXid + which % kMaxReverseCalls;
    h.type = RDMA_ERROR;
    h.flags = h.vers == kVersion2 ? RPCRDMA2_F_RESPONSE : 0;
    h.error = {static_cast<errcode>(which % 11), 1, 2};
    send(h, {});
  }

  void say_properties(uint8_t which) {
    header h = header_of(1);
    h.vers = kVersion2;
    h.type = RDMA2_CONNPROP;
    h.properties.receive_buffer_bytes = static_cast<uint32_t>(size_of(which));
    send(h, {});
  }

  void configure(uint8_t which) {
    header h = header_of(0);
    ByteVector body = rdma::configuration_call({1024, static_cast<uint32_t>(size_of(which)), 8}).head;
    store_be32(body.data(), h.xid);
    send(h, body);
  }

  void send(const header& h, ConstBytes body) {
    ByteVector message;
    if (!encode(message, h)) return;
    message.insert(message.end(), body.begin(), body.end());
    input_.spoil(message);
    deliver(message);
  }

  void deliver(ConstBytes message) {
    if (!wire_->up()) return;
    note_offers(message);
    const size_t errors = errors_sent_;
    wire_->deliver(message);
    // RFC 8166 section 4.5. The type has the same place and value in all versions (section 7).
    if (message.size() >= 16 && load_be32(&message[12]) == RDMA_ERROR)
      require(errors_sent_ == errors, "nobody answers an error");
  }

  void note_offers(ConstBytes message) {
    header h;
    size_t length = 0;
    const Defect defect = decode(message, h, &length);
    if (message.size() < 16) return;
    ++messages_[h.xid];
    granted_ = std::clamp(h.credit, granted_, std::max(granted_, options_.callback_credits));
    if (load_be32(&message[12]) == RDMA_ERROR || h.xid >= kReverseXid) ++reverse_ended_;
    note_inline(h, defect);
    if (defect != Defect::kNone) return;
    if (h.type == RDMA_MSG && message.size() >= length + 8 && load_be32(&message[length + 4]) == rpc::REPLY)
      ++reverse_ended_;
    for (const read_segment& r : h.chunks.reads) readable_.push_back(r.target);
    for (const segment& s : h.chunks.writes.all()) writable_[h.xid].push_back(s);
    for (const segment& s : h.chunks.reply) writable_[h.xid].push_back(s);
  }

  // The inline size that the client accepts: the default of version 2, then the value in the first CONNPROP
  // (section 5.3.4).
  void note_inline(const header& h, Defect defect) {
    const bool begins = responder_->version() == 0 && h.type != RDMA_ERROR;
    if (h.vers != kVersion2 || !options_.version2 || !(begins || responder_->version() == kVersion2)) return;
    if (begins) inline_ = std::min<size_t>(options_.inline_bytes, 4096);
    if (defect != Defect::kNone || h.type != RDMA2_CONNPROP) return;
    if (h.response() || std::exchange(properties_seen_, true)) return;
    inline_ = std::min(options_.inline_bytes, std::max<size_t>(h.properties.receive_buffer_bytes, 1024));
  }

  // --- the filer

  void answer(uint8_t which) {
    if (waiting_.empty()) return;
    const auto at = waiting_.begin() + which % static_cast<ptrdiff_t>(waiting_.size());
    const uint32_t xid = *at;
    waiting_.erase(at);
    ByteVector reply;
    append_words(reply, {xid, rpc::REPLY, 0, 0, 0, 0});
    std::vector<rpc::BulkPlace> items;
    for (unsigned n = input_.byte() & 3; n > 0; --n) {
      const size_t size = size_of(input_.byte());
      append_words(reply, {static_cast<uint32_t>(size)});
      items.push_back({reply.size(), size});
      reply.resize(reply.size() + xdr_padded(size), std::byte{0x22});
    }
    reply.resize(reply.size() + xdr_padded(size_of(input_.byte())));
    answering_ = xid;
    responder_->send(std::move(reply), items);
    answering_.reset();
    writable_.erase(xid);
  }

  void call_back(uint8_t which) {
    if (reverse_made_ == kMaxReverseCalls || responder_->version() == 0) return;
    ByteVector message;
    append_words(message,
                 {kReverseXid + static_cast<uint32_t>(reverse_made_++), rpc::CALL, 2, 0x40000000, 1});
    message.resize(message.size() + which);
    responder_->send(std::move(message));
  }

  void set_refusal(uint8_t which) {
    const error e{which % 2 == 0 ? ERR_CHUNK : RDMA2_ERR_READ_CHUNKS, 0, 0};
    responder_->set_refusal(which % 4 == 0 ? rdma::Refusal([e](const header&) { return e; }) : nullptr);
  }

  void end(uint8_t which) {
    if (which % 8 == 0) {
      wire_->end(fuzz::lost_error());
    } else {
      responder_->close(fuzz::lost_error());
    }
    poll();
  }

  // --- requests to the fabric

  void on_send(ConstBytes message, uint32_t invalidate) {
    require(message.size() >= 20, "what is sent has a header");
    const uint32_t xid = load_be32(message.data());
    check_length(message);
    if (load_be32(&message[12]) == RDMA_ERROR) {
      ++errors_sent_;
      require(invalidate == 0, "an error invalidates nothing");
    } else {
      header h;
      size_t length = 0;
      require(decode(message, h, &length) == Defect::kNone, "and can be understood");
      require(h.vers == responder_->version(), "in the version of the connection");
      if (h.type == RDMA_MSG && load_be32(&message[length + 4]) == rpc::CALL)
        return check_reverse(h, invalidate);
      require(options_.invalidate || invalidate == 0, "a handle is invalidated where that is agreed upon");
    }
    require(messages_[xid] > 0, "a message is answered once");
    --messages_[xid];
  }

  void check_length(ConstBytes message) const {
    // Changes by the Connection Configuration Protocol are not tracked here.
    const bool changes = responder_->version() != kVersion2 && options_.configuration_protocol;
    require(message.size() <= (changes ? options_.inline_bytes : inline_), "it is what the client takes");
  }

  void check_reverse(const header& h, uint32_t invalidate) {
    require(h.chunks.empty() && invalidate == 0, "a call in the reverse direction is inline");
    require(++reverse_sent_ <= granted_ + reverse_ended_, "and there are no more than were granted");
  }

  void on_write(const segment& target, ConstBytes source) {
    require(answering_.has_value(), "a reply is what writes");
    const segment written{target.handle, static_cast<uint32_t>(source.size()), target.offset};
    auto& offers = writable_[*answering_];
    const auto at = std::ranges::find_if(offers, [&](const segment& s) { return within(written, s); });
    require(at != offers.end(), "into what the call offers, and into each of it once");
    offers.erase(at);
  }

  // --- ResponderEvents

  void on_message(ByteVector message) override {
    require(!closed_, "nothing is heard after the end");
    require(message.size() >= 8, "a message has its XID and type");
    require(message.size() <= std::max<size_t>(kMaxCall, 8192), "and is not longer than it may be");
    if (load_be32(message.data() + 4) != rpc::REPLY) waiting_.push_back(load_be32(message.data()));
  }
  void on_closed(const Error&) override {
    require(!std::exchange(closed_, true), "a connection ends once");
    require(wire_->reads.empty(), "and nothing is fetched any more");
    waiting_.clear();
  }

  void check() {
    if (closed_) return;
    size_t bytes = 0;
    for (const fuzz::Wire::Read& r : wire_->reads) {
      bytes += r.target.size();
      require(std::ranges::any_of(readable_, [&](const segment& s) { return within(r.source, s); }),
              "what is fetched was offered");
    }
    require(bytes <= (options_.credits + 1) * options_.max_call_bytes, "and is no more than the credits'");
    require(waiting_.size() <= options_.credits + 1, "nor are there more calls");
  }

  Loop& loop_;
  Input input_;
  rdma::ResponderOptions options_;
  size_t inline_ = 1024;
  const std::shared_ptr<fuzz::Wire> wire_;
  std::unique_ptr<rdma::Responder> responder_;
  bool closed_ = false;
  bool properties_seen_ = false;
  uint64_t next_offset_ = 0;
  std::map<uint32_t, size_t> messages_;  // unanswered messages, by XID
  std::vector<segment> readable_;
  std::map<uint32_t, std::vector<segment>> writable_;
  std::vector<uint32_t> waiting_;  // XIDs of the calls that the filer is executing
  std::optional<uint32_t> answering_;
  size_t errors_sent_ = 0;
  size_t reverse_made_ = 0;
  size_t reverse_sent_ = 0;
  size_t reverse_ended_ = 0;
  uint32_t granted_ = 1;  // the largest grant so far
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Loop loop;
  Peer(loop, Input(data, size)).run();
  return 0;
}
