// SPDX-License-Identifier: Apache-2.0
// SendLedger: which work requests of a send queue may still be in it, and which of them ask for a completion.
//
// A completion speaks for all requests before it (InfiniBand Architecture release 1.4 section 10.8.5: send
// queue completions come in order). Asking for each would cost an entry, and an interrupt, a request; asking
// for none would fill the queue. So every `every`-th asks, beside those whose end somebody waits for; with
// `every` no more than half the depth, and no more than half of any resource a request takes, there is always
// one under way that makes room. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

namespace nfsrdma::fabric::verbs {

class SendLedger {
 public:
  SendLedger() = default;
  SendLedger(unsigned depth, unsigned every) : depth_(depth), every_(std::max(every, 1u)) {}

  unsigned depth() const { return depth_; }
  unsigned outstanding() const { return static_cast<unsigned>(next_ - oldest_); }
  bool room() const { return outstanding() < depth_; }

  struct Entry {
    uint64_t number = 0;
    bool signalled = false;
  };
  // One more; there is room.
  Entry add(bool awaited) {
    const bool signalled = awaited || ++silent_ >= every_;
    if (signalled) silent_ = 0;
    return {next_++, signalled};
  }
  // How many requests are over, now that this one is; 0: it was over before, or never was.
  unsigned complete(uint64_t number) {
    if (number < oldest_ || number >= next_) return 0;
    const auto over = static_cast<unsigned>(number - oldest_ + 1);
    oldest_ = number + 1;
    return over;
  }

 private:
  unsigned depth_ = 1;
  unsigned every_ = 1;
  unsigned silent_ = 0;  // since the last one that asks
  uint64_t next_ = 0;
  uint64_t oldest_ = 0;
};

}  // namespace nfsrdma::fabric::verbs
