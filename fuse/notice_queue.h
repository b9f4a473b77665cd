// SPDX-License-Identifier: Apache-2.0
// NoticeQueue: the nodes whose attributes or pages the kernel must drop, in order. Part of the Invalidator;
// its mutex is held for every call.
//
// Two requests for a node become one notice as long as the notice has not been taken. While a node's notice
// is being sent, the next one of that node waits until told(): the one being sent may be too early for the
// later request. So a node whose pages are locked occupies one thread at most. Apart from that, notices are
// sent in the order of the requests.
//
// The queue holds at most `most` notices that no coroutine waits for. Beyond that (the kernel is blocked
// behind a dead server while delegations are recalled) they are replaced by one flood: a notice for every
// node the kernel knows. A notice that a coroutine waits for stays separate. There are at most as many of
// these as requests in progress, and none of them should wait for the pages of all files. No request is ever
// lost.
//
// The queue returns the NodeRefs that it drops, because releasing a Node's last reference must not run under
// a mutex.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "client/api/node.h"
#include "transport/runtime/sync.h"

namespace nfsrdma::fuse {

class NoticeQueue {
 public:
  // Shared, because set() may still run when the waiter has resumed.
  using Done = std::shared_ptr<Completion<bool>>;
  struct Notice {
    client::NodeRef node;
    bool data = false;  // drop pages too, not only attributes
    std::vector<Done> waiting;
  };
  struct Numbers {
    uint64_t sent = 0, merged = 0, floods = 0;
  };

  explicit NoticeQueue(size_t most) : most_(most) {}

  // Returns the notices that became part of a flood.
  std::vector<Notice> ask(client::NodeRef node, bool data, Done done);

  // Whether take() or take_flood() would return something.
  bool ready() const { return (everything_ && !gathering_) || !order_.empty() || !rest_.empty(); }
  // Nothing when all requested nodes have a notice that is being sent.
  std::optional<Notice> take();
  void told(const client::Node* node);

  // Whether a flood is wanted and none is being gathered or sent. The caller then lists the nodes with
  // set_rest().
  bool take_flood();
  void set_rest(std::vector<client::NodeRef> everything);

  // Drops all waiting notices and returns them.
  std::vector<Notice> clear();
  const Numbers& numbers() const { return numbers_; }

 private:
  bool put(client::NodeRef node, bool data, Done done);
  std::vector<Notice> flood();

  const size_t most_;
  std::deque<const client::Node*> order_;  // nodes of notices_ without a notice that is being sent
  std::unordered_map<const client::Node*, Notice> notices_;
  std::unordered_set<const client::Node*> telling_;
  size_t waited_for_ = 0;  // notices of notices_ that a coroutine waits for
  bool everything_ = false;
  bool everything_has_data_ = false;   // some notice of the flood drops pages
  bool gathering_ = false;             // between take_flood() and set_rest()
  std::vector<client::NodeRef> rest_;  // of the flood: nodes not yet queued
  bool rest_has_data_ = false;
  Numbers numbers_;
};

}  // namespace nfsrdma::fuse
