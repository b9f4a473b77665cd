// SPDX-License-Identifier: Apache-2.0
// SequenceWindow: which sequence numbers a server has seen in one context (RFC 2203 section 5.3.3.1).
//
// The window ends at the highest number that was accepted and reaches back by its size. A server judges a
// call before it verifies the checksum of the header, to save that work for what it will discard anyway
// (section 7.2.2), and accepts the number afterwards: an unverified call must not move the window. Pure, no
// I/O; owned by the context; one thread or lock, that of its owner. At most MAXSEQ is ever stored, so nothing
// overflows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "xdr/rpcsec_gss.h"

namespace nfsrdma::security {

class SequenceWindow {
 public:
  enum class Verdict : uint8_t {
    kNew,          // serve it
    kReplay,       // seen before: discard the call silently
    kBelowWindow,  // too old to tell: discard the call silently
    kAboveMax,     // above MAXSEQ: RPCSEC_GSS_CTXPROBLEM, the client needs a new context
  };

  // `size`: seq_window of rpc_gss_init_res, at least 1.
  explicit SequenceWindow(uint32_t size) : seen_(std::max<uint32_t>(size, 1)) {}

  uint32_t size() const { return static_cast<uint32_t>(seen_.size()); }

  Verdict judge(uint32_t seq_num) const {
    if (seq_num > rpc::MAXSEQ) return Verdict::kAboveMax;
    if (empty_ || seq_num > highest_) return Verdict::kNew;
    if (highest_ - seq_num >= size()) return Verdict::kBelowWindow;
    return seen_[seq_num % size()] ? Verdict::kReplay : Verdict::kNew;
  }

  // Judges again, because another call may have come between, and remembers what is new.
  Verdict accept(uint32_t seq_num) {
    const Verdict verdict = judge(seq_num);
    if (verdict != Verdict::kNew) return verdict;
    if (empty_ || seq_num > highest_) move_to(seq_num);
    seen_[seq_num % size()] = true;
    return verdict;
  }

 private:
  // The numbers that enter the window take the places of those that leave it.
  void move_to(uint32_t seq_num) {
    if (empty_ || seq_num - highest_ >= size()) {
      std::fill(seen_.begin(), seen_.end(), false);
    } else {
      for (uint32_t entering = highest_ + 1; entering <= seq_num; ++entering)
        seen_[entering % size()] = false;
    }
    highest_ = seq_num;
    empty_ = false;
  }

  std::vector<bool> seen_;  // by number modulo size
  uint32_t highest_ = 0;
  bool empty_ = true;  // nothing accepted yet: a client may begin anywhere
};

}  // namespace nfsrdma::security
