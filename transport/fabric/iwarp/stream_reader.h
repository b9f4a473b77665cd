// SPDX-License-Identifier: Apache-2.0
// StreamReader: the byte stream of a peer after the start-up, frame by frame. No socket, no clock.
//
// The owner receives into window(), reports the bytes with commit(), and calls next() until it says
// kNeedBytes. Headers, untagged messages and trailers go through a staging buffer that holds one frame of any
// size. Tagged payload goes where `Placement` says: what came with its header is copied there, the rest is
// received straight into it, and the same window goes on with a little staging behind it for the trailer and
// the next header. So a stream of large frames costs about one system call each, and of small ones far less.
//
// Where `Placement` has a PipedPlace, large payload goes to its pipe, as long as one range without gaps comes
// of it and no CRC is asked for. Between frames of such a message no more than the next header is staged, for
// staged payload would be such a gap.
//
// CRCs. RFC 5044 section 4.4 wants a frame verified before it is delivered to DDP. Untagged frames are: they
// are complete in the staging buffer before anything is done with them. Tagged payload is placed as it comes
// and verified at the end of its frame: its header has passed every check by then, so the bytes went nowhere
// but into memory that the peer may write as it likes; a damaged header would have to hit another open range
// by chance; and a frame that fails ends the connection before the Send that would declare the memory valid
// can be delivered. Until such a Send, what an exposed range holds is undefined anyway (RFC 5040
// section 5.5).
//
// Checked here: all that a header says about itself; lengths, versions, opcodes, queues, sequence numbers,
// offsets. Not: tags and bounds (Placement), the number of Read Requests, the right to invalidate (the
// owner). Memory: the staging buffer, and one message of message_bytes once a message comes in several
// segments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "transport/fabric/iwarp/crc32c.h"
#include "transport/fabric/iwarp/terminate.h"
#include "transport/memory/piped_place.h"

namespace nfsrdma::fabric::iwarp {

// Says where tagged payload goes.
class Placement {
 public:
  struct Place {
    std::byte* at = nullptr;
    std::optional<TermCode> refused;
    PipedPlace* piped = nullptr;  // that `at` is in; null: all goes to memory
  };
  // `bytes` may be 0: then nothing is placed. The memory is written to until the frame is complete or
  // stop_placing() was called.
  virtual Place place(const Segment& segment, size_t bytes) = 0;

 protected:
  ~Placement() = default;
};

class StreamReader {
 public:
  struct Limits {
    size_t message_bytes = 8192;  // of a Send
    bool crc = false;
  };
  StreamReader(Placement& placement, Limits limits);

  // Where the next bytes go: first all of `direct`, then `staging`, which is never empty.
  struct Window {
    MutableBytes direct;
    MutableBytes staging;
    Pipe* pipe = nullptr;  // set: takes the bytes of `direct`, too, commit_piped()
    size_t size() const { return direct.size() + staging.size(); }
  };
  Window window();
  void commit(size_t bytes);
  // `bytes`, at most direct.size(), went into the window's pipe.
  void commit_piped(size_t bytes);
  // The pipe takes no more of this place.
  void leave_pipe(bool full);

  enum class Step : uint8_t {
    kNeedBytes,
    kSend,         // message(), segment()
    kReadRequest,  // read_request(), segment()
    kTerminate,    // message()
    kPlaced,       // a tagged frame is complete: segment(), placed_bytes()
    kViolation,    // violation(); the stream cannot be read on
  };
  Step next();

  const Segment& segment() const { return segment_; }  // of a message in several, the last
  ConstBytes message() const { return message_; }      // until next() is called again
  const ReadRequest& read_request() const { return read_request_; }
  size_t placed_bytes() const { return payload_bytes_; }
  const Terminate& violation() const { return violation_; }

  // A Terminate for what the last step brought.
  Terminate terminate_for(TermCode code) const;

  // The tag whose memory is being received into, or 0.
  uint32_t placing() const { return state_ == State::kPayload && left_ > 0 ? segment_.stag : 0; }
  // Of a tagged frame that has begun: payload that is still to come.
  size_t payload_left() const { return state_ == State::kPayload ? left_ : 0; }
  // In the middle of a frame: the end of the stream would cut it.
  bool inside_frame() const { return state_ != State::kHeader || begin_ != end_; }
  uint64_t frames() const { return frames_; }

 private:
  enum class State : uint8_t { kHeader, kPayload, kTrailer, kUntagged, kBroken };

  // What a queue's next segment has to say.
  struct Queue {
    uint32_t msn = 1;  // "The initial value for MSN MUST be one" (RFC 5041 section 4.3)
    uint32_t offset = 0;
    Opcode opcode{};          // of the message under way
    uint32_t invalidate = 0;  // likewise
  };

  size_t available() const { return end_ - begin_; }
  const std::byte* at(size_t offset) const { return staging_.data() + begin_ + offset; }
  bool need(size_t bytes);  // false: not there yet
  Pipe* pipe_for_rest();
  size_t staging_limit() const;
  Step violate(TermCode code);

  std::optional<Step> read_header();
  void expect_like(size_t bytes);
  std::optional<TermCode> check_tagged();
  std::optional<TermCode> check_untagged() const;
  size_t queue_limit() const;
  std::optional<Step> read_payload();
  std::optional<Step> read_trailer();
  std::optional<Step> read_untagged();
  Step deliver(ConstBytes payload);
  bool crc_matches(const std::byte* trailer_crc);

  Placement& placement_;
  const Limits limits_;
  State state_ = State::kHeader;

  ByteVector staging_;
  size_t begin_ = 0;  // [begin_, end_) is received and not used
  size_t end_ = 0;
  size_t release_ = 0;  // of it, what next() drops first: the message it gave away
  size_t missing_ = 0;  // to be received before anything can be done
  bool large_ = false;  // large frames come: little staging, so that the next one is not copied
  unsigned small_in_a_row_ = 0;

  // The frame under way.
  size_t ulpdu_bytes_ = 0;
  size_t payload_bytes_ = 0;
  Segment segment_;
  std::byte* to_ = nullptr;  // kPayload: where the rest of it goes
  size_t left_ = 0;
  PipedPlace* piped_ = nullptr;
  bool frame_piped_ = false;  // some of this frame, or, before its header is here, of the one it continues
  Crc32c crc_;
  uint64_t frames_ = 0;

  Queue queues_[kQueues];
  ByteVector assembled_[kQueues];  // messages in several segments
  ConstBytes message_;
  ReadRequest read_request_;
  std::array<std::byte, kUntaggedBytes> header_{};
  Terminate violation_;
};

}  // namespace nfsrdma::fabric::iwarp
