// SPDX-License-Identifier: Apache-2.0
#include "transport/fabric/iwarp/stream_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace nfsrdma::fabric::iwarp {
namespace {

constexpr size_t kStagingBytes = kMaxFpduBytes + 4096;
// After tagged payload of at least this size, the next one is expected to be as large and is received in
// place. The value is from the TCP transport's measurement of where a copy costs more than a system call
// (tcp_transport.h).
constexpr size_t kLargeBytes = 24u << 10;
// Bytes of staging behind such payload: for the trailer and the next header, or for a small Send. More would
// have to be copied.
constexpr size_t kTailBytes = 512;
// A few small frames at the end of a large READ (a short last frame, then the reply) do not mean that the
// next READ is small.
constexpr unsigned kSmallInARow = 4;
// A smaller rest of a frame's payload is received into memory, together with what follows
// (tcp::RecordReader::Limits).
constexpr size_t kMinPipedBytes = 32u << 10;
constexpr size_t kTaggedHeaderBytes = kLengthBytes + kTaggedBytes;

// If the peer writes again to a range that is in the pipe, moves the pipe's data to memory first. False: the
// pipe lost data.
bool land_below(PipedPlace& piped, const std::byte* at, size_t bytes) {
  const ByteRange& range = piped.data.piped;
  const auto begin = static_cast<size_t>(at - piped.data.slice.bytes.data());
  if (range.empty() || begin >= range.end || begin + bytes <= range.begin) return true;
  piped.pipes = nullptr;
  return piped.data.land();
}

}  // namespace

StreamReader::StreamReader(Placement& placement, Limits limits)
    : placement_(placement), limits_(limits), staging_(kStagingBytes) {}

StreamReader::Window StreamReader::window() {
  if (begin_ == end_) {
    begin_ = end_ = 0;
  } else if (begin_ > 0 && release_ == 0) {
    std::memmove(staging_.data(), staging_.data() + begin_, available());
    end_ -= begin_;
    begin_ = 0;
  }
  Window w;
  if (state_ == State::kPayload) {
    w.direct = {to_, left_};
    w.pipe = pipe_for_rest();
  }
  w.staging = {staging_.data() + end_, std::min(staging_.size() - end_, staging_limit())};
  return w;
}

size_t StreamReader::staging_limit() const {
  if (frame_piped_ && !segment_.last) {
    switch (state_) {
      case State::kPayload: return fpdu_padding(ulpdu_bytes_) + kCrcBytes + kTaggedHeaderBytes;
      case State::kTrailer: return missing_ + kTaggedHeaderBytes;
      case State::kHeader:
        return available() < kTaggedHeaderBytes ? kTaggedHeaderBytes - available() : missing_;
      default: break;
    }
  }
  return large_ ? std::max(kTailBytes, missing_) : staging_.size();
}

// The pipe for the rest of this frame, taken from the pool for the first frame that is large enough. Null:
// use memory.
Pipe* StreamReader::pipe_for_rest() {
  if (piped_ == nullptr || left_ == 0 || (left_ < kMinPipedBytes && !frame_piped_)) return nullptr;
  BulkData& data = piped_->data;
  const auto at = static_cast<size_t>(to_ - data.slice.bytes.data());
  if (!data.piped.empty() && at != data.piped.end) return nullptr;
  if (!data.pipe && piped_->pipes != nullptr) data.pipe = piped_->pipes->get();
  if (!data.pipe) leave_pipe(false);
  return data.pipe.get();
}

void StreamReader::commit_piped(size_t bytes) {
  ByteRange& range = piped_->data.piped;
  if (range.empty()) range.begin = range.end = static_cast<size_t>(to_ - piped_->data.slice.bytes.data());
  range.end += bytes;
  to_ += bytes;
  left_ -= bytes;
  frame_piped_ = true;
}

void StreamReader::leave_pipe(bool full) {
  if (full && left_ >= kMinPipedBytes && piped_->pipes != nullptr) piped_->pipes->pause();
  piped_->pipes = nullptr;
  piped_ = nullptr;
}

void StreamReader::commit(size_t bytes) {
  if (state_ == State::kPayload) {
    const size_t direct = std::min(bytes, left_);
    if (limits_.crc) crc_.add({to_, direct});
    to_ += direct;
    left_ -= direct;
    bytes -= direct;
  }
  end_ += bytes;
}

