// SPDX-License-Identifier: Apache-2.0
// MessageCapture: stores the messages that a mount's transports send and receive until `trace --pcap` fetches
// them.
//
// Owner: MountDaemon. The loops add messages, the control thread takes them. At most kMostBytes are
// stored. Further messages are dropped and counted, so a tool that stops fetching costs no more memory.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "transport/rpc/message_tap.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::cli {

struct CapturedMessage {
  bool sent = false;
  int64_t at_us = 0;  // microseconds since 1970, UTC
  std::string protocol, local, peer;
  ByteVector bytes;  // of the RPC message, beginning with the XID
};

class MessageCapture final : public rpc::MessageTap {
 public:
  static constexpr size_t kMostBytes = 64u << 20;

  void start() { turn(true); }
  void stop();  // drops the stored messages
  void message(const rpc::TappedMessage& about, ByteVector message) override;

  // Takes the oldest messages, up to about `most_bytes`; at least one if any is stored.
  std::vector<CapturedMessage> take(size_t most_bytes);
  // The number of messages dropped since the last call.
  uint64_t take_lost();

 private:
  Mutex mutex_;
  std::deque<CapturedMessage> kept_ NFSRDMA_GUARDED_BY(mutex_);
  size_t kept_bytes_ NFSRDMA_GUARDED_BY(mutex_) = 0;
  uint64_t lost_ NFSRDMA_GUARDED_BY(mutex_) = 0;
};

}  // namespace nfsrdma::cli
