// SPDX-License-Identifier: Apache-2.0
// ReadPattern: what an open file description's reads so far say about the next ones.
//
// Pure: offsets and sizes in, ranges out; one per open file description, guarded by its owner. It knows up to
// kStreams streams at once, because a program may read several places of a file in turn:
//
//   forward   each read begins where the one before ended
//   backward  each read ends where the one before began
//   strided   each run of reads is as long as, and as far from, the one before (either way)
//
// A run is a read, or what the kernel makes of a long one: reads of which each begins where the one before
// ended. A stream is made of reads that fit together: two for the first two kinds, three in a row for the
// last, or two runs and the beginning of a third. A strided stream whose run goes on is a forward one. The
// first read of a file, at its beginning, is trusted to go on. Random reads make none, and nothing is read
// ahead for them. Only the stream of the latest read is read ahead of: a read that fits nowhere is a seek,
// and what was not asked for yet is not asked for any more.
//
// With several loops, or an asynchronous reader, reads of a forward stream may be seen out of order: once it
// is established it takes reads up to kSlackBytes ahead, a few at a time, and any before its end. Where what
// was jumped over never comes, only runs as long as that make up for it: else all of it would be read ahead.
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
  static constexpr size_t kRemembered = 16;  // reads that continued no run and no backward stream
  static constexpr uint64_t kSlackBytes = 1u << 20;
  static constexpr unsigned kMostGaps = 4;
  static constexpr unsigned kMostRuns = 32;  // of a strided stream, ahead at once
  static constexpr uint64_t kMostRest = 16u << 20;
  static constexpr uint64_t kAlignment = 4096;

  enum class Kind : uint8_t { kNone, kForward, kBackward, kStrided };

  // A read was asked for. `size` is not 0.
  void note(uint64_t offset, uint64_t size);
  // The stream that the latest read belongs to.
  Kind kind() const { return followed_ ? streams_.front().kind : Kind::kNone; }

  // The next range worth reading ahead for that stream, at most `piece` bytes (a multiple of kAlignment):
  // what begins within `window` bytes of the application's place and before `end`, the file's size, and was
  // not given before to a stream of the same kind. Nothing while less than a whole piece would fit, unless
  // the end of the file is near; and where less than kAlignment can be asked for at once.
  std::optional<ReadRange> next(uint64_t window, uint64_t piece, uint64_t end);
  // `rest`, the last part of what next() gave, was not asked for: unless there is a read first, it is given
  // again, with what is before it. (After a read missed() sees to that.)
  void put_back(const ReadRange& rest);
  // A read that was noted found nothing of its first bytes, neither here nor on its way. If they had been
  // given they are gone, and so may be what was given behind them: it is given again, the more hesitantly the
  // more often that happens.
  void missed(uint64_t offset, uint64_t size);

 private:
  struct Stream {
    // A read of `bytes` came as foretold.
    void hit(uint64_t bytes);
    // So did one, but what was foretold is gone.
    void miss(uint64_t bytes);

    Kind kind = Kind::kNone;
    uint64_t first = 0;  // forward and strided: where the latest run began; 0, too, after reads out of order
    uint64_t place = 0;  // one past the last byte read (strided: of that run); backward: the first byte
    uint64_t size = 0;   // strided: of each run
    int64_t stride = 0;  // strided: from one run's first byte to the next one's
    uint64_t reach = 0;  // how far ranges were given, as `place`; strided: bytes of runs from `first` on, as
                         // if they lay one behind the other
    uint64_t ramp = 0;   // bytes: grows with each read, so that a short run does not cost a window
    unsigned hits = 0;   // reads that came as foretold
    unsigned gaps = 0;   // forward: reads that came before one that lies before them, of late
    unsigned jumps = 0;  // the same since a run was as long as what is jumped over may be
    ReadRange before;    // forward: the run that the latest gap ended
    bool foretold = false;  // the latest read's first byte had been given
    uint64_t rest = 0;      // bytes to be read before anything is given again
    uint64_t doubt = 0;     // what `rest` is after another miss
  };

  Stream* find_continued(uint64_t offset, uint64_t size);
  bool continues_forward(Stream& s, uint64_t offset, uint64_t size);
  static bool continues_run(Stream& s, uint64_t offset, uint64_t size);
  static bool begins_next_run(Stream& s, uint64_t offset, uint64_t size);
  Stream* find_neighbour(uint64_t offset, uint64_t size);
  Stream* find_next_run(uint64_t offset, uint64_t size);
  Stream* find_new(uint64_t offset, uint64_t size);
  // The forward stream of which two runs (or its own and another stream's) foretell a third at `offset`.
  Stream* find_runs(uint64_t offset, uint64_t size);
  Stream* add(const Stream& s);
  static Stream neighbours(Kind kind, uint64_t first, uint64_t place, uint64_t size);
  static Stream strided(uint64_t offset, uint64_t size, uint64_t run, int64_t stride, unsigned hits);

  static std::optional<ReadRange> next_of(Stream& s, uint64_t window, uint64_t piece, uint64_t end);
  static std::optional<ReadRange> next_forward(Stream& s, uint64_t window, uint64_t piece, uint64_t end);
  static std::optional<ReadRange> next_backward(Stream& s, uint64_t window, uint64_t piece);
  static std::optional<ReadRange> next_strided(Stream& s, uint64_t window, uint64_t piece, uint64_t end);

  std::vector<Stream> streams_;    // at most kStreams; the one used last is first
  std::vector<ReadRange> recent_;  // at most kRemembered, a ring
  size_t next_ = 0;                // its next place
  bool followed_ = false;          // the latest read belongs to streams_.front()
  ReadRange given_;                // by next(), since the latest read
  uint64_t reach_before_ = 0;      // that of streams_.front()
};

}  // namespace nfsrdma::client
