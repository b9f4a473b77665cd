// SPDX-License-Identifier: Apache-2.0
#include "cli/trace/pcapng.h"

#include <arpa/inet.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "transport/net/endpoint.h"

namespace nfsrdma::cli {
namespace {

constexpr uint32_t kSectionHeader = 0x0A0D0D0A;
constexpr uint32_t kInterfaceDescription = 1;
constexpr uint32_t kEnhancedPacket = 6;
constexpr uint32_t kByteOrderMagic = 0x1A2B3C4D;
constexpr uint16_t kRawIp = 101;  // LINKTYPE_RAW: packets begin with an IPv4 or IPv6 header
enum Option : uint16_t { kEnd = 0, kName = 2, kDescription = 3, kUserApplication = 4 };
// The payload of one segment: what fits into an IPv4 packet, with a margin.
constexpr size_t kSegment = 65000;
constexpr uint8_t kTcp = 6;
constexpr uint8_t kPushAck = 0x18;

// Blocks are in this machine's byte order, which their magic number shows. Packets are in network byte order.
template <class T>
void put(ByteVector& out, T value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  out.insert(out.end(), bytes, bytes + sizeof value);
}
void put16(ByteVector& out, uint32_t value) {
  put(out, htons(static_cast<uint16_t>(value)));
}
void put32(ByteVector& out, uint32_t value) {
  put(out, htonl(value));
}

void put_option(ByteVector& out, Option option, std::string_view text) {
  put<uint16_t>(out, option);
  put(out, static_cast<uint16_t>(text.size()));
  const auto bytes = std::as_bytes(std::span(text));
  out.insert(out.end(), bytes.begin(), bytes.end());
  out.resize(out.size() + xdr_padding(text.size()));
}

void put_block(ByteVector& out, uint32_t type, const ByteVector& body) {
  const auto length = static_cast<uint32_t>(body.size() + xdr_padding(body.size()) + 12);
  put(out, type);
  put(out, length);
  out.insert(out.end(), body.begin(), body.end());
  out.resize(out.size() + xdr_padding(body.size()));
  put(out, length);
}

struct Address {
  bool v6 = false;
  std::array<std::byte, 16> bytes{};  // IPv4 uses the first four
  uint16_t port = 0;
  ConstBytes significant() const { return ConstBytes(bytes).first(v6 ? 16 : 4); }
};

// "10.0.0.1:2049", "[fd00::1]:2049", "[fe80::1%eth0]:2049".
Address parse_address(std::string_view text) {
  Address address;
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return address;
  const std::string_view port = text.substr(colon + 1);
  std::from_chars(port.data(), port.data() + port.size(), address.port);
  std::string host = net::address_in(std::string(text));
  host.resize(std::min(host.find('%'), host.size()));  // removes the scope
  address.v6 = host.find(':') != std::string::npos;
  if (inet_pton(address.v6 ? AF_INET6 : AF_INET, host.c_str(), address.bytes.data()) != 1) address.bytes = {};
  return address;
}

uint16_t ones_complement_sum(ConstBytes bytes) {
  uint32_t sum = 0;
  for (size_t i = 0; i + 1 < bytes.size(); i += 2)
    sum += std::to_integer<uint32_t>(bytes[i]) << 8 | std::to_integer<uint32_t>(bytes[i + 1]);
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

ByteVector ip_header(const Address& from, const Address& to, size_t payload) {
  ByteVector header;
  if (from.v6) {
    put32(header, 0x60000000);
    put16(header, static_cast<uint32_t>(payload));
    put16(header, kTcp << 8 | 64);
  } else {
    put32(header, static_cast<uint32_t>(0x45000000 | (payload + 20)));
    put32(header, 0x00004000);  // do not fragment
    put32(header, 64u << 24 | kTcp << 16);
  }
  for (const Address* address : {&from, &to}) {
    const ConstBytes bytes = address->significant();
    header.insert(header.end(), bytes.begin(), bytes.end());
  }
  if (!from.v6) {
    const uint16_t sum = htons(ones_complement_sum(header));
    std::memcpy(header.data() + 10, &sum, sizeof sum);
  }
  return header;
}

}  // namespace

ByteVector Pcapng::header() const {
  ByteVector body;
  put(body, kByteOrderMagic);
  put<uint16_t>(body, 1);
  put<uint16_t>(body, 0);
  put<int64_t>(body, -1);  // the section's length is unknown
  put_option(body, kUserApplication, program_);
  put_option(body, kEnd, {});
  ByteVector out;
  put_block(out, kSectionHeader, body);
  return out;
}

uint32_t Pcapng::interface_of(const std::string& protocol, ByteVector& out) {
  const auto [entry, added] = interfaces_.try_emplace(protocol, static_cast<uint32_t>(interfaces_.size()));
  if (added) {
    ByteVector body;
    put(body, kRawIp);
    put<uint16_t>(body, 0);
    put<uint32_t>(body, 0);  // no limit
    put_option(body, kName, protocol);
    put_option(
        body, kDescription,
        fmt::format("whole RPC messages, carried by {}; the IP and TCP headers are made up", protocol));
    put_option(body, kEnd, {});
    put_block(out, kInterfaceDescription, body);
  }
  return entry->second;
}

ByteVector Pcapng::add(const CapturedMessage& message) {
  ByteVector out;
  const uint32_t interface = interface_of(message.protocol, out);
  const Address local = parse_address(message.local);
  const Address peer = parse_address(message.peer);
  const Address& from = message.sent ? local : peer;
  const Address& to = message.sent ? peer : local;
  Stream& stream = streams_[message.local + ' ' + message.peer];
  uint32_t& sequence = message.sent ? stream.sent : stream.received;
  const uint32_t acknowledged = message.sent ? stream.received : stream.sent;

  ByteVector record;
  put32(record, static_cast<uint32_t>(0x80000000 | message.bytes.size()));
  record.insert(record.end(), message.bytes.begin(), message.bytes.end());
  for (size_t at = 0; at < record.size(); at += kSegment) {
    const ConstBytes part = ConstBytes(record).subspan(at, std::min(kSegment, record.size() - at));
    ByteVector packet = ip_header(from, to, 20 + part.size());
    put16(packet, from.port);
    put16(packet, to.port);
    put32(packet, sequence);
    put32(packet, acknowledged);
    put16(packet, 5 << 12 | kPushAck);
    put16(packet, 65535);
    put32(packet, 0);  // no checksum
    packet.insert(packet.end(), part.begin(), part.end());
    sequence += static_cast<uint32_t>(part.size());

    ByteVector body;
    put(body, interface);
    put(body, static_cast<uint32_t>(static_cast<uint64_t>(message.at_us) >> 32));
    put(body, static_cast<uint32_t>(message.at_us));
    put(body, static_cast<uint32_t>(packet.size()));
    put(body, static_cast<uint32_t>(packet.size()));
    body.insert(body.end(), packet.begin(), packet.end());
    put_block(out, kEnhancedPacket, body);
  }
  return out;
}

}  // namespace nfsrdma::cli
