// SPDX-License-Identifier: Apache-2.0
// Pcapng: RPC messages as a file that Wireshark and tshark read (draft-ietf-opsawg-pcapng).
//
// A message becomes a record of RPC over TCP (RFC 5531 section 11) in TCP segments that are made up, whatever
// has carried it: over RDMA there are no frames that a dissector could put together, and software RDMA's are
// cut anew by each connection. One interface for each protocol says so. Pure: text in, bytes out.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "cli/message_capture.h"

namespace nfsrdma::cli {

class Pcapng {
 public:
  explicit Pcapng(std::string_view program) : program_(program) {}
  // The bytes that begin the file.
  ByteVector header() const;
  // The bytes that add a message.
  ByteVector add(const CapturedMessage& message);

 private:
  struct Stream {
    uint32_t sent = 1;  // next sequence numbers, ours and the peer's
    uint32_t received = 1;
  };
  uint32_t interface_of(const std::string& protocol, ByteVector& out);

  const std::string program_;
  std::map<std::string, uint32_t> interfaces_;
  std::map<std::string, Stream> streams_;  // by both addresses
};

}  // namespace nfsrdma::cli
