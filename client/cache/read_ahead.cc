#include "client/cache/read_ahead.h"

#include <algorithm>
#include <cstdlib>

namespace nfsrdma::client {
namespace {

// Strides are told from coincidence by more reads than neighbours are.
constexpr unsigned kStridedHits = 2;
// No window is larger; and no multiple of what is foretold wraps.
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
  // Neighbours say more than distances: places that are read in turn may be equally far from each other.
  Stream* stream = find(offset, size, false);
  if (stream == nullptr) {
    stream = find_neighbour(offset, size);
    if (stream == nullptr) stream = find(offset, size, true);
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

ReadPattern::Stream* ReadPattern::find(uint64_t offset, uint64_t size, bool strided) {
  // The one used last first: streams of a program that reads in turn may touch.
  for (Stream& s : streams_) {
    if (s.kind == Kind::kNone || (s.kind == Kind::kStrided) != strided) continue;
    if (continues(s, offset, size)) return &s;
  }
  return nullptr;
}

bool ReadPattern::continues(Stream& s, uint64_t offset, uint64_t size) const {
  if (s.kind == Kind::kForward) return continues_forward(s, offset, size);
  const bool fits = s.kind == Kind::kBackward ? offset + size == s.place
                                              : size == s.size && distance(s.place, offset) == s.stride;
  if (!fits) return false;
  ++s.hits;
  s.ramp = std::min(std::max(s.ramp, size) * 2, kMostRamp);
  s.place = offset;
  s.size = size;
  return true;
}

bool ReadPattern::continues_forward(Stream& s, uint64_t offset, uint64_t size) const {
  const uint64_t end = offset + size;
  if (offset == s.place) {
    ++s.hits;
    s.gaps = 0;
    s.ramp = std::min(std::max(s.ramp, size) * 2, kMostRamp);
  } else if (s.hits < 2 || offset > s.place + kSlackBytes || end + kSlackBytes < s.place) {
    return false;
  } else if (offset > s.place) {
    if (++s.gaps > kMostGaps) {
      s = {};  // it jumps
      return false;
    }
  } else if (s.gaps != 0) {
    --s.gaps;  // what was missing, or read again
  }
  s.place = std::max(s.place, end);
  s.size = size;
  return true;
}

ReadPattern::Stream* ReadPattern::find_neighbour(uint64_t offset, uint64_t size) {
  for (const ReadRange& r : recent_) {
    if (r.offset + r.size == offset) return make(Kind::kForward, offset + size, size, 0);
    if (offset + size == r.offset) return make(Kind::kBackward, offset, size, 0);
  }
  return nullptr;
}

ReadPattern::Stream* ReadPattern::find_new(uint64_t offset, uint64_t size) {
  if (offset == 0) return make(Kind::kForward, size, size, 0);
  for (const ReadRange& last : recent_) {
    const int64_t stride = distance(last.offset, offset);
    if (last.size != size || stride == 0 || std::abs(stride) > kMostStride) continue;
    for (const ReadRange& first : recent_) {
      if (first.size == size && distance(first.offset, last.offset) == stride)
        return make(Kind::kStrided, offset, size, stride);
    }
  }
  return nullptr;
}

ReadPattern::Stream* ReadPattern::make(Kind kind, uint64_t place, uint64_t size, int64_t stride) {
  if (streams_.size() < kStreams) streams_.emplace_back();
  Stream& s = streams_.back();
  s = {};
  s.kind = kind;
  s.place = s.reach = place;
  s.size = size;
  s.stride = stride;
  s.ramp = size * 2;
  s.hits = 1;
  return &s;
}

std::optional<ReadRange> ReadPattern::next(uint64_t window, uint64_t piece, uint64_t end) {
  if (!followed_ || piece < kAlignment) return std::nullopt;
  Stream& s = streams_.front();
  const uint64_t reach = std::min(window, s.ramp);
  switch (s.kind) {
    case Kind::kForward: return next_forward(s, reach, piece, end);
    case Kind::kBackward: return next_backward(s, reach, piece);
    case Kind::kStrided: return next_strided(s, reach, piece, end);
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
  if (s.hits < kStridedHits || s.size > piece || s.place > kFarthest) return std::nullopt;
  const uint64_t count = std::min<uint64_t>(kMostElements, window / s.size);
  const auto step = [&](uint64_t from, uint64_t times) {
    return static_cast<int64_t>(from) + s.stride * static_cast<int64_t>(times);
  };
  // Ranges given for a place that the application has passed are behind it.
  const bool behind = s.stride > 0 ? s.reach < s.place : s.reach > s.place;
  const int64_t offset = step(behind ? s.place : s.reach, 1);
  const int64_t last = step(s.place, count);
  if (count == 0 || offset < 0 || static_cast<uint64_t>(offset) >= end) return std::nullopt;
  if (s.stride > 0 ? offset > last : offset < last) return std::nullopt;
  s.reach = static_cast<uint64_t>(offset);
  const uint64_t from = round_down(s.reach);
  return ReadRange{from, std::min(round_up(s.reach + s.size), end) - from};
}

}  // namespace nfsrdma::client
