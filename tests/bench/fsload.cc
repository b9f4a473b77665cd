// SPDX-License-Identifier: Apache-2.0
// fsload runs on a mounted directory the same load that nfsload runs over libnfs, so that their results can
// be compared. The load itself is `nfsrdma-fuse bench`'s (cli/bench/load.h).
//
// usage: fsload --op read|write|randread --path FILE --size BYTES [--block BYTES] [--depth N] [--count N]
//               [--direct 1] [--keep 1] [--seconds S]
//        fsload --op stat|create|smallread --path PREFIX [--block BYTES] [--depth N] --count N [--seconds S]
//               [--among N] [--ask 1]
//
// The kernel's cached data of the file is dropped before the clock starts, unless --keep. --among: stat takes
// names at random; --ask: stat bypasses the kernel's attribute cache. --seconds ends a run early. Prints one
// JSON object: operations, bytes, wall seconds, the CPU seconds of this process, latencies.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>

#include "cli/bench/load.h"

namespace {

using nfsrdma::cli::bench::Load;
using nfsrdma::cli::bench::LoadOp;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "fsload: %s\n", what.c_str());
  std::_Exit(1);
}

Load parse(int argc, char** argv) {
  static const std::map<std::string, LoadOp> kOps{
      {"read", LoadOp::kRead}, {"write", LoadOp::kWrite},   {"randread", LoadOp::kRandomRead},
      {"stat", LoadOp::kStat}, {"create", LoadOp::kCreate}, {"smallread", LoadOp::kSmallRead}};
  Load load;
  std::string op;
  const std::map<std::string, std::function<void(const std::string&)>> known{
      {"--op", [&](const std::string& v) { op = v; }},
      {"--path", [&](const std::string& v) { load.path = v; }},
      {"--size", [&](const std::string& v) { load.size = std::stoull(v); }},
      {"--block", [&](const std::string& v) { load.block = static_cast<uint32_t>(std::stoul(v)); }},
      {"--depth", [&](const std::string& v) { load.depth = static_cast<unsigned>(std::stoul(v)); }},
      {"--count", [&](const std::string& v) { load.count = std::stoull(v); }},
      {"--seed", [&](const std::string& v) { load.seed = std::stoull(v); }},
      {"--direct", [&](const std::string& v) { load.direct = v == "1"; }},
      {"--among", [&](const std::string& v) { load.among = std::stoull(v); }},
      {"--ask", [&](const std::string& v) { load.ask = v == "1"; }},
      {"--keep", [&](const std::string& v) { load.keep = v == "1"; }},
      {"--seconds", [&](const std::string& v) { load.limit = std::chrono::duration<double>(std::stod(v)); }},
  };
  for (int i = 1; i < argc; i += 2) {
    const auto option = known.find(argv[i]);
    if (option == known.end() || i + 1 == argc) fail(std::string("unknown option or no value: ") + argv[i]);
    option->second(argv[i + 1]);
  }
  if (!kOps.contains(op)) fail("--op");
  load.op = kOps.at(op);
  if (load.path.empty() || load.block == 0 || load.depth == 0) fail("--path, --block, --depth");
  if (load.on_file() ? load.size < load.block : load.count == 0) fail("--size, --count");
  return load;
}

}  // namespace

int main(int argc, char** argv) {
  const Load load = parse(argc, argv);
  const std::atomic<bool> never{false};
  const auto done = run_load(load, never);
  if (!done) fail(done.error().what);
  std::printf(
      "{\"operations\": %llu, \"bytes\": %llu, \"seconds\": %.6f, \"cpu_seconds\": %.6f, \"p50_us\": %.1f, "
      "\"p99_us\": %.1f, \"p999_us\": %.1f}\n",
      static_cast<unsigned long long>(done->operations), static_cast<unsigned long long>(done->bytes),
      done->seconds, done->cpu_seconds, done->p50_us, done->p99_us, done->p999_us);
  return 0;
}