bool StreamReader::need(size_t bytes) {
  missing_ = bytes > available() ? bytes - available() : 0;
  return missing_ == 0;
}

StreamReader::Step StreamReader::next() {
  begin_ += std::exchange(release_, 0);
  while (true) {
    std::optional<Step> step;
    switch (state_) {
      case State::kHeader: step = read_header(); break;
      case State::kPayload: step = read_payload(); break;
      case State::kTrailer: step = read_trailer(); break;
      case State::kUntagged: step = read_untagged(); break;
      case State::kBroken: return Step::kNeedBytes;
    }
    if (step) return *step;
  }
}

Terminate StreamReader::terminate_for(TermCode code) const {
  Terminate t;
  t.code = code;
  if (code.layer == 2) return t;  // RFC 5040 figure 10: LLP errors include no header
  t.segment_bytes = static_cast<uint16_t>(ulpdu_bytes_);
  t.ddp_header = header_;
  // "The Terminated RDMA Header is only sent back if the terminate is associated with an RDMA Read Request."
  if (code.layer == 0 && !segment_.tagged && segment_.opcode == Opcode::kReadRequest) {
    store_read_request(read_request_, t.read_request.emplace().data());
  }
  return t;
}

StreamReader::Step StreamReader::violate(TermCode code) {
  violation_ = terminate_for(code);
  state_ = State::kBroken;
  return Step::kViolation;
}

std::optional<StreamReader::Step> StreamReader::read_header() {
  // The length and the first byte determine the length of the header.
  if (!need(kLengthBytes + 1)) return Step::kNeedBytes;
  ulpdu_bytes_ = load_be16(at(0));
  const size_t header = header_bytes(*at(kLengthBytes));
  // No layer has an error code for a frame that is shorter than its header. It counts as a wrong start of a
  // frame.
  if (ulpdu_bytes_ < header) return violate(term::kFpduStart);
  if (!need(kLengthBytes + header)) return Step::kNeedBytes;
  std::copy_n(at(kLengthBytes), header, header_.begin());
  segment_ = load_segment(header_.data());
  frame_piped_ = false;
  payload_bytes_ = ulpdu_bytes_ - header;
  read_request_ = {};
  const auto refused = segment_.tagged ? check_tagged() : check_untagged();
  if (refused) return violate(*refused);
  expect_like(segment_.tagged ? payload_bytes_ : 0);
  if (!segment_.tagged) {
    state_ = State::kUntagged;
    return std::nullopt;
  }
  crc_ = {};
  if (limits_.crc) crc_.add({at(0), kLengthBytes + header});
  begin_ += kLengthBytes + header;
  state_ = State::kPayload;
  return std::nullopt;
}

// Expects the next frame to be like this one, or like the ones before if only a few were small.
void StreamReader::expect_like(size_t bytes) {
  if (bytes >= kLargeBytes) {
    large_ = true;
    small_in_a_row_ = 0;
  } else if (++small_in_a_row_ >= kSmallInARow) {
    large_ = false;
  }
}

std::optional<TermCode> StreamReader::check_tagged() {
  if (segment_.ddp_version != kDdpVersion) return term::kTaggedVersion;
  if (segment_.rdmap_version > kRdmapVersion) return term::kRdmapVersion;
  if (segment_.opcode != Opcode::kWrite && segment_.opcode != Opcode::kReadResponse)
    return term::kUnexpectedOpcode;
  const Placement::Place place = placement_.place(segment_, payload_bytes_);
  if (place.refused) return place.refused;
  if (place.piped != nullptr && !land_below(*place.piped, place.at, payload_bytes_))
    return term::kUnspecified;
  to_ = place.at;
  left_ = payload_bytes_;
  piped_ = limits_.crc ? nullptr : place.piped;
  return std::nullopt;
}

size_t StreamReader::queue_limit() const {
  switch (segment_.queue) {
    case kSendQueue: return limits_.message_bytes;
    case kReadRequestQueue: return kReadRequestBytes;
    default: return kMaxTerminateBytes;
  }
}

