// SPDX-License-Identifier: Apache-2.0
// SendQueue: the operations that one endpoint has to send, cut into frames (MPA, DDP, RDMAP) as the socket
// accepts them.
//
// Operations are sent in the order in which they were pushed (RFC 5040 section 5.5), each as one DDP message
// of as many segments as it needs. A frame is gathered: header, payload in its place, padding and CRC.
// front() prepares a batch of frames for one sendmsg; advance() may end anywhere in it. An operation that is
// not yet cut into frames costs one list entry, whatever its length.
//
// Memory: a Send is copied. The source of a Write belongs to its owner until take_done() returns its cookie.
// A Read Response is sent from exposed memory. finish() drops everything except the rest of a frame that was
// sent in part, and copies that rest: after it, no memory of others is used.
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
    size_t ulpdu_bytes = kMaxUlpduBytes;  // of one frame
    bool crc = false;
    // If the length of a Write or Read Response is not a multiple of the frame size, the short frame is sent
    // first, not last. The peer then receives it together with the first header, and the end of the last
    // frame together with the Send behind it.
    bool short_first = false;
  };
  explicit SendQueue(Limits limits) : limits_(limits) { frames_.reserve(kMaxFrames); }

  void send(std::span<const ConstBytes> parts, uint32_t invalidate, bool solicited);
  // `cookie`: nullopt if nobody waits for the completion.
  void write(const rpcrdma::segment& target, ConstBytes source, Owner owner, std::optional<Cookie> cookie);
  void read_request(const ReadRequest& request);
  // `source` is exposed as request.source_stag.
  void read_response(const ReadRequest& request, ConstBytes source);
  // A zero-length RDMA Write: a frame without effect.
  void nudge();

  // Drops all operations except the rest of a frame that was sent in part. After that rest only `last`, if
  // given, is sent.
  void finish(const std::optional<Terminate>& last);

  bool empty() const { return operations_.empty() && tail_.empty(); }
  // The next bytes to send.
  std::span<iovec> front();
  // `bytes` of front() were sent.
  void advance(size_t bytes);

  // The operations that were sent completely since the last take_done().
  struct Done {
    std::vector<Cookie> cookies;
    uint64_t bytes_written = 0;
    uint64_t bytes_fetched = 0;
  };
  Done take_done() { return std::exchange(done_, {}); }
  // Read Responses that have not been sent completely.
  size_t read_responses() const { return read_responses_; }
  // Copied bytes of Sends that have not been sent completely.
  size_t owned_bytes() const { return owned_bytes_; }
  // Bytes of Writes that have not been sent completely.
  size_t write_bytes() const { return write_bytes_; }
  // True if data still has to be sent from the memory exposed as `stag`.
  bool sends_from(uint32_t stag) const;

 private:
  static constexpr size_t kMaxFrames = 128;

  struct Operation {
    Segment header;  // of the next segment
    ConstBytes payload;
    size_t cut = 0;  // bytes of the payload
    bool all_cut = false;
    size_t pieces_end = 0;  // in pieces_, once all_cut
    ByteVector owned;
    Owner owner;
    std::optional<Cookie> cookie;
    uint32_t source_stag = 0;  // for a Read Response
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

  // The batch. frames_ never reallocates: pieces_ points into it.
  std::vector<Frame> frames_;
  std::vector<iovec> pieces_;
  size_t pieces_begin_ = 0;   // the pieces before it were sent
  bool piece_begun_ = false;  // part of this piece was sent

  ByteVector tail_;  // after finish()
  Done done_;
};

}  // namespace nfsrdma::fabric::iwarp
