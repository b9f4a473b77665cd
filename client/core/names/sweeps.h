// SPDX-License-Identifier: Apache-2.0
// Sweeps: batches of LOOKUP or GETATTR replaced by one READDIR. A sweep is for a directory whose files
// applications access one after the other: names that nobody has looked up yet (LOOKUP), or attributes that
// have expired (GETATTR). One READDIR with attributes then fetches many entries (core/sweeper.cc).
//
// A sweep may cost the server as much as the single requests that it replaces, and no more. Each question (a
// LOOKUP or GETATTR), and each swept entry that an application then asks for, earns a credit of kEach
// entries. The third question within a short time pays for the first READDIR. READDIRs start small, double in
// size, and each continues where the last one ended; after the end they start again at the beginning. The
// sweep ends if the directory cannot be read.
//
// Swept entries of unknown files wait for their LOOKUP (WaitingEntry). They are valid like an entry of the
// NameCache, by the directory's epoch, and only for a short time (ClientOptions::brought_names). The reason:
// a user who learns elsewhere about a change to a file, and then looks at it for the first time here, expects
// to see the change. For the same reason a listing makes no negative entries.
//
// One per mount, shared by all loops, one lock (a leaf). Directories are identified by their Nodes, which are
// not owned and call forget() before they are destroyed. At most kMost directories are kept, those with the
// latest questions.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "client/api/node.h"
#include "client/core/names/listed_entry.h"
#include "client/core/names/name_cache.h"
#include "transport/runtime/loop.h"
#include "transport/runtime/mutex.h"
#include "transport/runtime/sync.h"
#include "xdr/nfs4/basic.h"

namespace nfsrdma::client {

struct WaitingEntry {
  ListedEntry entry;  // without its name, which is its key
  NameBelief belief;
};

class Sweep {
 public:
  static constexpr int kFirst = 3;  // questions before the first READDIR
  // Entries earned by each question: one entry of a READDIR is taken to cost a twelfth of a LOOKUP.
  static constexpr int kEach = 12;
  static constexpr int kCall = 2 * kEach;     // the cost of a READDIR besides its entries
  static constexpr int kMostCredit = 256;     // entries
  static constexpr size_t kMostRefused = 16;  // users
  static constexpr uint32_t kFirstBytes = 8u << 10, kDoublings = 4;  // the size of a READDIR's reply

  // For each question, and for each swept entry that answered one.
  void earn() {
    int credit = credit_;
    while (!credit_.compare_exchange_weak(credit, std::min(credit + kEach, kMostCredit))) continue;
  }

  // Held across READDIR.
  AsyncMutex mutex;
  // --- guarded by mutex ---
  bool worth_reading() const { return !over_ && credit_ >= 0; }
  // As above for one user: false if the server refused that user a READDIR.
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
  // A READDIR that ended before `cookie` brought `entries` entries.
  void read_on(uint64_t cookie, const nfs4::verifier4& v, bool eof, size_t entries) {
    credit_ -= static_cast<int>(entries) + kCall;
    go_on_after(cookie, v, eof);
  }
  // Another READDIR of the directory (not of this sweep) ended before `cookie`.
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
  // --- guarded by Sweeps::mutex_ ---
  TimePoint used_{};
  WaitingByName waiting_;
};
using SweepRef = std::shared_ptr<Sweep>;

class Sweeps {
 public:
  static constexpr size_t kMost = 64;
  static constexpr size_t kMostWaiting = 16384;  // in all directories: 6 MiB; with the longest names 16

  // An application asked for a file of the directory. Earns credit.
  SweepRef asked(const Node& directory, TimePoint now, Duration window);
  // The directory's sweep. If its last use is longer than `window` ago, a new one.
  SweepRef at(const Node& directory, TimePoint now, Duration window);
  // The directory's current sweep; null if there is none.
  SweepRef find(const Node& directory, TimePoint now, Duration window);
  void forget(const Node& directory);

  // Keeps complete entries until they are looked up. To make room, drops the entries of the least recently
  // used directories.
  void keep(const Node& directory, std::vector<ListedEntry> entries, const NameBelief& belief);
  // Removes the entry and returns it. The caller checks whether it is valid.
  std::optional<WaitingEntry> take(const Node& directory, std::string_view name);
  // Drops directories without a question for `window`.
  void drop_old(TimePoint now, Duration window);
  size_t waiting() const { return waiting_; }

 private:
  struct Place {
    const Node* directory;
    SweepRef sweep;
  };
  using Places = std::vector<Place>;
  Places::iterator place(const Node& directory) NFSRDMA_REQUIRES(mutex_);
  void drop_waiting(Sweep& sweep) NFSRDMA_REQUIRES(mutex_);
  void erase(Places::iterator at) NFSRDMA_REQUIRES(mutex_);

  Mutex mutex_;
  Places places_ NFSRDMA_GUARDED_BY(mutex_);  // latest first
  std::atomic<size_t> waiting_{0};            // entries of all directories; changed only with mutex_ held
};

}  // namespace nfsrdma::client
