// SPDX-License-Identifier: Apache-2.0
// FileWrites: the written data of one open file until the server has it on stable storage, the order of its
// writes, and the errors of writing it.
//
// A monitor. An event changes the state and returns, as a plain struct, what the caller has to do. There is
// no I/O and no clock. For now there is no lock of its own either: the caller holds the mutex of the file's
// Node (written_bytes.h), and acts on the result after it has released the mutex. Any loop.
//
// The states of an extent. No two extents of a file overlap, so an extent that is sent again after a restart
// of the server never brings older bytes back (RFC 8881 section 18.3.4 and RFC 1813 section 3.3.21 leave that
// order to the client).
//
//   state       event                                               next state (WriteExtentStates)
//   -           hold(): small, or the server is busy                held
//   -           admit(): no earlier write overlaps it               sent
//   held        join(): data next to it was written                 held
//   held        take_...(), or another event returns it in Sends    sent
//   sent        answered(): FILE_SYNC4                              gone
//   sent        answered(): less                                    unstable
//   sent        answered(): error                                   gone; the error is kept
//   unstable    begin_commit()                                      committing
//   unstable    give_up_commit(): another verifier every time       gone; the error is kept
//   committing  committed(): the verifier of its WRITE              gone
//   committing  committed(): another verifier                       lost
//   committing  committed(): error                                  gone; the error is kept
//   lost        take_lost()                                         sent, as FILE_SYNC4
//   unstable, committing, lost: new data overlaps it                the overlapped bytes are gone
//
// No other write overlaps a held extent: a new write joins it, or sends it and waits.
//
// Rules for the caller:
//   - When join(), hold(), admit() or take_lost() takes data, remove its range [offset, end) from the data
//     cache before the mutex is released. A coroutine that fills the cache calls writing() and begins the
//     fill under one hold of the mutex, so that either it sees the write, or the removal drops its fill.
//   - Record the attributes of a WRITE's reply before answered(), and read written_end() together with the
//     attributes under the mutex: otherwise both can be too small, and the kernel cuts off what was written.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <set>

#include "client/core/write/held_extents.h"
#include "client/core/write/write_extents.h"
#include "transport/runtime/sync.h"
#include "xdr/support/result.h"

namespace nfsrdma::client {

class FileWrites {
 public:
  // An extent for which a WRITE is sent. Valid until answered().
  using Extent = ExtentMap::iterator;

  // Held extents that are sent from now on: the caller sends a WRITE for each, UNSTABLE4.
  class Sends {
   public:
    const Extent* begin() const { return extents_.data(); }
    const Extent* end() const { return extents_.data() + size_; }
    bool empty() const { return size_ == 0; }
    void add(Extent extent) { extents_[size_++] = extent; }

   private:
    std::array<Extent, HeldExtents::kMax> extents_{};
    size_t size_ = 0;
  };

  // Whether the caller may go on.
  enum class Gate : uint8_t {
    kOpen,
    kWait,   // wait for changed(), then ask again
    kAgain,  // send what is in Sends, then ask again
  };

  struct Bytes {
    uint64_t unanswered = 0;   // held or sent
    uint64_t uncommitted = 0;  // unstable, committing or lost
    bool operator==(const Bytes&) const = default;
  };

  FileWrites() = default;
  FileWrites(const FileWrites&) = delete;
  FileWrites& operator=(const FileWrites&) = delete;

  // Notified when an extent is answered, a COMMIT is over, or a waiting write leaves. Wait with the mutex.
  WaitQueue& changed() { return changed_; }

