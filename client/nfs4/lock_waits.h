// SPDX-License-Identifier: Apache-2.0
// LockWaits: which lock-owner of this mount waits for which other one, so that a circle is an error (EDEADLK,
// fcntl(2)) and not a wait without end. The server knows of no circles: our waiting is asking again.
//
// Owned by Nfs4Filesystem; any thread. Size: one Wait for each lock that is waited for. Whose lock is in its
// way is of the last answer, so whatever that owner gives up voids it; the next answer writes it again. Each
// owner is looked at once, however many ways lead to it: as many wait as users please.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace nfsrdma::client {

class LockWaits {
 public:
  // One request for a lock, from its first LOCK to its end.
  class Wait {
   public:
    Wait(LockWaits& waits, std::string owner);
    ~Wait();
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;

    // Before each LOCK.
    void ask();
    // `holder` was said to be in the way; "": somebody of another client. True if it waits for our own owner,
    // by itself or through others, and nothing of the circle was given up since ask().
    bool denied(const std::string& holder);

   private:
    friend class LockWaits;
    void set_holder(const std::string& holder);

    LockWaits& waits_;
    const std::string owner_;
    std::string holder_;  // "": not known
    uint64_t asked_ = 0;
  };

  // `owner` holds less, or other locks than before.
  void changed(const std::string& owner);
  // Owners whose changes are remembered: those since the oldest question that is under way, and some more.
  size_t remembered() const;

 private:
  using ByOwner = std::set<std::pair<std::string_view, Wait*>>;

  void forget_old_changes();
  bool leads_to(std::string_view from, std::string_view to) const;

  mutable std::mutex mutex_;
  ByOwner waiting_;                          // by who waits
  ByOwner awaited_;                          // by whom they wait for, where that is known
  std::map<std::string, uint64_t> changes_;  // by owner: when, while anybody waits
  uint64_t clock_ = 0;
  static constexpr size_t kManyChanges = 1024;
  size_t look_at_ = kManyChanges;  // changes, before old ones are looked for again
};

}  // namespace nfsrdma::client
