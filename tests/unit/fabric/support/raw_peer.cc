// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/fabric/support/raw_peer.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <cstring>

#include "transport/fabric/iwarp/crc32c.h"

namespace nfsrdma::test {

using iwarp::Opcode;
using iwarp::Segment;

ByteVector ulpdu(const Segment& s, ConstBytes payload) {
  ByteVector b(s.header_bytes());
  store_segment(s, b.data());
  b.insert(b.end(), payload.begin(), payload.end());
  return b;
}

ByteVector frame(ConstBytes content) {
  ByteVector f(2);
  iwarp::store_be16(f.data(), static_cast<uint16_t>(content.size()));
  f.insert(f.end(), content.begin(), content.end());
  while (f.size() % 4 != 0) f.push_back(std::byte{0});
  iwarp::Crc32c crc;
  crc.add(f);
  f.resize(f.size() + 4);
  crc.store(&f[f.size() - 4]);
  return f;
}

ByteVector frame(const Segment& s, ConstBytes payload) {
  return frame(ulpdu(s, payload));
}

Segment send_segment(uint32_t msn, uint32_t offset, bool last) {
  Segment s;
  s.msn = msn;
  s.message_offset = offset;
  s.last = last;
  return s;
}

Segment write_segment(const rpcrdma::segment& to, uint64_t shift, bool last) {
  Segment s;
  s.tagged = true;
  s.last = last;
  s.opcode = Opcode::kWrite;
  s.stag = to.handle;
  s.offset = to.offset + shift;
  return s;
}

Segment read_response(const iwarp::ReadRequest& to, uint64_t shift, bool last) {
  Segment s = write_segment({to.sink_stag, 0, to.sink_offset}, shift, last);
  s.opcode = Opcode::kReadResponse;
  return s;
}

ByteVector read_request(uint32_t msn, const iwarp::ReadRequest& request) {
  Segment s = send_segment(msn);
  s.opcode = Opcode::kReadRequest;
  s.queue = iwarp::kReadRequestQueue;
  ByteVector payload(iwarp::kReadRequestBytes);
  store_read_request(request, payload.data());
  return frame(s, payload);
}

RawPeer RawPeer::connect(uint16_t port) {
  net::Socket s(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  a.sin_port = htons(port);
  EXPECT_EQ(::connect(s.get(), reinterpret_cast<const sockaddr*>(&a), sizeof(a)), 0) << std::strerror(errno);
  const int on = 1;
  ::setsockopt(s.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return RawPeer(PeerSocket(std::move(s)));
}

iwarp::StartupFrame RawPeer::read_startup(iwarp::StartupFrame::Kind kind) {
  ByteVector bytes = socket_.read_bytes(iwarp::kFrameHeaderBytes);
  const auto more = iwarp::private_data_bytes(bytes, kind);
  if (!more) return {};
  const ByteVector rest = socket_.read_bytes(*more);
  bytes.insert(bytes.end(), rest.begin(), rest.end());
  auto f = iwarp::decode_startup(bytes, kind);
  EXPECT_TRUE(f);
  return f ? std::move(*f) : iwarp::StartupFrame{};
}

std::optional<RawPeer::Frame> RawPeer::read_frame() {
  ByteVector bytes = socket_.read_bytes(2);
  if (bytes.size() < 2) return std::nullopt;
  const size_t size = iwarp::load_be16(bytes.data());
  const ByteVector rest = socket_.read_bytes(iwarp::fpdu_bytes(size) - 2);
  if (rest.size() < iwarp::fpdu_bytes(size) - 2) return std::nullopt;
  bytes.insert(bytes.end(), rest.begin(), rest.end());
  Frame f;
  f.segment = iwarp::load_segment(bytes.data() + 2);
  const auto begin = bytes.begin() + 2 + static_cast<ptrdiff_t>(f.segment.header_bytes());
  f.payload.assign(begin, bytes.begin() + 2 + static_cast<ptrdiff_t>(size));
  const ByteVector again = frame(ConstBytes(bytes).subspan(2, size));
  f.crc_good = again == bytes;
  return f;
}

std::optional<iwarp::Terminate> RawPeer::read_terminate() {
  while (const auto f = read_frame()) {
    if (f->segment.opcode != Opcode::kTerminate) continue;
    EXPECT_EQ(f->segment.queue, iwarp::kTerminateQueue);
    EXPECT_EQ(f->segment.msn, 1u);
    const auto t = iwarp::decode_terminate(f->payload);
    EXPECT_TRUE(t);
    EXPECT_FALSE(read_frame()) << "nothing follows a Terminate";
    return t;
  }
  return std::nullopt;
}

namespace {
Task<Result<std::unique_ptr<fabric::Endpoint>>> accept_it(fabric::Incoming* i, fabric::EndpointOptions o) {
  const std::unique_ptr<fabric::Incoming> mine(i);
  co_return co_await mine->accept(std::move(o));
}
}  // namespace

RawToOurs::RawToOurs(iwarp::Options options, fabric::EndpointOptions endpoint, iwarp::StartupFrame request) {
  std::promise<fabric::Incoming*> asked;
  auto listener = on_loop([&] {
    fabric_ = iwarp::make_fabric(*loop_, options);
    return fabric_->listen("127.0.0.1", 0,
                           [&](std::unique_ptr<fabric::Incoming> i) { asked.set_value(i.release()); });
  });
  EXPECT_TRUE(listener);
  raw.emplace(RawPeer::connect((*listener)->port()));
  raw->write(iwarp::encode(request));
  auto accepted = run_on(*loop_, accept_it(asked.get_future().get(), std::move(endpoint)));
  EXPECT_TRUE(accepted);
  reply = raw->read_startup(iwarp::StartupFrame::Kind::kReply);
  ours.endpoint = std::move(*accepted);
  on_loop([&] {
    listener->reset();
    ours->start(ours);
  });
}

RawToOurs::~RawToOurs() {
  on_loop([&] {
    ours.endpoint.reset();
    fabric_.reset();
  });
  EXPECT_TRUE(ours.silent_after_the_end());
}

rpcrdma::segment RawToOurs::expose(MutableBytes memory, fabric::Access access) {
  return on_loop([&] {
    auto exposed = ours->expose(memory, access);
    EXPECT_TRUE(exposed && exposed->size() == 1);
    return exposed->at(0);
  });
}

}  // namespace nfsrdma::test
