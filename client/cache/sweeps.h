// SPDX-License-Identifier: Apache-2.0
// Sweeps: directories whose files are asked for one after the other, by names that nobody has asked for yet
// (LOOKUP), or because what is known of them has grown old (GETATTR). A READDIR with attributes asks for many
// at once (fs_sweep.cc).
//
// What a sweep reads may cost the server as much as what it was asked for one by one, and no more: each
// question, and each file that a READDIR had brought and somebody then asked for, is worth kEach entries of
// READDIRs; the third question within a short while is worth the first. READDIRs begin small, double, and go
// on from where the last one ended; behind the end, from the beginning. It is over where the directory cannot
// be read.
//
// Files that a READDIR brought and nobody here knows wait for their LOOKUP (WaitingEntry). They hold as an
// entry of the NameCache does, by its directory's epoch, and briefly (ClientOptions::brought_names): who was
// told elsewhere of a change to a file that nobody here has asked for yet expects to see it. That a name is
// absent follows from no listing for the same reason.
//
// One per mount, shared by all loops, one lock (a leaf). Directories are told apart by their Nodes, which are
// not owned and call forget() before they die. The directories of the latest questions are kept, kMost at
// most.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "client/cache/listed_entry.h"
#include "client/cache/name_cache.h"
#include "client/node.h"
#include "transport/runtime/loop.h"
#include "transport/runtime/sync.h"
#include "xdr/nfs4/basic.h"

namespace nfsrdma::client {

struct WaitingEntry {
  ListedEntry entry;  // without its name, by which it is found
  NameBelief belief;
};

class Sweep {
 public:
  static constexpr int kFirst = 3;  // questions before the first READDIR
  // Entries for each question: one of a READDIR is taken to cost a twelfth of a LOOKUP.
  static constexpr int kEach = 12;
  static constexpr int kCall = 2 * kEach;                            // what a READDIR costs besides
  static constexpr int kMostCredit = 256;                            // entries
  static constexpr size_t kMostRefused = 16;                         // users
  static constexpr uint32_t kFirstBytes = 8u << 10, kDoublings = 4;  // of a READDIR's answer

  // A question, or an answer that somebody asked for.
  void earn() {
    int credit = credit_;
    while (!credit_.compare_exchange_weak(credit, std::min(credit + kEach, kMostCredit))) continue;
  }

  // Held across READDIR.
  AsyncMutex mutex;
  // --- guarded by it ---
  bool worth_reading() const { return !over_ && credit_ >= 0; }
  // The same of a user: whom the server has refused a READDIR reads no more of them.
  bool worth_reading(uint32_t uid) const {
    return worth_reading() && std::find(refused_.begin(), refused_.end(), uid) == refused_.end();
  }
  void refuse(uint32_t uid) {
    if (refused_.size() == kMostRefused) return end();
    refused_.push_back(uid);
  }
  uint64_t next() const { return next_; }  // cookie
  const nfs4::verifier4& verifier() const { return verifier_; }
  uint32_t reply_bytes() const { return kFirstBytes << doublings_; }
  // A READDIR that ended before `cookie` has brought so many entries.
  void read_on(uint64_t cookie, const nfs4::verifier4& v, bool eof, size_t entries) {
    credit_ -= static_cast<int>(entries) + kCall;
    go_on_after(cookie, v, eof);
  }
  // One was read for another reason.
  void go_on_after(uint64_t cookie, const nfs4::verifier4& v, bool eof) {
    next_ = eof ? 0 : cookie;
    verifier_ = v;
    doublings_ = eof ? 0 : std::min(doublings_ + 1, kDoublings);
  }
  void end() { over_ = true; }

 private:
  friend class Sweeps;
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view name) const { return std::hash<std::string_view>{}(name); }
  };
  using WaitingByName = std::unordered_map<std::string, WaitingEntry, Hash, std::equal_to<>>;

  std::atomic<int> credit_{-kFirst * kEach};
  uint64_t next_ = 0;
  nfs4::verifier4 verifier_;
  uint32_t doublings_ = 0;
  bool over_ = false;
  std::vector<uint32_t> refused_;
  // --- guarded by the Sweeps' lock ---
  TimePoint used_{};
  WaitingByName waiting_;
};
using SweepRef = std::shared_ptr<Sweep>;

class Sweeps {
 public:
  static constexpr size_t kMost = 64;
  static constexpr size_t kMostWaiting = 16384;  // of all directories: 6 MiB, with the longest names 16

  // A file of the directory was asked for, or one that a READDIR had brought was of use.
  SweepRef asked(const Node& directory, TimePoint now, Duration window);
  // The directory's sweep; where the last was longer than `window` ago, a new one.
  SweepRef at(const Node& directory, TimePoint now, Duration window);
  // What is going on in the directory, if anything is.
  SweepRef find(const Node& directory, TimePoint now, Duration window);
  void forget(const Node& directory);

  // Keeps complete entries until they are looked up. Those of the directories that were not asked for longest
  // make room.
  void keep(const Node& directory, std::vector<ListedEntry> entries, const NameBelief& belief);
  // It waits no more, whether it is good or not.
  std::optional<WaitingEntry> take(const Node& directory, std::string_view name);
  // Forgets directories where nobody has asked for anything for `window`.
  void drop_old(TimePoint now, Duration window);
  size_t waiting() const { return waiting_; }

 private:
  struct Place {
    const Node* directory;
    SweepRef sweep;
  };
  using Places = std::vector<Place>;
  // With mutex_ held.
  Places::iterator place(const Node& directory);
  void drop_waiting(Sweep& sweep);
  void erase(Places::iterator at);

  std::mutex mutex_;
  Places places_;                   // the latest first
  std::atomic<size_t> waiting_{0};  // entries in all of them; changed with mutex_ held
};

}  // namespace nfsrdma::client
