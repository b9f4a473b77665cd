// SPDX-License-Identifier: Apache-2.0
// WriteExtent and ExtentMap: written data that may not be on the server's stable storage yet (RFC 8881
// section 18.32, RFC 1813 section 4.8). FileWrites (file_writes.h) owns those of one file.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "transport/memory/buffer.h"
#include "transport/rpc/credential.h"
#include "transport/runtime/loop.h"
#include "transport/runtime/state_machine.h"
#include "xdr/nfs4/basic.h"
#include "xdr/nfs4/file_ops.h"

namespace nfsrdma::client {

// The user, the open and the locks that a READ or WRITE relies on.
struct IoAccount {
  std::shared_ptr<void> state;  // the protocol's: NFSv4.1's OpenState; NFSv3 has none
  rpc::CredentialPtr credential;
  std::vector<std::string>
      lock_owners;  // owners of byte-range locks: I/O fails when one of the locks is lost

  bool operator==(const IoAccount& other) const {
    return state == other.state && credential->uid() == other.credential->uid() &&
           lock_owners == other.lock_owners;
  }
};

// The reply to the WRITEs of one piece of data.
struct Written {
  nfs4::stable_how4 committed;
  nfs4::verifier4 verifier;
};

// The states of an extent; file_writes.h has the events. An extent in state kSent, kUnstable, kCommitting or
// kLost may be removed; that is no transition.
struct WriteExtentStates {
  enum class State : uint8_t {
    kNew,         // not one of the file's yet
    kHeld,        // may grow
    kSent,        // a WRITE is under way
    kUnstable,    // answered, and perhaps not on stable storage
    kCommitting,  // a COMMIT is under way
    kLost,        // the server has lost it
  };
  static constexpr const char* kName = "written extent";
  static constexpr std::array kTransitions{
      Transition{State::kNew, State::kHeld},
      Transition{State::kNew, State::kSent},
      Transition{State::kHeld, State::kSent},
      Transition{State::kSent, State::kUnstable},
      Transition{State::kUnstable, State::kCommitting},
      Transition{State::kCommitting, State::kLost},
      Transition{State::kLost, State::kSent},
  };
};

// Data of one WRITE.
struct WriteExtent {
  using State = WriteExtentStates::State;

  uint64_t serial = 0;  // order among the extents of a file
  uint64_t offset = 0;
  Slice data;
  nfs4::verifier4 verifier;  // of the WRITE's reply, if that was not FILE_SYNC4
  IoAccount account;
  TimePoint since{};          // when it was first held
  bool growing = false;       // `data` is at the start of a buffer of its own, which has room behind it
  bool until_answer = false;  // held until the reply to another WRITE of the file, no longer
  StateMachine<WriteExtentStates> state{State::kNew};

  uint64_t end() const { return offset + data.size(); }
};

// Disjoint extents, sorted by offset.
class ExtentMap {
  using Map = std::map<uint64_t, WriteExtent>;

 public:
  using iterator = Map::iterator;
  using const_iterator = Map::const_iterator;

  bool empty() const { return map_.empty(); }
  size_t size() const { return map_.size(); }
  iterator begin() { return map_.begin(); }
  iterator end() { return map_.end(); }
  const_iterator begin() const { return map_.begin(); }
  const_iterator end() const { return map_.end(); }
  void clear() { map_.clear(); }
  void swap(ExtentMap& other) { map_.swap(other.map_); }

  // The first extent with a byte of [offset, end), or end().
  iterator overlapping(uint64_t offset, uint64_t end);
  bool overlaps(uint64_t offset, uint64_t end) { return overlapping(offset, end) != map_.end(); }
  // One past the last byte; 0 when empty.
  uint64_t end_offset() const { return map_.empty() ? 0 : map_.rbegin()->second.end(); }
  uint64_t bytes() const;

  // `extent` must not overlap an extent of this map.
  iterator insert(WriteExtent extent);
  // Moves `extent` from `from` into this map without a copy; references to it stay valid.
  iterator take(ExtentMap& from, iterator extent) { return map_.insert(from.map_.extract(extent)).position; }
  void erase(iterator extent) { map_.erase(extent); }
  template <class Predicate>
  void erase_if(Predicate predicate) {
    std::erase_if(map_, [&](const auto& entry) { return predicate(entry.second); });
  }
  // Removes the bytes of [offset, end). Returns how many bytes it removed.
  uint64_t cut_out(uint64_t offset, uint64_t end);

 private:
  Map map_;
};

}  // namespace nfsrdma::client