std::optional<TermCode> StreamReader::check_untagged() const {
  if (segment_.ddp_version != kDdpVersion) return term::kUntaggedVersion;
  if (segment_.rdmap_version > kRdmapVersion) return term::kRdmapVersion;
  if (segment_.queue >= kQueues) return term::kInvalidQueue;
  uint32_t queue = kSendQueue;
  switch (segment_.opcode) {
    case Opcode::kReadRequest: queue = kReadRequestQueue; break;
    case Opcode::kTerminate: queue = kTerminateQueue; break;
    case Opcode::kSend:
    case Opcode::kSendInvalidate:
    case Opcode::kSendSolicited:
    case Opcode::kSendSolicitedInvalidate: break;
    default: return term::kUnexpectedOpcode;  // tagged or reserved
  }
  if (segment_.queue != queue) return term::kInvalidQueue;
  const Queue& q = queues_[segment_.queue];
  if (segment_.msn != q.msn) return term::kInvalidMsn;
  if (segment_.message_offset != q.offset) return term::kInvalidOffset;
  if (payload_bytes_ > queue_limit() - q.offset) return term::kTooLong;
  if (q.offset > 0 && segment_.opcode != q.opcode) return term::kUnexpectedOpcode;
  return std::nullopt;
}

std::optional<StreamReader::Step> StreamReader::read_payload() {
  const size_t bytes = std::min(available(), left_);
  if (bytes > 0) {
    std::memcpy(to_, at(0), bytes);
    if (limits_.crc) crc_.add({at(0), bytes});
    begin_ += bytes;
    to_ += bytes;
    left_ -= bytes;
  }
  if (left_ > 0) {
    missing_ = 0;
    return Step::kNeedBytes;
  }
  state_ = State::kTrailer;
  return std::nullopt;
}

std::optional<StreamReader::Step> StreamReader::read_trailer() {
  const size_t padding = fpdu_padding(ulpdu_bytes_);
  if (!need(padding + kCrcBytes)) return Step::kNeedBytes;
  if (limits_.crc) crc_.add({at(0), padding});
  if (!crc_matches(at(padding))) return violate(term::kCrc);
  begin_ += padding + kCrcBytes;
  state_ = State::kHeader;
  ++frames_;
  return Step::kPlaced;
}

bool StreamReader::crc_matches(const std::byte* received) {
  // "When CRCs are not in use, the CRC field MUST be considered valid for FPDU checking regardless of its
  // contents" (RFC 5044 section 7.1.1).
  if (!limits_.crc) return true;
  std::byte expected[kCrcBytes];
  crc_.store(expected);
  return std::memcmp(expected, received, kCrcBytes) == 0;
}

std::optional<StreamReader::Step> StreamReader::read_untagged() {
  const size_t frame = fpdu_bytes(ulpdu_bytes_);
  if (!need(frame)) return Step::kNeedBytes;
  crc_ = {};
  if (limits_.crc) crc_.add({at(0), frame - kCrcBytes});
  if (!crc_matches(at(frame - kCrcBytes))) return violate(term::kCrc);
  const ConstBytes payload{at(kLengthBytes + kUntaggedBytes), payload_bytes_};
  release_ = frame;
  state_ = State::kHeader;
  ++frames_;

  Queue& q = queues_[segment_.queue];
  ByteVector& assembled = assembled_[segment_.queue];
  if (q.offset == 0) {
    q.opcode = segment_.opcode;
    q.invalidate = segment_.invalidate;
    assembled.clear();
    if (segment_.last) return deliver(payload);
  }
  assembled.insert(assembled.end(), payload.begin(), payload.end());
  q.offset += static_cast<uint32_t>(payload_bytes_);
  if (segment_.last) return deliver(assembled);
  begin_ += std::exchange(release_, 0);
  return std::nullopt;
}

StreamReader::Step StreamReader::deliver(ConstBytes payload) {
  Queue& q = queues_[segment_.queue];
  ++q.msn;
  q.offset = 0;
  segment_.invalidate = q.invalidate;
  message_ = payload;
  if (segment_.queue == kSendQueue) return Step::kSend;
  if (segment_.queue == kTerminateQueue) return Step::kTerminate;
  if (payload.size() < kReadRequestBytes) return violate(term::kUnspecified);
  read_request_ = load_read_request(payload.data());
  return Step::kReadRequest;
}

}  // namespace nfsrdma::fabric::iwarp
