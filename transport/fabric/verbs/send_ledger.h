// SPDX-License-Identifier: Apache-2.0
// SendLedger: which work requests of a send queue may still be in it, and which of them request a completion.
//
// A completion also covers all requests before it (InfiniBand Architecture release 1.4 section 10.8.5: send
// queue completions come in order). A completion for each request would cost an entry and an interrupt each;
// no completions at all would fill the queue. So every `every`-th request asks for one, in addition to those
// whose end somebody waits for. `every` must be at most half of the depth, and half of any resource that a
// request takes: then an outstanding request always makes room. Pure.
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
  // Adds a request; room() must be true.
  Entry add(bool awaited) {
    const bool signalled = awaited || ++silent_ >= every_;
    if (signalled) silent_ = 0;
    return {next_++, signalled};
  }
  // The number of requests that have ended, now that `number` has; 0: it had ended before, or never existed.
  unsigned complete(uint64_t number) {
    if (number < oldest_ || number >= next_) return 0;
    const auto over = static_cast<unsigned>(number - oldest_ + 1);
    oldest_ = number + 1;
    return over;
  }

 private:
  unsigned depth_ = 1;
  unsigned every_ = 1;
  unsigned silent_ = 0;  // requests since the last one that asked for a completion
  uint64_t next_ = 0;
  uint64_t oldest_ = 0;
};

}  // namespace nfsrdma::fabric::verbs
