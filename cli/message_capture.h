// SPDX-License-Identifier: Apache-2.0
// MessageCapture: keeps what a mount's transports send and receive until a `trace --pcap` fetches it.
//
// Owner: the daemon's main; the loops add, the control thread takes. At most kMostBytes wait; what comes
// beyond that is dropped and counted, so that who stops to fetch costs no more memory.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "transport/rpc/message_tap.h"

namespace nfsrdma::cli {

struct CapturedMessage {
  bool sent = false;
  int64_t at_us = 0;  // since 1970
  std::string protocol, local, peer;
  ByteVector bytes;  // from the XID on
};

class MessageCapture final : public rpc::MessageTap {
 public:
  static constexpr size_t kMostBytes = 64u << 20;

  void start() { turn(true); }
  void stop();  // what waits is dropped
  void message(const rpc::TappedMessage& about, ByteVector message) override;

  // The oldest ones, about `most_bytes` of them, at least one if there is any.
  std::vector<CapturedMessage> take(size_t most_bytes);
  // Messages dropped since the last call.
  uint64_t take_lost();

 private:
  std::mutex mutex_;
  std::deque<CapturedMessage> kept_;
  size_t kept_bytes_ = 0;
  uint64_t lost_ = 0;
};

}  // namespace nfsrdma::cli
