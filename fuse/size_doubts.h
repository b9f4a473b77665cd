// SPDX-License-Identifier: Apache-2.0
// SizeDoubts: files whose latest size the kernel may have ignored.
//
// Linux ignores the attributes in an answer if a notification for the file arrived after the question was
// sent (fuse_change_attributes), because the answer may be older than the notification. The old size then
// stays until the kernel asks again, and a page fault does not ask. So each notification of a file begins a
// doubt. The answer to a question that was sent after the notification ends it. Any thread.
#pragma once

#include <atomic>
#include <unordered_map>

#include "client/api/node.h"
#include "transport/runtime/loop.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::fuse {

class SizeDoubts {
 public:
  // How long a question may have been on its way from the kernel to us.
  static constexpr std::chrono::milliseconds kMargin{5};
  // The most files. Beyond that all are forgotten.
  static constexpr size_t kMost = 65536;

  // A notification of the file has been sent.
  void begin(const client::Node& node, TimePoint now);
  // The kernel was told the size, in answer to a question that we read at `asked`.
  void told(const client::Node& node, TimePoint asked) { end(node, asked - kMargin); }
  // The kernel was told the size, in answer to a question that it sent after `then`.
  void end(const client::Node& node, TimePoint then);
  bool about(const client::Node& node);

 private:
  Mutex mutex_;
  std::unordered_map<const client::Node*, TimePoint> since_ NFSRDMA_GUARDED_BY(mutex_);
  std::atomic<size_t> count_{0};  // of since_
};

}  // namespace nfsrdma::fuse
