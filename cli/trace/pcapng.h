// SPDX-License-Identifier: Apache-2.0
// Pcapng: RPC messages as a file that Wireshark and tshark read (draft-ietf-opsawg-pcapng).
//
// Each message becomes a record of RPC over TCP (RFC 5531 section 11) in synthetic TCP segments, for every
// transport. Over RDMA there are no frames that a dissector could reassemble, and each connection of software
// RDMA segments the data differently. Each protocol has its own capture interface, whose name shows it. Pure
// functions: messages in, bytes out.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "cli/trace/message_capture.h"

namespace nfsrdma::cli {

class Pcapng {
 public:
  explicit Pcapng(std::string_view program) : program_(program) {}
  // The bytes at the beginning of the file.
  ByteVector header() const;
  // The bytes of one more message.
  ByteVector add(const CapturedMessage& message);

 private:
  struct Stream {
    uint32_t sent = 1;  // next sequence numbers, ours and the peer's
    uint32_t received = 1;
  };
  uint32_t interface_of(const std::string& protocol, ByteVector& out);

  const std::string program_;
  std::map<std::string, uint32_t> interfaces_;
  std::map<std::string, Stream> streams_;  // by local and peer address
};

}  // namespace nfsrdma::cli
