// SPDX-License-Identifier: Apache-2.0
// SendQueue: the records that wait to be sent on one connection, as one flat gather list.
//
// A record is marked (RFC 5531 section 11), gathered from the message's inline bytes, its bulk items where
// they lie and their padding, and cut into fragments if asked. No byte is copied. Whatever the kernel takes
// (`front`, then `advance`) may end anywhere; the queue goes on at that byte. It lives and dies with one
// connection, so half a record never meets another connection.
//
// Memory: a call's bytes belong to its PendingCall until it leaves the table; forget() then drops the record,
// or, if its first byte is out already, takes the bytes over, because the stream must be continued. Replies
// of the back channel are owned by the queue. Loop thread only.
#pragma once

#include <sys/uio.h>

#include <array>
#include <deque>
#include <span>
#include <vector>

#include "transport/rpc/pending_calls.h"

namespace nfsrdma::tcp {

using rpc::PendingCall;

class SendQueue {
 public:
  // Fragments of at most `fragment_bytes`; 0: a record is one fragment.
  explicit SendQueue(size_t fragment_bytes);

  void push(PendingCall& call);
  void push(ByteVector message);

  bool empty() const { return records_.empty(); }
  // Replies not sent completely.
  size_t replies() const { return replies_; }
  // The next bytes to send; at most `max` pieces.
  std::span<iovec> front(size_t max);

  // Progress of a call's record, as advance() reports it.
  class Observer {
   public:
    virtual void first_byte_sent(PendingCall& call) = 0;
    virtual void last_byte_sent(PendingCall& call) = 0;

   protected:
    ~Observer() = default;
  };
  // `n` bytes of front() were sent.
  void advance(size_t n, Observer& observer);

  // `call` is about to end; nothing of it is used afterwards. True: it has left in part, and the rest will.
  bool forget(PendingCall& call);

 private:
  using Mark = std::array<std::byte, 4>;

  struct Record {
    PendingCall* call = nullptr;  // null: a reply, or a call that was forgotten
    bool reply = false;
    size_t bytes = 0;  // with record marks
    size_t left = 0;
    size_t pieces = 0;  // in iov_
    size_t marks = 0;   // in marks_
    ByteVector owned;
    std::vector<Slice> keep;
  };

  void begin(Record& record, size_t message_bytes);
  void add(Record& record, ConstBytes bytes);
  void add_piece(Record& record, const std::byte* data, size_t size);

  const size_t fragment_bytes_;
  std::deque<Record> records_;
  size_t replies_ = 0;
  std::deque<Mark> marks_;  // a deque: iov_ points into it
  std::vector<iovec> iov_;  // [iov_begin_, end) wait
  size_t iov_begin_ = 0;
  // While a record is being added: bytes left in it, and in its present fragment.
  size_t record_room_ = 0;
  size_t fragment_room_ = 0;
};

}  // namespace nfsrdma::tcp
