// SPDX-License-Identifier: Apache-2.0
// StreamReader: parses a peer's byte stream after the start-up, frame by frame. No socket, no clock.
//
// The owner receives into window(), reports the bytes with commit(), and calls next() until it returns
// kNeedBytes. Headers, untagged messages and trailers go through a staging buffer that can hold one frame of
// any size. `Placement` decides where tagged payload goes. The part that came with its header is copied
// there. The rest is received directly into it; the same window continues with a small part of the staging
// buffer, for the trailer and the next header. So large frames cost about one system call each, and small
// frames far less.
//
// If `Placement` returns a PipedPlace, large payload goes into its pipe, as long as the data in the pipe is
// one range without gaps and no CRC is used. Between the frames of such a message only the next header is
// staged, because staged payload would be a gap.
//
// CRCs. RFC 5044 section 4.4 requires that a frame is verified before it is delivered to DDP. Untagged frames
// are: they are complete in the staging buffer before they are processed. Tagged payload is placed as it
// arrives and verified at the end of its frame. That is safe: its header has passed every check, so the bytes
// go only into memory that the peer may write anyway; a damaged header would have to match another open range
// by chance; and a frame that fails ends the connection before the Send that would declare the memory valid
// is delivered. Until such a Send, the content of an exposed range is undefined (RFC 5040 section 5.5).
//
// Checked here: everything that a header says about itself: lengths, versions, opcodes, queues, sequence
// numbers, offsets. Not checked here: tags and bounds (Placement), the number of Read Requests and the right
// to invalidate (the owner). Memory: the staging buffer, and one message of message_bytes once a message
// comes in several segments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "transport/fabric/iwarp/crc32c.h"
#include "transport/fabric/iwarp/terminate.h"
#include "transport/memory/piped_place.h"

namespace nfsrdma::fabric::iwarp {

// Decides where tagged payload goes.
class Placement {
 public:
  struct Place {
    std::byte* at = nullptr;
    std::optional<TermCode> refused;
    PipedPlace* piped = nullptr;  // the one that contains `at`; null: all payload goes to memory
  };
  // `bytes` may be 0: nothing is placed then. The memory is written until the frame is complete.
  virtual Place place(const Segment& segment, size_t bytes) = 0;

 protected:
  ~Placement() = default;
};

class StreamReader {
 public:
  struct Limits {
    size_t message_bytes = 8192;  // of one Send
    bool crc = false;
  };
  StreamReader(Placement& placement, Limits limits);

  // Memory for the next bytes: first all of `direct`, then `staging`, which is never empty.
  struct Window {
    MutableBytes direct;
    MutableBytes staging;
    Pipe* pipe = nullptr;  // if set, may take the bytes of `direct` instead; then call commit_piped()
    size_t size() const { return direct.size() + staging.size(); }
  };
  Window window();
  void commit(size_t bytes);
  // `bytes`, at most direct.size(), were received into the window's pipe.
  void commit_piped(size_t bytes);
  // The rest of this place is received into memory. `full`: the pipe has no free slot.
  void leave_pipe(bool full);

  enum class Step : uint8_t {
    kNeedBytes,
    kSend,         // message(), segment()
    kReadRequest,  // read_request(), segment()
    kTerminate,    // message()
    kPlaced,       // a tagged frame is complete: segment(), placed_bytes()
    kViolation,    // violation(); the stream cannot be read any further
  };
  Step next();

  const Segment& segment() const { return segment_; }  // the last segment of a message
  ConstBytes message() const { return message_; }      // valid until next() is called again
  const ReadRequest& read_request() const { return read_request_; }
  size_t placed_bytes() const { return payload_bytes_; }
  const Terminate& violation() const { return violation_; }

  // A Terminate about the frame of the last step.
  Terminate terminate_for(TermCode code) const;

  // The tag whose memory is being received into; 0: none.
  uint32_t placing() const { return state_ == State::kPayload && left_ > 0 ? segment_.stag : 0; }
  // The payload of the current tagged frame that has not arrived yet.
  size_t payload_left() const { return state_ == State::kPayload ? left_ : 0; }
  // True in the middle of a frame, which an end of the stream would cut.
  bool inside_frame() const { return state_ != State::kHeader || begin_ != end_; }
  uint64_t frames() const { return frames_; }

 private:
  enum class State : uint8_t { kHeader, kPayload, kTrailer, kUntagged, kBroken };

  // The expected values of a queue's next segment.
  struct Queue {
    uint32_t msn = 1;  // "The initial value for MSN MUST be one" (RFC 5041 section 4.3)
    uint32_t offset = 0;
    Opcode opcode{};          // of the current message
    uint32_t invalidate = 0;  // likewise
  };

  size_t available() const { return end_ - begin_; }
  const std::byte* at(size_t offset) const { return staging_.data() + begin_ + offset; }
  bool need(size_t bytes);  // false: not received yet
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
  size_t begin_ = 0;  // [begin_, end_) is received and not used yet
  size_t end_ = 0;
  size_t release_ = 0;  // of that, the message that next() returned; the following next() drops it
  size_t missing_ = 0;  // to be received before parsing can go on
  bool large_ = false;  // frames are large: stage little, so that the next frame is not copied
  unsigned small_in_a_row_ = 0;

  // The current frame.
  size_t ulpdu_bytes_ = 0;
  size_t payload_bytes_ = 0;
  Segment segment_;
  std::byte* to_ = nullptr;  // kPayload: the place for the rest of it
  size_t left_ = 0;
  PipedPlace* piped_ = nullptr;
  bool frame_piped_ = false;  // part of the frame is in the pipe; before a header is read, of the frame
                              // before
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
