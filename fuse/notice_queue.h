// SPDX-License-Identifier: Apache-2.0
// NoticeQueue: of which nodes the kernel is to be told, and in which order; for the Invalidator, under its
// mutex.
//
// What is asked twice for a node before its turn has come is one notice. Of a node whose notice is being told
// the next one waits until told(): it may have come too late for what was asked meanwhile, and a node whose
// pages the kernel waits for never takes more than one thread. Beyond that the order is that of asking.
//
// At most `most` notices wait that nobody waits for; beyond that (the kernel is stuck behind a dead filer,
// and delegations are recalled) they become one wish, everything that the kernel knows. What somebody waits
// for stays by itself: there are no more of those than requests under way, and none of them shall wait for
// pages of all files. Nothing asked for is ever lost.
//
// References that it lets go are handed out, for what a Node's last one sets off must not run under a mutex.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "client/node.h"
#include "transport/runtime/sync.h"

namespace nfsrdma::fuse {

class NoticeQueue {
 public:
  // Shared: set() may still run when its waiter has gone on.
  using Done = std::shared_ptr<Completion<bool>>;
  struct Notice {
    client::NodeRef node;
    bool data = false;  // pages too, not only attributes
    std::vector<Done> waiting;
  };
  struct Numbers {
    uint64_t sent = 0, merged = 0, floods = 0;
  };

  explicit NoticeQueue(size_t most) : most_(most) {}

  // Returns what became part of everything.
  std::vector<Notice> ask(client::NodeRef node, bool data, Done done);

  // Whether take() or take_flood() has something to do.
  bool ready() const { return (everything_ && !gathering_) || !order_.empty() || !rest_.empty(); }
  // Nothing when all that is asked for is of nodes that are being told.
  std::optional<Notice> take();
  void told(const client::Node* node);

  // Whether everything is wanted, and none of it on its way: the caller says what that is, with set_rest().
  bool take_flood();
  void set_rest(std::vector<client::NodeRef> everything);

  // Forgets all that waits, and returns it.
  std::vector<Notice> clear();
  const Numbers& numbers() const { return numbers_; }

 private:
  bool put(client::NodeRef node, bool data, Done done);
  std::vector<Notice> flood();

  const size_t most_;
  std::deque<const client::Node*> order_;  // of those in notices_ that are not being told
  std::unordered_map<const client::Node*, Notice> notices_;
  std::unordered_set<const client::Node*> telling_;
  size_t waited_for_ = 0;  // of notices_
  bool everything_ = false;
  bool everything_has_data_ = false;   // some of it wanted more than attributes to go
  bool gathering_ = false;             // between take_flood() and set_rest()
  std::vector<client::NodeRef> rest_;  // of everything
  bool rest_has_data_ = false;
  Numbers numbers_;
};

}  // namespace nfsrdma::fuse
