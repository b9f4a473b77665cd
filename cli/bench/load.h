// SPDX-License-Identifier: Apache-2.0
// Load on a directory: one kind of operation, by so many threads at once, timed. What `nfsrdma-fuse bench`
// and tests/bench/fsload measure with.
//
// `depth` threads each do the next operation of one common sequence, so `depth` operations are under way at
// any time. Large operations go through one file; small ones act on PATH0, PATH1, ... Blocks until all is
// done. Knows nothing of mounts.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <tl/expected.hpp>

namespace nfsrdma::cli::bench {

enum class LoadOp {
  kRead,        // through the file once, block by block
  kWrite,       // the same, of a file that is made if need be; an fsync at the end is timed, too
  kRandomRead,  // blocks at places of a pseudo-random sequence
  kStat,
  kCreate,     // open with O_CREAT of what is not there, `block` bytes written if `fill`, close
  kSmallRead,  // open, read up to `block` bytes, close
  kRemove,
};

struct Load {
  LoadOp op = LoadOp::kRead;
  std::string path;
  uint64_t size = 0;  // bytes of the file
  uint32_t block = 1 << 20;
  unsigned depth = 1;
  uint64_t count = 0;  // operations; 0: the blocks of the file
  uint64_t seed = 1;
  bool direct = false;  // O_DIRECT
  bool keep = false;    // leave in the page cache what it has of the file; else that is dropped first
  bool fill = false;
  uint64_t among = 0;                      // kStat: of so many names, at random; 0: each in order
  bool ask = false;                        // kStat: the file system answers, whatever the kernel has cached
  std::chrono::duration<double> limit{0};  // stop after this time, and one operation; 0: none

  bool on_file() const { return op == LoadOp::kRead || op == LoadOp::kWrite || op == LoadOp::kRandomRead; }
};

struct LoadResult {
  uint64_t operations = 0;
  uint64_t bytes = 0;
  double seconds = 0;
  double cpu_seconds = 0;  // of this process
  double p50_us = 0;       // latency of an operation: median, and what 1 % and 0.1 % exceed
  double p99_us = 0;
  double p999_us = 0;
};

// Why a load ended early: an errno and where; or `stop` was set.
struct LoadFailure {
  int error = 0;  // 0: stopped
  std::string what;
};

// `stop` may be set at any time, by a signal handler, too.
tl::expected<LoadResult, LoadFailure> run_load(const Load& load, const std::atomic<bool>& stop);

}  // namespace nfsrdma::cli::bench
