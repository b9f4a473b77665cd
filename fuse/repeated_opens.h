// SPDX-License-Identifier: Apache-2.0
// RepeatedOpens: detects the second attempt of an open(2) that was answered with ESTALE, and keeps what was
// opened for it.
//
// When open(2) ends with ESTALE, Linux walks the path once more and looks up every name on it (LOOKUP_REVAL).
// ESTALE of the second walk goes to the application. The second walk serves two purposes:
//  - The file was replaced on the server between LOOKUP and OPEN, and other clients may replace it again and
//    again. So the LOOKUP of the second walk opens the file, too, and repeats the lookup if the file is gone.
//  - Another client has changed the file's size. A reply to OPEN carries no attributes to the kernel, and a
//    page fault does not ask for any: a mapping would end at the old size (SIGBUS). The LOOKUP of the second
//    walk carries the attributes.
// A file opened in this way is kept here until that thread's OPEN.
//
// Does not work for threads of other PID namespaces: their thread ID is 0, so they cannot be told apart.
// Owner: Adaptor. Any thread; releases run on the loop that calls.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "client/api/filesystem.h"
#include "fuse/credentials.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::fuse {

// An open(2). Both walks have all of these in common.
struct Opening {
  pid_t thread = 0;
  rpc::CredentialPtr credential;
  int flags = 0;
};

class RepeatedOpens {
 public:
  // How long a kept file waits for its OPEN: the second walk may lead elsewhere.
  static constexpr std::chrono::seconds kPatience{2};
  // How often lookup() repeats for a file that is gone when it is opened.
  static constexpr int kMostTurns = 16;

  explicit RepeatedOpens(client::Filesystem& filesystem) : filesystem_(filesystem) {}

  bool any() const { return count_.load(std::memory_order_acquire) != 0; }
  // The OPEN is being answered with ESTALE, and the kernel will repeat it. Keeps the file that `reply`
  // opened. The thread's ID must not be 0.
  void expect(const Opening& opening, const client::NodeRef& node, const Result<client::OpenReply>& reply);
  // If this OPEN is the repetition, returns when it was expected. `kept` is set if the kept file is the same
  // `node`.
  std::optional<TimePoint> take(const Opening& opening, const client::NodeRef& node,
                                std::optional<client::OpenReply>& kept);
  // Filesystem::lookup(), for a lookup that may belong to a second walk.
  Task<Result<client::Entry>> lookup(client::RequestContext ctx, Caller caller, client::NodeRef directory,
                                     std::string name);
  // The mount ends: releases all kept files.
  void release_all();

 private:
  struct Expected {
    Opening opening;
    client::NodeRef node;     // of the file that was opened
    client::OpenReply reply;  // without a file: nothing was opened
    TimePoint since;
    uint64_t number = 0;
  };

  // The entry of this thread and user, or null.
  Expected* find(pid_t thread, const rpc::Credential& user) NFSRDMA_REQUIRES(mutex_);
  void put(Expected expected);
  void release(Expected expected);
  Task<> release_later(Expected expected);
  Task<> give_up(pid_t thread, uint64_t number);

  client::Filesystem& filesystem_;
  Mutex mutex_;
  std::unordered_map<pid_t, Expected> expected_ NFSRDMA_GUARDED_BY(mutex_);
  uint64_t numbers_ NFSRDMA_GUARDED_BY(mutex_) = 0;
  std::atomic<size_t> count_{0};  // of expected_
};

}  // namespace nfsrdma::fuse
