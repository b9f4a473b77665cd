// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/record_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "transport/runtime/check.h"
#include "xdr/rpc.h"

namespace nfsrdma::tcp {
namespace {

// How many more prefix bytes to collect before locate() is called again.
constexpr size_t kLocateStep = 64;
// Room reserved in advance for a reply's head; no more than the blocks that malloc(3) caches for a thread.
constexpr size_t kUsualHeadBytes = 1024;

}  // namespace

RecordReader::RecordReader(ReplyDirectory& directory, Limits limits)
    : directory_(directory), limits_(limits), staging_(new std::byte[kStagingBytes]) {
  begin_message();
}

// ---------------------------------------------------------------------------------------------------------
// Where to receive.

bool RecordReader::direct() const {
  return stage_ == Stage::kItem && in_fragment_ && item_left_ > 0 && fragment_left_ > 0 &&
         sink_.destination.size() >= limits_.direct_min_bytes;
}

RecordReader::Window RecordReader::window() {
  NFSRDMA_CHECK(staged_.empty());
  Window w;
  w.staging = {staging_.get(), std::clamp<size_t>(staging_limit(), 1, kStagingBytes)};
  if (direct()) {
    const size_t done = message_.bulk_length - item_left_;
    w.direct = sink_.destination.bytes.subspan(done, std::min(item_left_, fragment_left_));
    w.pipe = pipe_for(w.direct.size());
  }
  window_direct_ = w.direct.size();
  return w;
}

// Takes a pipe only when the item arrives, so that no call holds one while it waits.
Pipe* RecordReader::pipe_for(size_t bytes) {
  if (sink_.pipes == nullptr) return nullptr;
  if (!message_.piped.empty()) return message_.pipe.get();
  if (bytes < limits_.piped_min_bytes) return nullptr;
  if (!message_.pipe) message_.pipe = sink_.pipes->get();
  if (!message_.pipe) leave_pipe();
  return message_.pipe.get();
}

// Bytes to the end of this fragment and, when it is the record's last, to the bulk item of the next reply.
// (After any other fragment only the next mark is read ahead: more bulk data may follow it.)
size_t RecordReader::after_message(size_t hint) const {
  return fragment_left_ + rpc::kRecordMarkBytes + (last_fragment_ ? hint : 0);
}

// How much to receive into the staging buffer at most. If no bulk item is due: as much as it holds, so that
// one system call receives many small replies. Otherwise only as much as comes before the item, because
// staged bytes must be copied.
size_t RecordReader::staging_limit() const {
  const size_t hint = directory_.prefix_hint();
  const bool large = sink_.destination.size() >= limits_.direct_min_bytes;
  if (!in_fragment_) {
    if (in_record_ && large && stage_ != Stage::kRest && stage_ != Stage::kSkip) {
      return rpc::kRecordMarkBytes - mark_have_;
    }
    return hint == 0 ? kStagingBytes : rpc::kRecordMarkBytes - mark_have_ + hint;
  }
  switch (stage_) {
    case Stage::kIdentify: {
      if (hint == 0) return kStagingBytes;
      const size_t want = hint > message_.head.size() ? hint - message_.head.size() : kLocateStep;
      return want < fragment_left_ ? want : after_message(hint);
    }
    case Stage::kPrefix:
      if (large) return std::min(fragment_left_, locate_at_ - message_.head.size());
      break;
    case Stage::kUpToItem:
      if (large) return std::min(fragment_left_, item_at_ - message_.head.size());
      break;
    case Stage::kItem:
      if (direct()) {
        const size_t placed = std::min(item_left_, fragment_left_);
        if (hint == 0 && last_fragment_) return kStagingBytes;
        return after_message(hint) - placed;
      }
      break;
    default: break;
  }
  return hint == 0 ? kStagingBytes : after_message(hint);
}

void RecordReader::commit(size_t received) {
  const size_t direct = std::min(received, window_direct_);
  placed(direct);
  if (direct > 0 && !message_.piped.empty()) leave_pipe();  // a reply can describe only one piped range
  staged_ = {staging_.get(), received - direct};
}

void RecordReader::pipe_full() {
  if (sink_.pipes != nullptr && item_left_ >= limits_.piped_min_bytes) sink_.pipes->pause();
  leave_pipe();
}

void RecordReader::commit_piped(size_t received) {
  NFSRDMA_CHECK(received <= window_direct_);
  ByteRange& piped = message_.piped;
  if (piped.empty()) piped.begin = piped.end = message_.bulk_length - item_left_;
  piped.end += received;
  spliced_bytes_ += received;
  placed(received);
}

// `bytes` bytes of the window's direct part have been received.
void RecordReader::placed(size_t bytes) {
  item_left_ -= bytes;
  fragment_left_ -= bytes;
  placed_bytes_ += bytes;
  window_direct_ = 0;
}

// ---------------------------------------------------------------------------------------------------------
// Records.

RecordReader::Step RecordReader::next() {
  if (violation_ != nullptr) return Step::kViolation;
  while (true) {
    if (!in_fragment_) {
      if (!read_mark()) return Step::kNeedBytes;
      if (violation_ != nullptr) return Step::kViolation;
    }
    while (fragment_left_ > 0 && !staged_.empty() && violation_ == nullptr) consume();
    if (violation_ != nullptr) return Step::kViolation;
    if (fragment_left_ > 0) return Step::kNeedBytes;
    in_fragment_ = false;
    if (!last_fragment_) continue;
    const Step step = finish();
    if (step != Step::kNeedBytes) return step;
  }
}

// True when a fragment begins (or violation_ is set).
bool RecordReader::read_mark() {
  const size_t n = std::min(mark_.size() - mark_have_, staged_.size());
  std::copy_n(staged_.begin(), n, mark_.begin() + static_cast<ptrdiff_t>(mark_have_));
  staged_ = staged_.subspan(n);
  mark_have_ += n;
  if (mark_have_ < mark_.size()) return false;
  mark_have_ = 0;
  return start_fragment(rpc::decode_record_mark(mark_));
}

bool RecordReader::start_fragment(rpc::RecordMark mark) {
  if (!in_record_) begin_message();
  in_record_ = true;
  in_fragment_ = true;
  last_fragment_ = mark.last;
  fragment_left_ = mark.length;
  record_bytes_ += mark.length;  // both bounded: no overflow
  const bool call = stage_ != Stage::kIdentify && outcome_ == Step::kCall;
  if (record_bytes_ > (call ? kMaxCallBytes : limits_.max_record_bytes)) {
    violate(call ? "call record larger than the limit" : "record larger than the limit");
  } else if (mark.length == 0 && ++empty_fragments_ > kMaxEmptyFragments) {
    violate("endless empty record fragments");
  } else if (message_.head.empty() && stage_ == Stage::kIdentify) {
    message_.head.reserve(std::min<size_t>(mark.length, kUsualHeadBytes));
  }
  return true;
}

void RecordReader::begin_message() {
  in_record_ = false;
  record_bytes_ = 0;
  empty_fragments_ = 0;
  stage_ = Stage::kIdentify;
  outcome_ = Step::kStray;
  message_ = Message{};
  sink_ = rpc::Sink{};
  locate_at_ = item_at_ = item_left_ = padding_left_ = 0;
}

RecordReader::Step RecordReader::violate(const char* what) {
  violation_ = what;
  return Step::kViolation;
}

// ---------------------------------------------------------------------------------------------------------
// Messages.

// Takes some of the staged bytes, at most the rest of the fragment.
void RecordReader::consume() {
  settle();
  const ConstBytes bytes = staged_.first(std::min(staged_.size(), fragment_left_));
  size_t used = bytes.size();
  switch (stage_) {
    case Stage::kIdentify: used = identify(bytes); break;
    case Stage::kPrefix: used = prefix(bytes); break;
    case Stage::kUpToItem:
      used = std::min(used, item_at_ - message_.head.size());
      append(bytes.first(used));
      break;
    case Stage::kItem:
      used = std::min(used, item_left_);
      to_sink(bytes.first(used));
      break;
    case Stage::kPadding:
      used = std::min(used, padding_left_);
      padding_left_ -= used;
      break;
    case Stage::kRest: append(bytes); break;
    case Stage::kSkip: break;
  }
  staged_ = staged_.subspan(used);
  fragment_left_ -= used;
}

// Leaves each stage whose bytes are complete.
void RecordReader::settle() {
  if (stage_ == Stage::kUpToItem && message_.head.size() == item_at_) stage_ = Stage::kItem;
  if (stage_ == Stage::kItem && item_left_ == 0) stage_ = Stage::kPadding;
  if (stage_ == Stage::kPadding && padding_left_ == 0) stage_ = Stage::kRest;
}

size_t RecordReader::identify(ConstBytes bytes) {
  const size_t used = std::min(bytes.size(), rpc::kPrefixBytes - message_.head.size());
  append(bytes.first(used));
  if (message_.head.size() == rpc::kPrefixBytes) identified();
  return used;
}

void RecordReader::identified() {
  message_.xid = load_be32(message_.head.data());
  const auto start = rpc::peek(message_.head);
  stage_ = Stage::kRest;
  if (!start) {
    violate("message is neither call nor reply");
    return;
  }
  if (start->type == rpc::CALL) {
    outcome_ = Step::kCall;
    if (record_bytes_ > kMaxCallBytes) violate("call record larger than the limit");
    return;
  }
  const Expected expected = directory_.expect(message_.xid);
  switch (expected.kind) {
    case Expected::Kind::kUnknown: stage_ = Stage::kSkip; return;
    case Expected::Kind::kAbandoned:
      stage_ = Stage::kSkip;
      outcome_ = Step::kNeedBytes;
      return;
    case Expected::Kind::kEarly: violate("reply to a call that is not yet sent completely"); return;
    case Expected::Kind::kAwaited: break;
  }
  outcome_ = Step::kReply;
  if (expected.sink == nullptr) return message_.head.reserve(std::min(record_bytes_, expected.room));
  if (expected.sink->locate == nullptr || expected.sink->destination.size() == 0) return;
  sink_ = *expected.sink;
  stage_ = Stage::kPrefix;
  locate_at_ = std::clamp(sink_.expected_offset, rpc::kPrefixBytes + 4, kMaxPrefixBytes);
}

size_t RecordReader::prefix(ConstBytes bytes) {
  const size_t used = std::min(bytes.size(), locate_at_ - message_.head.size());
  append(bytes.first(used));
  if (message_.head.size() == locate_at_) try_locate();
  return used;
}

void RecordReader::try_locate() {
  rpc::BulkPlace at;
  switch (sink_.locate(message_.head, at)) {
    case rpc::Locate::kNone: stage_ = Stage::kRest; return;
    case rpc::Locate::kNeedMore:
      if (message_.head.size() >= kMaxPrefixBytes) {
        stage_ = Stage::kRest;
      } else {
        locate_at_ = std::min(message_.head.size() + kLocateStep, kMaxPrefixBytes);
      }
      return;
    case rpc::Locate::kFound: place(at); return;
  }
}

// The item is at `at`. Moves the part of it that is already in head to the sink.
void RecordReader::place(rpc::BulkPlace at) {
  if (at.length > sink_.destination.size()) return reject("more data than was asked for");
  if (at.offset > limits_.max_record_bytes) return reject("data beyond the end of the record");
  message_.placed = true;
  message_.bulk_length = at.length;
  item_at_ = at.offset;
  item_left_ = at.length;
  padding_left_ = xdr_padding(at.length);
  stage_ = Stage::kUpToItem;
  if (at.offset >= message_.head.size()) return settle();
  stage_ = Stage::kItem;
  ByteVector& head = message_.head;
  const size_t mine = std::min(at.length, head.size() - at.offset);
  to_sink(ConstBytes(head).subspan(at.offset, mine));
  const size_t padding = std::min(padding_left_, head.size() - at.offset - mine);
  padding_left_ -= padding;
  const auto begin = head.begin() + static_cast<ptrdiff_t>(at.offset);
  head.erase(begin, begin + static_cast<ptrdiff_t>(mine + padding));
  settle();
}

void RecordReader::append(ConstBytes bytes) {
  message_.head.insert(message_.head.end(), bytes.begin(), bytes.end());
}

void RecordReader::to_sink(ConstBytes bytes) {
  if (bytes.empty()) return;
  std::memcpy(sink_.destination.bytes.data() + (message_.bulk_length - item_left_), bytes.data(),
              bytes.size());
  item_left_ -= bytes.size();
  copied_bytes_ += bytes.size();
  if (!message_.piped.empty()) leave_pipe();
}

// The reply cannot be used: skips the rest of it; the caller gets the defect.
void RecordReader::reject(const char* defect) {
  message_.defect = defect;
  message_.placed = false;
  sink_ = rpc::Sink{};
  stage_ = Stage::kSkip;
}

void RecordReader::abandon(uint32_t xid) {
  if (!xid_known() || outcome_ != Step::kReply || message_.xid != xid) return;
  sink_ = rpc::Sink{};
  stage_ = Stage::kSkip;
  outcome_ = Step::kNeedBytes;
}

// The record is complete.
RecordReader::Step RecordReader::finish() {
  in_record_ = false;
  if (stage_ == Stage::kIdentify) return violate("record too short for an RPC message");
  if (stage_ == Stage::kPrefix) try_locate();
  settle();
  if (stage_ == Stage::kUpToItem || stage_ == Stage::kItem || stage_ == Stage::kPadding) {
    reject("record ends within its data");
  }
  if (message_.piped.empty()) message_.pipe.reset();
  sink_ = rpc::Sink{};
  return outcome_;
}

}  // namespace nfsrdma::tcp