  // --- write(2) through memory ---
  struct NewData {
    const IoAccount& account;
    uint64_t offset;
    const Slice& data;
    uint32_t wsize;
    uint64_t end() const { return offset + data.size(); }
  };
  // What became of the data:
  //   kJoined     it is part of a held extent now (and see "Rules for the caller")
  //   kNeedsRoom  to join, it needs a buffer of `room` bytes: call again with one as `larger`
  //   kApart      it cannot join a held extent
  //
  //   may join (1)  follows in memory  size         result
  //   no            *                  *            kApart
  //   yes           yes                *            kJoined
  //   yes           no                 >= 64 KiB    kApart
  //   yes           no                 less         kJoined, kNeedsRoom, or kApart beyond 1 MiB
  //   (1) A held extent of the same account contains `offset` or ends there, both fit into wsize, the data
  //   that extends the held extent overlaps no unanswered data, and no write waits.
  struct Joined {
    enum class Result : uint8_t { kApart, kJoined, kNeedsRoom } result = Result::kApart;
    size_t room = 0;
    Sends send;
  };
  Joined join(const NewData& data, BufferRef larger);
  // For data that is kApart. First takes held extents, which the caller sends, whether the data is then held
  // or not: every held extent if the data has 64 KiB or more; otherwise those that touch the data, and the
  // oldest if four are held. Then the data becomes a held extent of its own, unless
  //   - a write waits, or unanswered data overlaps it,
  //   - or it has 64 KiB or more, and fewer than two WRITEs are under way (those just taken count).
  // If `held` is true, see "Rules for the caller".
  struct Held {
    bool held = false;
    Sends send;
  };
  Held hold(const NewData& data, TimePoint now);

  // --- a write(2) that is sent by itself: in its turn among the others that overlap it ---
  struct Waiting {
    uint64_t offset, end;
    uint64_t serial;
  };
  // The place of a write(2) among the writes that overlap it, from the first admit() to leave().
  struct Place {
    uint64_t offset, end;
    std::optional<std::list<Waiting>::iterator> waiting = std::nullopt;  // once it had to wait
  };
  struct Admission {
    Gate gate = Gate::kOpen;
    Sends send;
    Extent extent{};  // kOpen: the caller sends a WRITE of it (and see "Rules for the caller")
  };
  // `extent`, a part of the write(2) at `place`, is moved from when the gate is open.
  Admission admit(Place& place, WriteExtent& extent);
  // Every part is sent.
  void leave(Place& place);

  // --- sending what is held ---
  Sends take_held();
  Sends take_held_since(TimePoint before);
  // If one held extent is the only data of the file that is unanswered or unstable, takes it: the caller
  // sends it as FILE_SYNC4. With `user`, it goes into a COMPOUND with a request of that user: then it must be
  // small and of the same user, and no COMMIT may be under way.
  std::optional<Extent> take_only(const rpc::Credential* user = nullptr);
  // take_only() of an extent at offset 0.
  std::optional<Extent> take_whole_file();

  // --- replies to WRITE ---
  struct Answered {
    std::optional<uint64_t> refused;  // bytes that are given up; latest_error() says why
    Sends send;
    ExtentMap freed;  // destroyed after the mutex is released
  };
  // `epoch`: of the server when the WRITE was sent.
  Answered answered(Extent extent, Result<Written> reply, uint64_t epoch, TimePoint now);

  // --- COMMIT: one at a time, from begin_commit() to end_commit() ---
  struct Commit {
    rpc::CredentialPtr credential;  // of a writer: the caller of fsync(2) may not be allowed to COMMIT
    uint64_t offset, end;
  };
  // Nothing: no extent is unstable.
  std::optional<Commit> begin_commit();
  struct Committed {
    std::optional<uint64_t> refused;  // bytes that are given up; latest_error() says why
    bool lost = false;                // the server lost data: take_lost(), then COMMIT again
  };
  Committed committed(Result<nfs4::verifier4> reply);
  // Takes the next lost extent, which the caller sends again, as FILE_SYNC4 (and see "Rules for the caller").
  std::optional<Extent> take_lost();
  void end_commit();
  // The server changed its verifier too often: gives up the unstable data, and returns its bytes.
  std::optional<uint64_t> give_up_commit();
  // At most one COMMIT in the background. False: there is one.
  bool begin_background_commit();
  void end_background_commit();
  bool background_commit() const { return background_commit_; }

