// SPDX-License-Identifier: Apache-2.0
// RecordReader: takes a byte stream apart into RPC messages (RFC 5531 section 11), and says where the next
// bytes should be received: into a staging buffer, or straight into the memory a reply's bulk item is meant
// for.
//
// A pure state machine, no I/O: `window()` names the memory, the caller receives into it and says with
// `commit(n)` how much came, then calls `next()` until kNeedBytes. Between two calls of next() the state is
// whole, so whoever is given a message may do anything, also give up the reader. Any chunking of the stream
// gives the same messages.
//
// Everything the peer says is hostile. Memory follows the bytes that have really arrived, never a length that
// is only claimed; a record is bounded by max_record_bytes, a call from the server by kMaxCallBytes, the run
// of empty fragments in a record by kMaxEmptyFragments. A broken stream is kViolation: nothing after it can
// be understood. A reply that is sound as a record but does not fit its sink is delivered with `defect` set
// and costs only itself.
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

// What is known of the call a reply claims to answer.
struct Expected {
  enum class Kind : uint8_t {
    kUnknown,    // nobody waits for it
    kAbandoned,  // somebody did, and gave up: skip it without complaint
    kEarly,      // its call has not been sent completely: the peer is broken
    kAwaited,
  };
  Kind kind = Kind::kUnknown;
  const rpc::Sink* sink = nullptr;  // kAwaited: valid during the call; null or empty: no bulk item expected
};

// Who waits for which reply. Asked once for each reply, as soon as its XID is known.
class ReplyDirectory {
 public:
  virtual Expected expect(uint32_t xid) = 0;
  // While replies are due whose bulk item should be received in place: how many bytes come before such an
  // item (from the XID on), so that not many more are read at once. 0: none is due.
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
      16u << 10;  // a bulk item not found by then is not looked for any longer

  struct Limits {
    size_t max_record_bytes = 0;
    size_t direct_min_bytes = 0;         // destinations smaller than this are filled by copying
    size_t piped_min_bytes = 32u << 10;  // shorter items are received into memory
  };

  struct Window {
    MutableBytes direct;   // may be empty; filled first
    MutableBytes staging;  // never empty
    Pipe* pipe = nullptr;  // set: takes the bytes of `direct`, too, commit_piped()
    size_t size() const { return direct.size() + staging.size(); }
  };

  enum class Step : uint8_t {
    kNeedBytes,  // all that was committed is consumed
    kReply,      // message(): an awaited reply, whole
    kCall,       // message(): a call from the server, whole
    kStray,      // message().xid: a reply nobody waits for went by
    kViolation,  // violation() says what; the connection is of no more use
  };

  using Message = rpc::ReceivedReply;  // of a call: xid and head

  RecordReader(ReplyDirectory& directory, Limits limits);

  Window window();
  void commit(size_t received);
  // `received` bytes, at most direct.size(), went into the window's pipe.
  void commit_piped(size_t received);
  // The pipe takes no more of this item. pipe_full(): fragments are so short that the next items would not
  // fit either.
  void pipe_full();
  void leave_pipe() { sink_.pipes = nullptr; }
  Step next();

  // The message next() has just returned; to be moved out before the next next().
  Message& message() { return message_; }
  const char* violation() const { return violation_; }
  // The XID of the record being read, when known.
  bool xid_known() const { return stage_ != Stage::kIdentify && in_record_; }

  // Nobody waits for `xid` any more: if its reply is being received, its sink is not touched again.
  void abandon(uint32_t xid);

  // Bulk bytes received in place, those of them that went to a pipe, and those copied, since the last take.
  uint64_t take_placed() { return std::exchange(placed_bytes_, 0); }
  uint64_t take_spliced() { return std::exchange(spliced_bytes_, 0); }
  uint64_t take_copied() { return std::exchange(copied_bytes_, 0); }

 private:
  // Where in a message the next byte belongs.
  enum class Stage : uint8_t {
    kIdentify,  // XID and message type
    kPrefix,    // a reply with a sink, before its bulk item has been located
    kUpToItem,  // located; up to its first byte
    kItem,      // into the sink
    kPadding,   // dropped
    kRest,      // into head, to the end
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
  size_t locate_at_ = 0;  // size of head at which the locator is asked again
  size_t item_at_ = 0;
  size_t item_left_ = 0;
  size_t padding_left_ = 0;

  const char* violation_ = nullptr;
  uint64_t placed_bytes_ = 0;
  uint64_t spliced_bytes_ = 0;
  uint64_t copied_bytes_ = 0;
};

}  // namespace nfsrdma::tcp
