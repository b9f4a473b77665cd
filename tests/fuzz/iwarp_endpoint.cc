// SPDX-License-Identifier: Apache-2.0
// Fuzz entry: one end of a software RDMA connection after its start-up (EndpointCore), over a socket. The
// peer sends any frames while this side exposes and closes memory, sends, writes, reads and ends.
//
// Checked: only memory that is open for it changes. Only allowed bytes are sent, in whole frames, and nothing
// follows a Terminate. The passive side does not send first. No more Reads are outstanding than agreed. A
// started connection ends with one event, no event follows it, and then nothing refers to the connection.
//
// Input: three bytes (see Rig's constructor), then steps: one byte selects the action, its arguments follow
// (see Rig::step()).

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/input.h"
#include "transport/fabric/iwarp/crc32c.h"
#include "transport/fabric/iwarp/endpoint_core.h"

namespace {

using namespace nfsrdma;                 // NOLINT
using namespace nfsrdma::fabric::iwarp;  // NOLINT
using fabric::Access;
using fuzz::Input;
using fuzz::require;
using rpcrdma::segment;

constexpr size_t kGuard = 64;
constexpr std::byte kGuardByte{0xee};
constexpr std::byte kReadable{0x42};
constexpr std::byte kClosed{0x99};
constexpr std::byte kOurs{0x45};
constexpr size_t kLarge = 50'000;
constexpr size_t kSlots = 8;  // for the data of our Reads
constexpr size_t kSlotBytes = 600;
constexpr size_t kMaxQueued = 512u << 10;

Error over_error() {
  return {.layer = Layer::kTransport,
          .recovery = Recovery::kReconnect,
          .errnum = ECONNABORTED,
          .op = "connection",
          .cause = "over"};
}

// The memory regions that the peer can get, in one block with guard bytes around each.
struct Region {
  size_t at = 0;
  size_t size = 0;
  Access access = Access::kRemoteWrite;
  bool open = false;
  segment known;  // the segment when it was last exposed
};

ByteVector frame_of(ConstBytes ulpdu, bool crc, uint16_t length_error) {
  ByteVector f(kLengthBytes);
  store_be16(f.data(), static_cast<uint16_t>(ulpdu.size() ^ length_error));
  f.insert(f.end(), ulpdu.begin(), ulpdu.end());
  f.resize(f.size() + fpdu_padding(ulpdu.size()));
  Crc32c sum;
  sum.add(f);
  f.resize(f.size() + kCrcBytes);
  if (crc) sum.store(&f[f.size() - kCrcBytes]);
  return f;
}

bool all_are(ConstBytes bytes, std::byte b) {
  return bytes.empty() ||
         (bytes[0] == b && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

// Parses the frames that this side sends, as its peer would.
class Output {
 public:
  explicit Output(bool crc) : crc_(crc) {}

  void add(ConstBytes bytes) {
    if (!bytes.empty()) require(!terminated_, "nothing follows a Terminate");
    left_.insert(left_.end(), bytes.begin(), bytes.end());
    size_t at = 0;
    while (left_.size() - at >= kLengthBytes) {
      const size_t ulpdu = load_be16(&left_[at]);
      if (left_.size() - at < fpdu_bytes(ulpdu)) break;
      frame(ConstBytes(left_).subspan(at, fpdu_bytes(ulpdu)), ulpdu);
      at += fpdu_bytes(ulpdu);
    }
    left_.erase(left_.begin(), left_.begin() + static_cast<ptrdiff_t>(at));
  }

  size_t frames() const { return frames_; }
  bool terminated() const { return terminated_; }
  const std::vector<ReadRequest>& requests() const { return requests_; }

 private:
  void frame(ConstBytes bytes, size_t ulpdu_bytes) {
    require(!terminated_, "nothing follows a Terminate");
    ++frames_;
    const ConstBytes ulpdu = bytes.subspan(kLengthBytes, ulpdu_bytes);
    require(ulpdu_bytes >= kTaggedBytes && ulpdu_bytes >= header_bytes(ulpdu[0]), "a frame has its header");
    const ByteVector again = frame_of(ulpdu, crc_, 0);
    require(again.size() == bytes.size() && std::memcmp(again.data(), bytes.data(), bytes.size()) == 0,
            "zeros for padding, and its CRC");
    const Segment s = load_segment(ulpdu.data());
    const ConstBytes payload = ulpdu.subspan(s.header_bytes());
    if (s.opcode == Opcode::kReadResponse)
      require(all_are(payload, kReadable), "what is fetched is what is open for it");
    if (s.opcode == Opcode::kWrite) require(all_are(payload, kOurs), "what is written is what was to be");
    if (s.opcode == Opcode::kReadRequest) {
      require(payload.size() == kReadRequestBytes, "a Read Request is whole");
      requests_.push_back(load_read_request(payload.data()));
    }
    if (s.opcode != Opcode::kTerminate) return;
    terminated_ = true;
    require(s.queue == kTerminateQueue && decode_terminate(payload).has_value(), "a Terminate can be read");
  }

  const bool crc_;
  ByteVector left_;
  size_t frames_ = 0;
  bool terminated_ = false;
  std::vector<ReadRequest> requests_;
};

class Rig final : private fabric::EndpointEvents {
 public:
  Rig(Loop& loop, Input input) : loop_(loop), input_(input) {
    const uint8_t kind = input_.byte(), depths = input_.byte(), frame = input_.byte();
    active_ = (kind & 1) != 0;
    crc_ = (kind & 2) != 0;
    pipes_ = (kind & 4) != 0;
    output_ = std::make_unique<Output>(crc_);
    add_region(600, Access::kRemoteWrite);
    add_region(9000, Access::kRemoteRead);
    add_region(kLarge, Access::kRemoteWrite);
    slots_at_ = memory_.size();
    memory_.resize(memory_.size() + kSlots * kSlotBytes + kGuard, kGuardByte);
    shadow_ = memory_;

    int pair[2];
    require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0, "sockets");
    peer_ = net::Socket(pair[1]);
    const int room = (kind & 8) != 0 ? 1 : 1 << 20;  // 1: the smallest buffer that the kernel allows
    (void)::setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    Options options;
    options.nudge_after = std::chrono::milliseconds(0);
    options.frame_bytes = frame % 4 == 0 ? 0 : size_t{128} << frame % 8;
    Established established;
    established.connection.socket = net::Socket(pair[0]);
    established.agreed = {crc_, static_cast<uint16_t>(depths % 4), static_cast<uint16_t>(depths / 4 % 4)};
    ord_ = established.agreed.ord;
    established.active = active_;
    established.receive_bytes = receive_bytes_ = 500;
    static const auto kViolations = std::make_shared<log::Throttle>();
    established.violations = kViolations;  // shared by all inputs, so that few lines are logged
    core_ = std::make_shared<EndpointCore>(loop_, options, std::move(established));
  }

  void run() {
    // An endpoint may be destroyed before it was started.
    started_ = (input_.byte() & 7) != 7;
    if (started_) core_->start(*this);
    while (started_ && !input_.empty()) {
      step();
      check();
    }
    finish();
  }

 private:
  void step() {
    const uint8_t what = input_.byte();
    const uint8_t which = input_.byte();
    switch (what % 15) {
      case 0: return queue_bytes(input_.bytes(which));
      case 1:
      case 2:
      case 3:
      case 4: return queue_frame(which);
      case 5: return exchange(SIZE_MAX);
      case 6: return which % 2 == 0 ? exchange(input_.half()) : only_give(input_.half());
      case 7: return expose(which);
      case 8: return close(which);
      case 9: return send(which);
      case 10: return write(which);
      case 11: return read(which);
      case 12: in_next_event_ = which; return;
      case 13: return which % 4 == 0 ? hang_up(which) : exchange(SIZE_MAX);
      default: return which % 4 == 0 ? core_->disconnect(over_error()) : exchange(SIZE_MAX);
    }
  }

  // --- this side

  void add_region(size_t size, Access access) {
    memory_.resize(memory_.size() + kGuard, kGuardByte);
    regions_[added_++] = {memory_.size(), size, access, false, {}};
    memory_.resize(memory_.size() + size, access == Access::kRemoteRead ? kClosed : std::byte{0});
    memory_.resize(memory_.size() + kGuard, kGuardByte);
  }
  MutableBytes bytes_of(const Region& r) { return MutableBytes(memory_).subspan(r.at, r.size); }

  void expose(uint8_t which) {
    Region& r = regions_[which % regions_.size()];
    if (r.open || ended_) return;
    PipedPlace* piped = nullptr;
    if (pipes_ && r.size == kLarge) {
      piped_ = std::make_unique<PipedPlace>(PipedPlace{{{BufferRef(), bytes_of(r)}, {}, {}}, &pipe_pool()});
      piped = piped_.get();
    }
    if (r.access == Access::kRemoteRead) std::ranges::fill(bytes_of(r), kReadable);
    const auto segments = core_->expose(bytes_of(r), r.access, piped);
    if (!segments) {
      refused_ = true;
      if (r.access == Access::kRemoteRead) std::ranges::fill(bytes_of(r), kClosed);
      return;
    }
    require(segments->size() == 1 && segments->at(0).length == r.size, "all of it");
    r.known = segments->at(0);
    r.open = true;
  }

  void close(uint8_t which) {
    Region& r = regions_[which % regions_.size()];
    // With the high bit set, the stag belongs to no region.
    core_->invalidate(std::span(&r.known, 1), (which & 0x80) != 0);
    closed(r);
  }

  // The region is closed. Its content must not change any more, except by data that is still in a pipe, and
  // its owner may use it for other data.
  void closed(Region& r) {
    if (!std::exchange(r.open, false)) return;
    if (pipes_ && r.size == kLarge) {
      require(piped_->data.piped.end <= r.size, "the pipe has a range of what is open");
      if (!piped_->data.piped.empty()) (void)piped_->data.land();
      piped_.reset();
    }
    if (r.access == Access::kRemoteRead) std::ranges::fill(bytes_of(r), kClosed);
    std::ranges::copy(bytes_of(r), shadow_.begin() + static_cast<ptrdiff_t>(r.at));
  }

  void send(uint8_t which) {
    const ByteVector message(fuzz::size_of(which), kOurs);
    const ConstBytes parts[] = {message};
    core_->send(parts, which % 2 == 0 ? 0 : 77, which % 4 == 0);
  }

  void write(uint8_t which) {
    const auto bytes = std::make_shared<ByteVector>(fuzz::size_of(which), kOurs);
    core_->write({5, static_cast<uint32_t>(bytes->size()), 0}, *bytes, bytes, fabric::Cookie{1000});
    ++writes_;
  }

  void read(uint8_t which) {
    if (reads_ == kSlots || ended_) return;
    const size_t n = std::min<size_t>(which * 3u, kSlotBytes);
    const MutableBytes target = MutableBytes(memory_).subspan(slots_at_ + reads_ * kSlotBytes, n);
    read_bytes_[reads_++] = n;
    core_->read(target, {6, static_cast<uint32_t>(n), 0}, nullptr, reads_ - 1);
  }

  void on_receive(fabric::Received received) override {
    require(!ended_, "nothing comes after the end");
    require(received.message.size() <= receive_bytes_, "a message is not longer than it may be");
    if (received.invalidated != 0) {
      const auto r = std::ranges::find_if(
          regions_, [&](const Region& x) { return x.known.handle == received.invalidated; });
      require(r != regions_.end() && r->open, "what the peer invalidates was open to it");
      closed(*r);
    }
    act();
  }
  void on_completed(fabric::Cookie cookie) override {
    require(!ended_, "nothing comes after the end");
    if (cookie == 1000) {
      require(writes_-- > 0, "a Write completes once");
    } else {
      require(cookie == reads_done_++, "Reads complete in their order");
      keep_slot(cookie);
    }
    act();
  }
  void on_invalidated(fabric::Cookie) override { require(false, "memory is closed at once"); }
  void on_disconnected(const Error&) override {
    require(!std::exchange(ended_, true), "a connection ends once");
    for (Region& r : regions_) closed(r);
    for (size_t i = reads_done_; i < reads_; ++i) keep_slot(i);
    reads_done_ = reads_;
  }

  void keep_slot(size_t i) {
    const auto at = static_cast<ptrdiff_t>(slots_at_ + i * kSlotBytes);
    std::copy_n(memory_.begin() + at, kSlotBytes, shadow_.begin() + at);
  }

  // A handler of an event may call any function.
  void act() {
    const uint8_t what = std::exchange(in_next_event_, uint8_t{0});
    switch (what % 8) {
      case 1: return close(what / 8);
      case 2: return send(what / 8);
      case 3: return read(what / 8);
      case 4: return write(what / 8);
      case 5: return expose(what / 8);
      case 6: return core_->disconnect(over_error());
      default: return;
    }
  }

  // --- the peer

  void queue_bytes(ConstBytes bytes) {
    if (to_send_.size() < kMaxQueued) to_send_.insert(to_send_.end(), bytes.begin(), bytes.end());
  }

  // A valid frame, changed as `flags` says.
  void queue_frame(uint8_t code) {
    const uint8_t flags = input_.byte();
    Segment s;
    s.opcode = static_cast<Opcode>(code % 16);
    s.tagged = s.opcode == Opcode::kWrite || s.opcode == Opcode::kReadResponse;
    if ((flags & 2) != 0) s.tagged = !s.tagged;
    s.last = (flags & 1) == 0;
    if ((flags & 8) != 0) s.ddp_version = code / 16 % 4;
    if ((flags & 16) != 0) s.rdmap_version = code / 16 % 4;
    const auto payload = s.tagged ? tagged(s) : untagged(s, (flags & 32) != 0);
    ByteVector ulpdu(s.header_bytes());
    store_segment(s, ulpdu.data());
    ulpdu.insert(ulpdu.end(), payload.begin(), payload.end());
    ByteVector frame = frame_of(ulpdu, crc_, (flags & 128) != 0 ? input_.half() : 0);
    if ((flags & 4) != 0) frame.back() ^= std::byte{1};
    if ((flags & 64) != 0) input_.spoil(frame);
    queue_bytes(frame);
  }

  segment target() {
    const uint8_t which = input_.byte();
    if (which % 8 < regions_.size()) return regions_[which % 8].known;
    if (which % 8 == 3) return {which, 0, which};
    const auto& requests = output_->requests();
    if (requests.empty()) return {};
    const ReadRequest& r = requests[std::min<size_t>(reads_done_ + which / 64, requests.size() - 1)];
    return {r.sink_stag, r.bytes, r.sink_offset};
  }

  // A signed offset of one or two bytes.
  uint64_t shift(uint8_t how) {
    if ((how & 8) != 0) return static_cast<uint64_t>(static_cast<int16_t>(input_.half()));
    return static_cast<uint64_t>(static_cast<int8_t>(input_.byte()));
  }

  // Addresses a region or a requested Read, from its beginning or with an offset from the input.
  ByteVector tagged(Segment& s) {
    const segment to = target();
    const uint8_t how = input_.byte();
    s.stag = to.handle;
    s.offset = to.offset;
    if ((how & 1) != 0) s.offset += shift(how);
    const size_t n = (how & 2) != 0 ? input_.half() : to.length;
    return ByteVector(std::min(n, kMaxUlpduBytes - kTaggedBytes), std::byte{0x77});
  }

  ByteVector untagged(Segment& s, bool out_of_turn) {
    s.queue = s.opcode == Opcode::kReadRequest ? kReadRequestQueue
              : s.opcode == Opcode::kTerminate ? kTerminateQueue
                                               : kSendQueue;
    Turn& turn = turns_[s.queue];
    s.msn = turn.msn;
    s.message_offset = turn.offset;
    if (out_of_turn) {
      s.queue ^= input_.byte() % 8;
      s.msn += input_.byte();
      s.message_offset += input_.byte();
    }
    if (invalidates(s.opcode)) s.invalidate = target().handle;
    ByteVector payload;
    if (s.opcode == Opcode::kReadRequest) {
      payload = read_request();
    } else {
      payload.resize(input_.half() % 1024, std::byte{0x55});
    }
    turn.offset += static_cast<uint32_t>(payload.size());
    if (s.last) turn = {turn.msn + 1, 0};
    return payload;
  }

  ByteVector read_request() {
    const segment from = target();
    const uint8_t how = input_.byte();
    ReadRequest r{9, 0, from.length, from.handle, from.offset};
    if ((how & 1) != 0) r.bytes = input_.half();
    if ((how & 2) != 0) r.source_offset += shift(how);
    if ((how & 4) != 0) r.sink_offset = ~uint64_t{input_.half()};
    ByteVector payload(kReadRequestBytes);
    store_read_request(r, payload.data());
    return payload;
  }

  // Transfers up to `most` bytes to this side and receives all that it sends.
  void exchange(size_t most) {
    while (true) {
      const size_t n = give(most);
      most -= n;
      loop_.context().poll();
      const size_t got = take();
      require(!refused_ || ended_, "memory can be exposed as long as the connection stands");
      check();
      if (n == 0 && got == 0) return;
    }
  }

  // The peer sends but does not receive.
  void only_give(size_t most) {
    give(most);
    loop_.context().poll();
  }

  size_t give(size_t most) {
    if (!peer_ || to_send_.empty() || most == 0) return 0;
    const ssize_t n = ::send(peer_.get(), to_send_.data(), std::min(most, to_send_.size()), MSG_NOSIGNAL);
    if (n <= 0) return 0;
    to_send_.erase(to_send_.begin(), to_send_.begin() + n);
    given_ = true;
    return static_cast<size_t>(n);
  }

  size_t take() {
    if (!peer_) return 0;
    std::array<std::byte, 16384> bytes;
    size_t all = 0;
    ssize_t n = 0;
    while ((n = ::recv(peer_.get(), bytes.data(), bytes.size(), 0)) > 0) {
      output_->add(ConstBytes(bytes).first(static_cast<size_t>(n)));
      all += static_cast<size_t>(n);
    }
    return all;
  }

  void hang_up(uint8_t which) {
    if (!peer_) return;
    if (which % 8 == 0) {
      ::shutdown(peer_.get(), SHUT_WR);
    } else {
      peer_ = {};
    }
    loop_.context().poll();
  }

  // --- between steps, and at the end

  void check() {
    require(active_ || given_ || output_->frames() == 0, "the passive side does not speak first");
    require(output_->requests().size() <= reads_done_ + ord_, "no more Reads than were agreed on");
    size_t at = 0;
    for (const Region& r : regions_) {
      if (!r.open) continue;
      if (r.access == Access::kRemoteRead) require(all_are(bytes_of(r), kReadable), "what may be read stays");
      same(at, r.at);
      at = r.at + r.size;
    }
    same(at, slots_at_ + reads_done_ * kSlotBytes);
    for (size_t i = reads_done_; i < reads_; ++i)
      same(slots_at_ + i * kSlotBytes + read_bytes_[i], slots_at_ + (i + 1) * kSlotBytes);
    same(slots_at_ + reads_ * kSlotBytes, memory_.size());
  }

  void same(size_t begin, size_t end) const {
    require(begin >= end || std::memcmp(&memory_[begin], &shadow_[begin], end - begin) == 0,
            "no byte changes but of what is open for it");
  }

  void finish() {
    exchange(SIZE_MAX);
    peer_ = {};
    loop_.context().poll();
    require(!started_ || ended_, "a connection whose peer has gone says so");
    check();
    core_->detach();
    loop_.context().poll();
    require(core_.use_count() == 1, "nothing keeps it");
    core_.reset();
    check();
  }

  static PipePool& pipe_pool() {
    static BufferPool all;
    return all.pipes();
  }

  struct Turn {
    uint32_t msn = 1;
    uint32_t offset = 0;
  };

  Loop& loop_;
  Input input_;
  bool active_ = false;
  bool crc_ = false;
  bool pipes_ = false;
  bool started_ = false;
  bool refused_ = false;  // an exposure failed
  bool ended_ = false;
  size_t receive_bytes_ = 0;
  size_t ord_ = 0;

  ByteVector memory_;
  ByteVector shadow_;
  std::array<Region, 3> regions_;
  size_t added_ = 0;
  std::unique_ptr<PipedPlace> piped_;
  size_t slots_at_ = 0;
  std::array<size_t, kSlots> read_bytes_{};
  size_t reads_ = 0;
  size_t reads_done_ = 0;
  size_t writes_ = 0;
  uint8_t in_next_event_ = 0;

  net::Socket peer_;
  std::vector<std::byte> to_send_;
  bool given_ = false;
  std::array<Turn, kQueues> turns_;
  std::unique_ptr<Output> output_;
  std::shared_ptr<EndpointCore> core_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Loop loop;
  const auto guard = asio::make_work_guard(loop.context());
  Rig(loop, Input(data, size)).run();
  return 0;
}
