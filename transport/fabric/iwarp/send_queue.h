// SPDX-License-Identifier: Apache-2.0
// SendQueue: what one endpoint has to send, cut into frames (MPA, DDP, RDMAP) as the socket takes them.
//
// Operations leave in the order they were pushed (RFC 5040 section 5.5), each as one DDP message of as many
// segments as it needs. A frame is gathered: header, payload where it lies, padding and CRC. front() prepares
// a batch of frames for one sendmsg; advance() may end anywhere in it. What a batch has not cut yet costs an
// entry in a list, however long it is.
//
// Memory: a Send is copied. A Write's source belongs to its owner until done() names it; a Read Response is
// sent from exposed memory. finish() drops everything but the rest of a frame whose beginning has left, and
// that is copied: after it, none of anybody's memory is used.
//
// Owner: one endpoint; its loop only.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "transport/fabric/fabric.h"
#include "transport/fabric/iwarp/terminate.h"

namespace nfsrdma::fabric::iwarp {

class SendQueue {
 public:
  struct Limits {
    size_t ulpdu_bytes = kMaxUlpduBytes;  // of a frame
    bool crc = false;
    // What does not fill a frame goes first, not last, of a Write or Read Response. The peer then has it with
    // the first header that it receives, and the end of the last frame with the Send behind it.
    bool short_first = false;
  };
  explicit SendQueue(Limits limits) : limits_(limits) { frames_.reserve(kMaxFrames); }

  void send(std::span<const ConstBytes> parts, uint32_t invalidate, bool solicited);
  // `cookie`: null if nobody waits for it.
  void write(const rpcrdma::segment& target, ConstBytes source, Owner owner, std::optional<Cookie> cookie);
  void read_request(const ReadRequest& request);
  // `source` is exposed as request.source_stag.
  void read_response(const ReadRequest& request, ConstBytes source);
  // A zero-length RDMA Write: a frame that says nothing.
  void nudge();

  // Drops all that has not begun to leave; then only `last`, if given, is sent.
  void finish(const std::optional<Terminate>& last);

  bool empty() const { return operations_.empty() && tail_.empty(); }
  // The next bytes to send.
  std::span<iovec> front();
  // `bytes` of front() were sent.
  void advance(size_t bytes);

  // What has left completely since it was asked last.
  struct Done {
    std::vector<Cookie> cookies;
    uint64_t bytes_written = 0;
    uint64_t bytes_fetched = 0;
  };
  Done take_done() { return std::exchange(done_, {}); }
  // Read Responses that have not left completely.
  size_t read_responses() const { return read_responses_; }
  // Of Sends, copied and not sent completely.
  size_t owned_bytes() const { return owned_bytes_; }
  // Of Writes, likewise.
  size_t write_bytes() const { return write_bytes_; }
  // Is anything to be sent from the memory exposed as `stag`?
  bool sends_from(uint32_t stag) const;

 private:
  static constexpr size_t kMaxFrames = 128;

  struct Operation {
    Segment header;  // of the next segment
    ConstBytes payload;
    size_t cut = 0;  // of it
    bool all_cut = false;
    size_t pieces_end = 0;  // in pieces_, once all_cut
    ByteVector owned;
    Owner owner;
    std::optional<Cookie> cookie;
    uint32_t source_stag = 0;  // of a Read Response
  };
  struct Frame {
    std::array<std::byte, kLengthBytes + kUntaggedBytes> header;
    std::array<std::byte, 3 + kCrcBytes> trailer;
    size_t pieces_end = 0;  // in pieces_
  };

  Operation& push(Opcode opcode, bool tagged);
  Operation& push_untagged(Opcode opcode, uint32_t queue);
  void prepare();
  size_t cut_frame(Operation& operation);
  void add_piece(const std::byte* data, size_t bytes);
  void end_sent_operations();
  ByteVector rest_of_frame() const;

  const Limits limits_;
  std::deque<Operation> operations_;
  uint32_t msn_[kQueues] = {1, 1, 1};
  size_t read_responses_ = 0;
  size_t owned_bytes_ = 0;
  size_t write_bytes_ = 0;

  // The batch. frames_ never moves: pieces_ points into it.
  std::vector<Frame> frames_;
  std::vector<iovec> pieces_;
  size_t pieces_begin_ = 0;   // what is before has been sent
  bool piece_begun_ = false;  // and so has a part of this one

  ByteVector tail_;  // after finish()
  Done done_;
};

}  // namespace nfsrdma::fabric::iwarp
