// SPDX-License-Identifier: Apache-2.0
// SizeDoubts: files of which the kernel may not have taken the size that it was told last.
//
// Linux ignores the attributes of an answer when it was told to forget something of that file after it had
// asked (fuse_change_attributes): the answer may be of before. The size of before then stays, until it asks
// again; a page fault does not. So each notification of a file begins a doubt, which ends with an answer to a
// question that came after it. Any thread.
#pragma once

#include <atomic>
#include <mutex>
#include <unordered_map>

#include "client/node.h"
#include "transport/runtime/loop.h"

namespace nfsrdma::fuse {

class SizeDoubts {
 public:
  // How long a question may have been on its way to us.
  static constexpr std::chrono::milliseconds kMargin{5};
  // Files. Beyond that all are forgotten.
  static constexpr size_t kMost = 65536;

  // The kernel was told to forget something of the file, and has.
  void begin(const client::Node& node, TimePoint now);
  // It was told the size, in answer to a question that came at `asked`.
  void told(const client::Node& node, TimePoint asked) { end(node, asked - kMargin); }
  // The same, of a question that it asked after `then`.
  void end(const client::Node& node, TimePoint then);
  bool about(const client::Node& node);

 private:
  std::mutex mutex_;
  std::unordered_map<const client::Node*, TimePoint> since_;
  std::atomic<size_t> count_{0};  // of since_
};

}  // namespace nfsrdma::fuse
