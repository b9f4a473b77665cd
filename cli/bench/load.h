// SPDX-License-Identifier: Apache-2.0
// Load on a directory: one kind of operation from `depth` threads, timed. `nfsrdma-fuse bench` and
// tests/bench/fsload measure with it.
//
// Each of the `depth` threads takes the next operation of one shared sequence, so `depth` operations are in
// progress at any time. Large operations use one file. Small ones use PATH0, PATH1, ... run_load() blocks
// until all operations are done. It works on any file system.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <tl/expected.hpp>

namespace nfsrdma::cli::bench {

enum class LoadOp {
  kRead,        // the whole file once, block by block
  kWrite,       // the same; creates the file if needed; the time includes an fsync at the end
  kRandomRead,  // blocks at pseudo-random offsets
  kStat,
  kCreate,     // open with O_CREAT a name that does not exist, write `block` bytes if `fill`, close
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
  bool keep = false;    // keep the file's pages in the page cache; else drop them first
  bool fill = false;
  uint64_t among = 0;                      // kStat: a random one of this many names; 0: each name in order
  bool ask = false;                        // kStat: ask the file system, not the kernel's cache
  std::chrono::duration<double> limit{0};  // start no operation after this time; 0: no limit

  bool on_file() const { return op == LoadOp::kRead || op == LoadOp::kWrite || op == LoadOp::kRandomRead; }
};

struct LoadResult {
  uint64_t operations = 0;
  uint64_t bytes = 0;
  double seconds = 0;
  double cpu_seconds = 0;  // of this process
  double p50_us = 0;       // latency of an operation: median, 99th and 99.9th percentile
  double p99_us = 0;
  double p999_us = 0;
};

// Why a load ended early: an errno and its place, or `stop` was set.
struct LoadFailure {
  int error = 0;  // 0: stopped
  std::string what;
};

// `stop` may be set at any time, also by a signal handler.
tl::expected<LoadResult, LoadFailure> run_load(const Load& load, const std::atomic<bool>& stop);

}  // namespace nfsrdma::cli::bench
