// SPDX-License-Identifier: Apache-2.0
// RepeatedOpens: opens that the kernel makes twice.
//
// When open(2) ends with ESTALE, Linux walks its path once more and asks for every name on it (LOOKUP_REVAL);
// ESTALE of the second walk is the application's. Two things are had by that:
//  - The file was replaced on the server. By the time that OPEN arrives after its LOOKUP, it may have been
//    replaced again, as often as somebody else likes. So the second walk's LOOKUP opens the file, too, and
//    looks again when it finds it gone.
//  - Another client has changed the file's size. An answer to OPEN brings no attributes, and a page fault
//  asks
//    for none: a mapping would end where the file did before (SIGBUS). The second walk's LOOKUP brings them.
// What was opened meanwhile waits here for that thread's OPEN.
//
// Not for threads of other PID namespaces, which have no number here: they are not told apart. Owner:
// Adaptor. Any thread; releases run on the loop that calls.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "client/filesystem.h"
#include "fuse/credentials.h"

namespace nfsrdma::fuse {

// An open(2): both its walks have all of this in common.
struct Opening {
  pid_t thread = 0;
  rpc::CredentialPtr credential;
  int flags = 0;
};

class RepeatedOpens {
 public:
  // How long something waits that nobody comes for: the second walk may lead elsewhere.
  static constexpr std::chrono::seconds kPatience{2};
  // Files in a row that are gone when they are opened.
  static constexpr int kMostTurns = 16;

  explicit RepeatedOpens(client::Filesystem& filesystem) : filesystem_(filesystem) {}

  bool any() const { return count_.load(std::memory_order_acquire) != 0; }
  // It is answered with ESTALE and will be made again; what `reply` has opened, of `node`, waits for that.
  // Its thread has a number.
  void expect(const Opening& opening, const client::NodeRef& node, const Result<client::OpenReply>& reply);
  // It is the second one: since when it was expected, and in `kept` what waits for it, if that is of the same
  // file.
  std::optional<TimePoint> take(const Opening& opening, const client::NodeRef& node,
                                std::optional<client::OpenReply>& kept);
  // Filesystem::lookup(), of which the second walk may be made.
  Task<Result<client::Entry>> lookup(client::RequestContext ctx, Caller caller, client::NodeRef directory,
                                     std::string name);
  // The mount ends.
  void release_all();

 private:
  struct Expected {
    Opening opening;
    client::NodeRef node;     // that is open
    client::OpenReply reply;  // without a file: nothing is
    TimePoint since;
    uint64_t number = 0;
  };

  // That of this thread and user, if there is one. mutex_ held.
  Expected* find(pid_t thread, const rpc::Credential& user);
  void put(Expected expected);
  void release(Expected expected);
  Task<> release_later(Expected expected);
  Task<> give_up(pid_t thread, uint64_t number);

  client::Filesystem& filesystem_;
  std::mutex mutex_;  // guards what follows
  std::unordered_map<pid_t, Expected> expected_;
  uint64_t numbers_ = 0;
  std::atomic<size_t> count_{0};  // of expected_
};

}  // namespace nfsrdma::fuse