  // --- waiting for data ---
  struct Clearance {
    Gate gate = Gate::kOpen;
    Sends send;
  };
  // kOpen: no unanswered extent overlaps [offset, end).
  Clearance clearance(uint64_t offset, uint64_t end);
  // Everything that was written before next_serial() returned `serial` is answered.
  uint64_t next_serial() const { return next_serial_; }
  bool answered_before(uint64_t serial) const { return under_way_.empty() || *under_way_.begin() >= serial; }
  // Whether the server of `epoch` has the written data that a restart may have lost.
  enum class Restored : uint8_t {
    kYes,
    kWait,    // the COMMIT in progress will show it: wait for changed(), then ask again
    kCommit,  // send COMMIT: it shows what is lost, and that is sent again
  };
  Restored restored(uint64_t epoch) const;
  // A READ of [offset, end) may be sent to the server of `epoch`: it has every byte that was written there.
  bool readable(uint64_t offset, uint64_t end, uint64_t epoch) {
    return !writes_.overlaps(offset, end) && restored(epoch) == Restored::kYes;
  }

  // --- what is known ---
  // Written data awaits its reply.
  bool writing() const { return !writes_.empty(); }
  bool holding() const { return !held_.empty(); }
  // Data was answered and is not on stable storage yet.
  bool uncommitted() const { return !unstable_.empty() || committing_epoch_ != 0; }
  // Some data is not on stable storage yet.
  bool unsaved() const { return writing() || !waiting_.empty() || uncommitted(); }
  bool unstable_since(TimePoint before) const { return !unstable_.empty() && unstable_since_ <= before; }
  uint64_t unstable_bytes() const { return unstable_bytes_; }
  Bytes bytes() const { return {unanswered_bytes_, unstable_bytes_ + committing_bytes_}; }
  // One past the last unanswered byte; 0 if there is none.
  uint64_t unanswered_end() const { return writes_.end_offset(); }
  // The size that the file has at least, whatever the server of `epoch` says. Unanswered data counts. Data
  // that was answered in an earlier epoch counts, because the server may have lost it. Data that was answered
  // in this epoch does not: another client may have truncated the file since.
  uint64_t written_end(uint64_t epoch) const;

  // --- errors: each descriptor reports those that came after it was opened or last reported one ---
  uint64_t errors() const { return errors_; }
  const Error& latest_error() const { return latest_error_; }

  // Visits every extent; for tests.
  void each(const std::function<void(const WriteExtent&)>& visit) const;
  // The rules that hold between two events; for tests.
  bool consistent() const;

 private:
  size_t sent() const { return writes_.size() - held_.size(); }
  WriteExtent* joinable(const NewData& data);
  Joined joined(WriteExtent& held, size_t bytes);
  bool must_wait(const Place& place) const;
  Extent add(WriteExtent extent, WriteExtent::State state, std::optional<uint64_t> serial);
  void overwrite(uint64_t offset, uint64_t end);
  template <class Which>
  Sends take_if(const Which& which);
  Sends take_held_until_answer();
  uint64_t refuse(Error error, uint64_t bytes);

  ExtentMap writes_;            // held and sent
  HeldExtents held_;            // of writes_
  ExtentMap unstable_;          // answered, less than FILE_SYNC4
  ExtentMap committing_;        // a COMMIT is under way, or lost
  std::list<Waiting> waiting_;  // write(2)s that wait for earlier ones, in their order
  std::multiset<uint64_t>
      under_way_;  // serials of writes_ and waiting_; the parts of a waiting write share its serial
  uint64_t next_serial_ = 1;
  WaitQueue changed_;
  TimePoint unstable_since_{};     // of the oldest of unstable_
  uint64_t unstable_epoch_ = 0;    // the earliest of unstable_
  uint64_t committing_epoch_ = 0;  // the earliest of committing_; 0: no COMMIT is under way
  bool background_commit_ = false;
  uint64_t unanswered_bytes_ = 0;  // of writes_
  uint64_t unstable_bytes_ = 0;    // of unstable_
  uint64_t committing_bytes_ = 0;  // of committing_
  Error latest_error_;
  uint64_t errors_ = 0;
};

}  // namespace nfsrdma::client
