// Sweeps: directories whose files are asked for their attributes one after the other, because what is known
// of them has grown old. A READDIR with attributes asks for all of them at once (fs_sweep.cc).
//
// A question for one file's old attributes is a miss of its directory. The third within a short while is the
// sweep's first READDIR; every eighth miss more is worth another one, from where the last one ended, and from
// the beginning behind the end: what a sweep costs stays a small part of what it may save. It is over where
// the directory holds far more than what is in use here, or cannot be read.
//
// One per mount, shared by all loops, one lock (a leaf). Directories are told apart by their Nodes, which are
// not owned and call forget() before they die. The directories of the latest misses are kept, kMost at most.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "client/node.h"
#include "transport/runtime/loop.h"
#include "transport/runtime/sync.h"
#include "xdr/nfs4/basic.h"

namespace nfsrdma::client {

struct Sweep {
  static constexpr unsigned kFirst = 3;  // misses before the first READDIR
  static constexpr unsigned kEach = 8;   // and more before each other
  // Of the entries that a READDIR brings at least so many must have been known, and old.
  static constexpr size_t kLeastShare = 16;  // one of these

  std::atomic<unsigned> misses{0};
  // --- guarded by the Sweeps' lock ---
  TimePoint since{};
  // Held across READDIR.
  AsyncMutex mutex;
  // --- guarded by it ---
  unsigned reads = 0;
  uint64_t next = 0;  // cookie
  nfs4::verifier4 verifier;
  bool over = false;

  bool worth_reading() const { return !over && misses >= kFirst + kEach * reads; }
  // A READDIR that ended before `cookie` has brought `known` files' attributes in place of old ones.
  void read_on(uint64_t cookie, const nfs4::verifier4& v, bool eof, size_t entries, size_t known) {
    ++reads;
    next = eof ? 0 : cookie;
    verifier = v;
    over = known * kLeastShare < entries;
  }
};
using SweepRef = std::shared_ptr<Sweep>;

class Sweeps {
 public:
  static constexpr size_t kMost = 64;

  // A miss of the directory: its sweep, or nothing while it is too early for one. Misses `window` after the
  // first one begin anew.
  SweepRef missed(const Node& directory, TimePoint now, Duration window);
  // A sweep of the directory that has begun in another way, instead of what is known of one.
  void put(const Node& directory, SweepRef sweep);
  void forget(const Node& directory);

 private:
  struct Place {
    const Node* directory;
    SweepRef sweep;
  };
  // In front, with mutex_ held.
  Place& place(const Node& directory);

  std::mutex mutex_;
  std::vector<Place> places_;  // the latest first
};

}  // namespace nfsrdma::client
