// SPDX-License-Identifier: Apache-2.0
// MessageTap: shows whole RPC messages to an observer (`trace --pcap`), before a transport cuts them into
// records or chunks, with their bulk data in place.
//
// Owner: main, which gives it to the transports through ClientOptions; it outlives them. While it is off, a
// message costs one relaxed load. Any loop.
#pragma once

#include <atomic>
#include <chrono>
#include <string_view>

#include "xdr/support/bytes.h"

namespace nfsrdma::rpc {

struct TappedMessage {
  bool sent = false;  // by us
  std::chrono::system_clock::time_point at;
  std::string_view protocol;  // "tcp", "rdma"
  std::string_view local;     // addresses with ports
  std::string_view peer;
};

class MessageTap {
 public:
  virtual ~MessageTap() = default;
  bool on() const { return on_.load(std::memory_order_relaxed); }
  // `message` begins with the XID.
  virtual void message(const TappedMessage& about, ByteVector message) = 0;

 protected:
  void turn(bool on) { on_.store(on, std::memory_order_relaxed); }

 private:
  std::atomic<bool> on_{false};
};

}  // namespace nfsrdma::rpc
