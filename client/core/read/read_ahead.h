// SPDX-License-Identifier: Apache-2.0
// ReadPattern: predicts the next reads of an open file description from its reads so far.
//
// Pure: offsets and sizes in, ranges out. One per open file description, guarded by its owner. It follows up
// to kStreams streams at once, because a program may read several places of a file in turn:
//
//   forward   each read begins where the previous one ended
//   backward  each read ends where the previous one began
//   strided   each run of reads has the same length and the same distance from the previous one (either way)
//
// A run is one read, or the parts into which the kernel splits a long one: each part begins where the
// previous one ended. Reads that fit together make a stream: two reads for the first two kinds; for the
// third, three reads in a row, or two runs and the beginning of a third. A strided stream whose run gets
// longer becomes a forward one. The first read of a file is taken for a forward stream if it starts at offset
// 0. Random reads make no stream and cause no read-ahead. Only the stream of the latest read is read ahead: a
// read that fits no stream is a seek, and the rest of the prediction is not requested any more.
//
// With several loops or an asynchronous reader, the reads of a forward stream may arrive out of order. Once
// it is established, a forward stream accepts reads up to kSlackBytes ahead of its place, and late reads
// before its place. Every read ahead of the place adds one to a count of skips; every late read subtracts
// one; a run of kSlackBytes without a skip sets the count to zero. At more than kMostGaps skips the stream is
// dropped: the skipped bytes are probably not wanted, and the client would read all of them ahead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace nfsrdma::client {

struct ReadRange {
  uint64_t offset = 0;
  uint64_t size = 0;
  bool operator==(const ReadRange&) const = default;
};

class ReadPattern {
 public:
  ReadPattern() = default;
  ReadPattern(const ReadPattern&) = delete;
  ReadPattern& operator=(const ReadPattern&) = delete;

  static constexpr size_t kStreams = 8;
  static constexpr size_t kRemembered = 16;  // reads that continued neither a run nor a backward stream
  static constexpr uint64_t kSlackBytes = 1u << 20;
  static constexpr unsigned kMostGaps = 4;
  static constexpr unsigned kMostRuns = 32;  // of a strided stream, ahead at once
  static constexpr uint64_t kMostRest = 16u << 20;
  static constexpr uint64_t kAlignment = 4096;

  enum class Kind : uint8_t { kNone, kForward, kBackward, kStrided };

  // An application read; `size` is not 0.
  void note(uint64_t offset, uint64_t size);
  // The kind of the latest read's stream.
  Kind kind() const { return followed_ ? streams_.front().kind : Kind::kNone; }

  // The next range to read ahead for that stream, at most `piece` bytes (a multiple of kAlignment). It begins
  // within `window` bytes of the application's place and before `end`, the file's size, and was not returned
  // before for a stream of the same kind. Nothing if less than a whole piece fits, unless the end of the file
  // is near. Nothing if `piece` is less than kAlignment.
  std::optional<ReadRange> next(uint64_t window, uint64_t piece, uint64_t end);
  // No READ was sent for `rest`, the last part of the range from next(). If no other read comes first, next()
  // returns it again, with what precedes it. (After a read, missed() takes care of that.)
  void put_back(const ReadRange& rest);
  // The first bytes of a read (given to note()) were neither cached nor in flight. If next() had returned
  // them, they were dropped, and perhaps also the bytes behind them. Then next() returns these again, after a
  // pause that grows with each such miss.
  void missed(uint64_t offset, uint64_t size);

 private:
  struct Stream {
    // A predicted read of `bytes` arrived.
    void hit(uint64_t bytes);
    // A predicted read arrived, but its data had been dropped.
    void miss(uint64_t bytes);

    Kind kind = Kind::kNone;
    uint64_t first = 0;     // forward and strided: start of the latest run; 0 also after reads out of order
    uint64_t place = 0;     // one past the last byte read (strided: of that run); backward: the first byte
    uint64_t size = 0;      // strided: of each run
    int64_t stride = 0;     // strided: from one run's first byte to the next one's
    uint64_t reach = 0;     // end of returned ranges (as `place`); strided: sum of runs from `first` on
    uint64_t ramp = 0;      // bytes; doubles with each read, so that a short run does not cost a window
    unsigned hits = 0;      // reads that arrived as predicted
    unsigned gaps = 0;      // forward: recent reads that skipped bytes
    unsigned jumps = 0;     // the same since the last run of kSlackBytes
    ReadRange before;       // forward: the run before the latest skip
    bool foretold = false;  // next() had returned the latest read's first byte
    uint64_t rest = 0;      // bytes to read before next() returns anything
    uint64_t doubt = 0;     // `rest` after the next miss
  };

  Stream* find_continued(uint64_t offset, uint64_t size);
  bool continues_forward(Stream& s, uint64_t offset, uint64_t size);
  static bool continues_run(Stream& s, uint64_t offset, uint64_t size);
  static bool begins_next_run(Stream& s, uint64_t offset, uint64_t size);
  Stream* find_neighbour(uint64_t offset, uint64_t size);
  Stream* find_next_run(uint64_t offset, uint64_t size);
  Stream* find_new(uint64_t offset, uint64_t size);
  // The forward stream whose last two runs (or its run and another stream's) predict a third run at `offset`.
  Stream* find_runs(uint64_t offset, uint64_t size);
  Stream* add(const Stream& s);
  static Stream neighbours(Kind kind, uint64_t first, uint64_t place, uint64_t size);
  static Stream strided(uint64_t offset, uint64_t size, uint64_t run, int64_t stride, unsigned hits);

  static std::optional<ReadRange> next_of(Stream& s, uint64_t window, uint64_t piece, uint64_t end);
  static std::optional<ReadRange> next_forward(Stream& s, uint64_t window, uint64_t piece, uint64_t end);
  static std::optional<ReadRange> next_backward(Stream& s, uint64_t window, uint64_t piece);
  static std::optional<ReadRange> next_strided(Stream& s, uint64_t window, uint64_t piece, uint64_t end);

  std::vector<Stream> streams_;    // at most kStreams; the one used last is first
  std::vector<ReadRange> recent_;  // at most kRemembered; a ring
  size_t next_ = 0;                // its next place
  bool followed_ = false;          // the latest read belongs to streams_.front()
  ReadRange given_;                // returned by the latest next(); empty if none came after the latest read
  uint64_t reach_before_ = 0;      // `reach` of streams_.front() before that next()
};

}  // namespace nfsrdma::client
