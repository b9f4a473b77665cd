// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/iwarp/ddp.h"

namespace nfsrdma::fabric::iwarp {

Segment load_segment(const std::byte* from) {
  const auto control = std::to_integer<uint8_t>(from[0]);
  const auto rdmap = std::to_integer<uint8_t>(from[1]);
  Segment s;
  s.tagged = (control & 0x80) != 0;
  s.last = (control & 0x40) != 0;
  s.ddp_version = control & 3;
  s.rdmap_version = rdmap >> 6;
  s.opcode = static_cast<Opcode>(rdmap & 15);
  if (s.tagged) {
    s.stag = load_be32(from + 2);
    s.offset = load_be64(from + 6);
  } else {
    s.invalidate = load_be32(from + 2);
    s.queue = load_be32(from + 6);
    s.msn = load_be32(from + 10);
    s.message_offset = load_be32(from + 14);
  }
  return s;
}

void store_segment(const Segment& s, std::byte* to) {
  to[0] = static_cast<std::byte>((s.tagged ? 0x80 : 0) | (s.last ? 0x40 : 0) | s.ddp_version);
  to[1] = static_cast<std::byte>(unsigned{s.rdmap_version} << 6 | static_cast<unsigned>(s.opcode));
  if (s.tagged) {
    store_be32(to + 2, s.stag);
    store_be64(to + 6, s.offset);
  } else {
    store_be32(to + 2, s.invalidate);
    store_be32(to + 6, s.queue);
    store_be32(to + 10, s.msn);
    store_be32(to + 14, s.message_offset);
  }
}

ReadRequest load_read_request(const std::byte* from) {
  ReadRequest r;
  r.sink_stag = load_be32(from);
  r.sink_offset = load_be64(from + 4);
  r.bytes = load_be32(from + 12);
  r.source_stag = load_be32(from + 16);
  r.source_offset = load_be64(from + 20);
  return r;
}

void store_read_request(const ReadRequest& r, std::byte* to) {
  store_be32(to, r.sink_stag);
  store_be64(to + 4, r.sink_offset);
  store_be32(to + 12, r.bytes);
  store_be32(to + 16, r.source_stag);
  store_be64(to + 20, r.source_offset);
}

}  // namespace nfsrdma::fabric::iwarp
