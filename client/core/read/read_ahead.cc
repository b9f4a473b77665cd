// SPDX-License-Identifier: Apache-2.0
#include "client/core/read/read_ahead.h"

#include <algorithm>
#include <cstdlib>

namespace nfsrdma::client {
namespace {

// A stride may be a coincidence, so it needs more reads than neighbours do.
constexpr unsigned kStridedHits = 2;
// No window is larger than kMostRamp. With these limits no prediction overflows.
constexpr uint64_t kMostRamp = uint64_t{1} << 32;
constexpr int64_t kMostStride = int64_t{1} << 40;
constexpr uint64_t kFarthest = uint64_t{1} << 62;

uint64_t round_down(uint64_t offset) {
  return offset / ReadPattern::kAlignment * ReadPattern::kAlignment;
}

uint64_t round_up(uint64_t offset) {
  return round_down(offset + ReadPattern::kAlignment - 1);
}

int64_t distance(uint64_t from, uint64_t to) {
  return static_cast<int64_t>(to) - static_cast<int64_t>(from);
}

}  // namespace

void ReadPattern::note(uint64_t offset, uint64_t size) {
  given_ = {};
  Stream* stream = find_continued(offset, size);
  if (stream == nullptr) {
    // Neighbours first, distances second: several places that are read in turn may have equal distances.
    stream = find_neighbour(offset, size);
    if (stream == nullptr) stream = find_next_run(offset, size);
    if (stream == nullptr) stream = find_new(offset, size);
    if (recent_.size() < kRemembered) {
      recent_.push_back({offset, size});
    } else {
      recent_[next_++ % kRemembered] = {offset, size};
    }
  }
  followed_ = stream != nullptr;
  if (followed_)
    std::rotate(streams_.begin(), streams_.begin() + (stream - streams_.data()),
                streams_.begin() + (stream - streams_.data()) + 1);
}

ReadPattern::Stream* ReadPattern::find_continued(uint64_t offset, uint64_t size) {
  // Strided runs first, because neighbours would take their parts. Then the stream used last: streams of one
  // program may touch.
  for (Stream& s : streams_)
    if (s.kind == Kind::kStrided && continues_run(s, offset, size)) return &s;
  for (Stream& s : streams_) {
    if (s.kind == Kind::kForward && continues_forward(s, offset, size)) return &s;
    if (s.kind != Kind::kBackward || offset + size != s.place) continue;
    s.foretold = s.reach < s.place;
    s.hit(size);
    s.place = offset;
    return &s;
  }
  return nullptr;
}

bool ReadPattern::continues_forward(Stream& s, uint64_t offset, uint64_t size) {
  const uint64_t end = offset + size;
  const bool missed = offset < s.place;
  if (offset == s.place) {
    s.hit(size);
    s.gaps = 0;
    if (end - s.first >= kSlackBytes) s.jumps = 0;
  } else if (s.hits < 2 || offset > s.place + kSlackBytes || end + kSlackBytes < s.place) {
    return false;
  } else if (offset < s.first && s.before.size == 0) {
    return false;  // before the first read
  } else if (!missed) {
    // If no other read is missing, this read may begin a third run.
    if (s.gaps == 0 && find_runs(offset, size) != nullptr) return false;
    ++s.gaps;
    if (++s.jumps > kMostGaps) {
      s = {};  // it is no forward stream
      return false;
    }
    s.before = {s.first, s.place - s.first};
    s.first = offset;
  } else {  // a missing read, or a repeated one
    s.gaps -= std::min(s.gaps, 1u);
    s.jumps -= std::min(s.jumps, 1u);
  }
  s.foretold = !missed && offset < s.reach;
  s.place = std::max(s.place, end);
  if (missed) {
    s.before = {};
    s.first = 0;
  }
  return true;
}

bool ReadPattern::continues_run(Stream& s, uint64_t offset, uint64_t size) {
  const uint64_t end = offset + size;
  const bool longer = end > s.first + s.size;
  if (offset < s.first || (longer && offset > s.place)) return false;
  if (offset > s.place + kSlackBytes || end + kSlackBytes < s.place) return false;
  s.foretold = offset >= s.place && offset - s.first < s.reach;
  s.place = std::max(s.place, end);
  // The run is longer than predicted. So the strided prediction is dropped; the stream becomes a forward one.
  if (longer) s = neighbours(Kind::kForward, s.first, s.place, size);
  return true;
}

bool ReadPattern::begins_next_run(Stream& s, uint64_t offset, uint64_t size) {
  if (s.place != s.first + s.size || s.place > kFarthest) return false;
  const int64_t next = static_cast<int64_t>(s.first) + s.stride;
  if (next < 0) return false;
  const auto first = static_cast<uint64_t>(next);
  if (offset < first || offset + size > first + s.size) return false;
  s.foretold = offset - first + s.size < s.reach;
  s.hit(s.size);
  s.first = first;
  s.place = offset + size;
  s.reach = s.reach > s.size ? s.reach - s.size : 0;
  return true;
}

ReadPattern::Stream* ReadPattern::find_neighbour(uint64_t offset, uint64_t size) {
  for (const ReadRange& r : recent_)
    if (r.offset + r.size == offset) return add(neighbours(Kind::kForward, r.offset, offset + size, size));
  for (const ReadRange& r : recent_)
    if (offset + size == r.offset) return add(neighbours(Kind::kBackward, offset, offset, size));
  return nullptr;
}

ReadPattern::Stream* ReadPattern::find_next_run(uint64_t offset, uint64_t size) {
  for (Stream& s : streams_)
    if (s.kind == Kind::kStrided && begins_next_run(s, offset, size)) return &s;
  return nullptr;
}

ReadPattern::Stream* ReadPattern::find_new(uint64_t offset, uint64_t size) {
  if (offset == 0) return add(neighbours(Kind::kForward, 0, size, size));
  if (Stream* s = find_runs(offset, size)) {
    // Two whole runs are no coincidence.
    *s = strided(offset, size, s->place - s->first, distance(s->first, offset), kStridedHits);
    return s;
  }
  for (const ReadRange& last : recent_) {
    const int64_t stride = distance(last.offset, offset);
    if (last.size != size || stride == 0 || std::abs(stride) > kMostStride) continue;
    for (const ReadRange& first : recent_)
      if (first.size == size && distance(first.offset, last.offset) == stride)
        return add(strided(offset, size, size, stride, 1));
  }
  return nullptr;
}

ReadPattern::Stream* ReadPattern::find_runs(uint64_t offset, uint64_t size) {
  for (Stream& s : streams_) {
    const uint64_t run = s.place - s.first;
    const int64_t stride = distance(s.first, offset);
    if (s.kind != Kind::kForward || run < size || run > kMostRamp) continue;
    if (stride == 0 || std::abs(stride) > kMostStride) continue;
    const auto fits = [&](uint64_t first, uint64_t length) {
      return length == run && distance(first, s.first) == stride;
    };
    if (fits(s.before.offset, s.before.size)) return &s;
    for (const Stream& other : streams_)
      if (other.kind == Kind::kForward && fits(other.first, other.place - other.first)) return &s;
  }
  return nullptr;
}

ReadPattern::Stream ReadPattern::strided(uint64_t offset, uint64_t size, uint64_t run, int64_t stride,
                                         unsigned hits) {
  Stream s;
  s.kind = Kind::kStrided;
  s.first = offset;
  s.place = offset + size;
  s.size = run;
  s.stride = stride;
  s.ramp = run * 2;
  s.hits = hits;
  return s;
}

ReadPattern::Stream ReadPattern::neighbours(Kind kind, uint64_t first, uint64_t place, uint64_t size) {
  Stream s;
  s.kind = kind;
  s.first = first;
  s.place = s.reach = place;
  s.ramp = size * 2;
  s.hits = 1;
  return s;
}

ReadPattern::Stream* ReadPattern::add(const Stream& s) {
  if (streams_.size() < kStreams) streams_.emplace_back();
  streams_.back() = s;
  return &streams_.back();
}

void ReadPattern::Stream::hit(uint64_t bytes) {
  ++hits;
  if (rest != 0) {
    rest -= std::min(rest, bytes);
    return;
  }
  ramp = std::min(std::max(ramp, bytes) * 2, kMostRamp);
  doubt -= std::min(doubt, bytes / 8);
}

// Our writes or a lack of room may drop each window. The pause avoids many useless READs.
void ReadPattern::Stream::miss(uint64_t bytes) {
  foretold = false;
  reach = kind == Kind::kStrided ? 0 : place;
  ramp = 2 * bytes;
  rest = doubt;
  doubt = std::min(std::max(2 * doubt, bytes), kMostRest);
}

void ReadPattern::missed(uint64_t offset, uint64_t size) {
  for (Stream& s : streams_) {
    // Only the latest read of its stream: later reads have seen for themselves what is cached.
    const uint64_t place = s.kind == Kind::kBackward ? offset : offset + size;
    if (!s.foretold || s.place != place) continue;
    s.miss(size);
    given_ = {};
    return;
  }
}

void ReadPattern::put_back(const ReadRange& rest) {
  if (rest.offset + rest.size != given_.offset + given_.size) return;
  streams_.front().reach = reach_before_;
  given_ = {};
}

std::optional<ReadRange> ReadPattern::next(uint64_t window, uint64_t piece, uint64_t end) {
  if (!followed_ || piece < kAlignment) return std::nullopt;
  Stream& s = streams_.front();
  if (s.rest != 0) return std::nullopt;
  reach_before_ = s.reach;
  const auto range = next_of(s, std::min(window, s.ramp), piece, end);
  given_ = range.value_or(ReadRange{});
  return range;
}

std::optional<ReadRange> ReadPattern::next_of(Stream& s, uint64_t window, uint64_t piece, uint64_t end) {
  switch (s.kind) {
    case Kind::kForward: return next_forward(s, window, piece, end);
    case Kind::kBackward: return next_backward(s, window, piece);
    case Kind::kStrided: return next_strided(s, window, piece, end);
    case Kind::kNone: break;
  }
  return std::nullopt;
}

std::optional<ReadRange> ReadPattern::next_forward(Stream& s, uint64_t window, uint64_t piece, uint64_t end) {
  const uint64_t from = s.reach > s.place ? s.reach : round_down(s.place);
  const uint64_t to = std::min(round_up(s.place + window), end);
  if (from >= to || s.place >= end) return std::nullopt;
  const uint64_t size = std::min(piece, to - from);
  if (size < piece && to < end) return std::nullopt;
  s.reach = round_up(from + size);
  return ReadRange{from, size};
}

std::optional<ReadRange> ReadPattern::next_backward(Stream& s, uint64_t window, uint64_t piece) {
  const uint64_t to = round_up(std::min(s.reach, s.place));
  const uint64_t from = s.place > window ? round_down(s.place - window) : 0;
  if (from >= to) return std::nullopt;
  const uint64_t size = std::min(piece, to - from);
  if (size < piece && from > 0) return std::nullopt;
  s.reach = to - size;
  return ReadRange{to - size, size};
}

std::optional<ReadRange> ReadPattern::next_strided(Stream& s, uint64_t window, uint64_t piece, uint64_t end) {
  if (s.hits < kStridedHits || s.place > kFarthest) return std::nullopt;
  const uint64_t at = s.place - s.first;
  const uint64_t from = std::max(s.reach, at);
  const uint64_t run = from / s.size;
  const int64_t begin = static_cast<int64_t>(s.first) + s.stride * static_cast<int64_t>(run);
  if (run > kMostRuns || begin < 0) return std::nullopt;
  const auto first = static_cast<uint64_t>(begin);
  const uint64_t offset = round_down(first + from % s.size);
  const uint64_t to = std::min(round_up(first + s.size), offset + piece);
  const uint64_t reach = run * s.size + std::min(to - first, s.size);
  if (offset >= end || reach > at + window) return std::nullopt;
  s.reach = reach;
  return ReadRange{offset, std::min(to, end) - offset};
}

}  // namespace nfsrdma::client
