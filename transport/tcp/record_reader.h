// SPDX-License-Identifier: Apache-2.0
// RecordReader: splits a byte stream into RPC messages (RFC 5531 section 11). It also says where to receive
// the next bytes: into a staging buffer, or directly into the memory of a reply's bulk item.
//
// A pure state machine without I/O. `window()` names the memory; the caller receives into it, reports the
// number of bytes by `commit(n)`, and calls `next()` until kNeedBytes. Between two calls of next() the state
// is complete, so the receiver of a message may do anything, even destroy the reader. Any chunking of the
// stream gives the same messages.
//
// All input from the peer is hostile. Memory is allocated for bytes that have arrived, never for a length
// that is only claimed, except what a call has asked for (Expected::room). A record is limited by
// max_record_bytes, a call from the server by kMaxCallBytes, and the number of empty fragments in a record by
// kMaxEmptyFragments. A broken stream is kViolation: nothing after it can be understood. A valid record whose
// reply does not fit its sink is delivered with `defect` set; the connection goes on.
//
// Owner: one connection, its loop only.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "transport/rpc/connection.h"
#include "xdr/record_mark.h"
#include "xdr/support/bytes.h"

namespace nfsrdma::tcp {

// What is known of the call that a reply claims to answer.
struct Expected {
  enum class Kind : uint8_t {
    kUnknown,    // no such call
    kAbandoned,  // its caller has given up: skip the reply, without a complaint
    kEarly,      // its call has not been sent completely: the peer is broken
    kAwaited,
  };
  Kind kind = Kind::kUnknown;
  const rpc::Sink* sink = nullptr;  // kAwaited: valid during the call of expect(); null or empty: no bulk
                                    // item expected, or the reply is taken whole
  // kAwaited without a sink: the longest reply that was asked for, if it may be long. The reader makes room
  // for that much of it at once.
  size_t room = 0;
};

// Finds the call of a reply. Asked once for each reply, as soon as its XID is known.
class ReplyDirectory {
 public:
  virtual Expected expect(uint32_t xid) = 0;
  // Returns how many bytes (from the XID on) come before a bulk item that should be received in place, so
  // that the reader does not receive many more at once. 0: no reply with such an item is due.
  virtual size_t prefix_hint() const = 0;

 protected:
  ~ReplyDirectory() = default;
};

class RecordReader {
 public:
  static constexpr size_t kStagingBytes = 64u << 10;
  static constexpr size_t kMaxCallBytes = 64u << 10;  // a callback COMPOUND is under 1 KiB in practice
  static constexpr unsigned kMaxEmptyFragments = 16;  // in one record
  static constexpr size_t kMaxPrefixBytes =
      16u << 10;  // the search for a bulk item ends after this many bytes of a reply

  struct Limits {
    size_t max_record_bytes = 0;
    size_t direct_min_bytes = 0;         // smaller destinations are filled by copying
    size_t piped_min_bytes = 32u << 10;  // shorter items are received into memory
  };

  struct Window {
    MutableBytes direct;   // may be empty; is filled first
    MutableBytes staging;  // never empty
    Pipe* pipe = nullptr;  // if set, may take the bytes of `direct` instead; then call commit_piped()
    size_t size() const { return direct.size() + staging.size(); }
  };

  enum class Step : uint8_t {
    kNeedBytes,  // all committed bytes are consumed
    kReply,      // message(): an awaited reply, complete
    kCall,       // message(): a call from the server, complete
    kStray,      // message().xid: a reply that nobody waits for was skipped
    kViolation,  // violation() says what; the connection cannot be used any more
  };

  using Message = rpc::ReceivedReply;  // for a call: xid and head

  RecordReader(ReplyDirectory& directory, Limits limits);

  Window window();
  void commit(size_t received);
  // `received` bytes, at most direct.size(), were received into the window's pipe.
  void commit_piped(size_t received);
  // After either function the rest of this item is received into memory. pipe_full() is for a pipe without a
  // free slot. If much of the item is missing then, the fragments are so short that the next items would not
  // fit either, and the pool pauses.
  void pipe_full();
  void leave_pipe() { sink_.pipes = nullptr; }
  Step next();

  // The message of the last next(); to be moved out before next() is called again.
  Message& message() { return message_; }
  const char* violation() const { return violation_; }
  // The XID of the record being read, when known.
  bool xid_known() const { return stage_ != Stage::kIdentify && in_record_; }

  // Nobody waits for `xid` any more. If its reply is being received, its sink is not touched again.
  void abandon(uint32_t xid);

  // Bulk bytes since the last take: received in place; of these, received into a pipe; copied.
  uint64_t take_placed() { return std::exchange(placed_bytes_, 0); }
  uint64_t take_spliced() { return std::exchange(spliced_bytes_, 0); }
  uint64_t take_copied() { return std::exchange(copied_bytes_, 0); }

 private:
  // What the next byte of a message belongs to.
  enum class Stage : uint8_t {
    kIdentify,  // XID and message type
    kPrefix,    // a reply with a sink; its bulk item has not been located yet
    kUpToItem,  // located; the bytes before it
    kItem,      // goes to the sink
    kPadding,   // dropped
    kRest,      // goes to head, to the end
    kSkip,      // dropped, to the end
  };

  bool read_mark();
  bool start_fragment(rpc::RecordMark mark);
  void consume();
  size_t identify(ConstBytes bytes);
  void identified();
  size_t prefix(ConstBytes bytes);
  void try_locate();
  void place(rpc::BulkPlace at);
  void settle();
  Step finish();
  void begin_message();
  void append(ConstBytes bytes);
  void to_sink(ConstBytes bytes);
  void reject(const char* defect);
  Step violate(const char* what);
  size_t staging_limit() const;
  size_t after_message(size_t hint) const;
  bool direct() const;
  void placed(size_t bytes);
  Pipe* pipe_for(size_t bytes);

  ReplyDirectory& directory_;
  const Limits limits_;
  std::unique_ptr<std::byte[]> staging_;
  ConstBytes staged_;         // committed, not yet consumed
  size_t window_direct_ = 0;  // size of the direct part of the last window

  // The record.
  std::array<std::byte, rpc::kRecordMarkBytes> mark_{};
  size_t mark_have_ = 0;
  bool in_fragment_ = false;
  bool in_record_ = false;
  bool last_fragment_ = false;
  size_t fragment_left_ = 0;
  size_t record_bytes_ = 0;  // of all fragments announced so far
  unsigned empty_fragments_ = 0;

  // The message.
  Stage stage_ = Stage::kIdentify;
  Step outcome_ = Step::kStray;  // what next() returns at the message's end; kNeedBytes: nothing
  Message message_;
  rpc::Sink sink_;
  size_t locate_at_ = 0;  // locate() is called again when head has this size
  size_t item_at_ = 0;
  size_t item_left_ = 0;
  size_t padding_left_ = 0;

  const char* violation_ = nullptr;
  uint64_t placed_bytes_ = 0;
  uint64_t spliced_bytes_ = 0;
  uint64_t copied_bytes_ = 0;
};

}  // namespace nfsrdma::tcp
