// SPDX-License-Identifier: Apache-2.0
// SendQueue: the records that wait to be sent on one connection, as one gather list.
//
// A record consists of its marks (RFC 5531 section 11), the message's inline bytes, and its bulk items, where
// they lie in memory, with their padding. It is cut into fragments if asked. No byte is copied. The kernel
// may take any number of bytes (`front`, then `advance`); the queue goes on at the next byte. The queue
// belongs to one connection, so no part of a record is ever sent on another connection.
//
// Memory: a call's bytes belong to its PendingCall until it leaves the table. forget() then drops the record.
// If its first byte has been sent already, forget() takes the bytes over, because the rest must follow. The
// queue owns the replies of the back channel. Loop thread only.
#pragma once

#include <sys/uio.h>

#include <array>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "transport/rpc/pending_calls.h"

namespace nfsrdma::tcp {

using rpc::PendingCall;

class SendQueue {
 public:
  // Fragments have at most `fragment_bytes`; 0: each record is one fragment.
  explicit SendQueue(size_t fragment_bytes);

  void push(PendingCall& call);
  void push(ByteVector message);

  bool empty() const { return records_.empty(); }
  // Replies not sent completely.
  size_t replies() const { return replies_; }
  // The next bytes to send; at most `max` pieces.
  std::span<iovec> front(size_t max);

  // Progress of a call's record, reported by advance().
  class Observer {
   public:
    virtual void first_byte_sent(PendingCall& call) = 0;
    virtual void last_byte_sent(PendingCall& call) = 0;

   protected:
    ~Observer() = default;
  };
  // `n` bytes of front() were sent.
  void advance(size_t n, Observer& observer);

  // `call` is about to end; the queue uses nothing of it afterwards. Returns true if part of it was sent; the
  // rest will be sent.
  bool forget(PendingCall& call);

 private:
  using Mark = std::array<std::byte, 4>;

  struct Record {
    PendingCall* call = nullptr;  // null: a reply, or a call that was forgotten
    bool reply = false;
    size_t bytes = 0;  // including record marks
    size_t left = 0;
    size_t pieces = 0;  // in iov_
    size_t marks = 0;   // in marks_
    ByteVector owned;
    std::vector<Slice> keep;
    std::unique_ptr<rpc::MessageParts> sealed;
  };

  void begin(Record& record, size_t message_bytes);
  void add(Record& record, ConstBytes bytes);
  void add_piece(Record& record, const std::byte* data, size_t size);

  const size_t fragment_bytes_;
  std::deque<Record> records_;
  size_t replies_ = 0;
  std::deque<Mark> marks_;  // a deque: iov_ points into it
  std::vector<iovec> iov_;  // [iov_begin_, end) is not sent yet
  size_t iov_begin_ = 0;
  // While a record is being added: bytes missing in the record, and in its current fragment.
  size_t record_room_ = 0;
  size_t fragment_room_ = 0;
};

}  // namespace nfsrdma::tcp
