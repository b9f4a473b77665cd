// SPDX-License-Identifier: Apache-2.0
#include "cli/bench/directories.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <fstream>
#include <set>
#include <thread>

#include "cli/bench/load.h"
#include "cli/bench/playground.h"
#include "cli/bench/subject.h"
#include "cli/support/version.h"
#include "fuse/session.h"
#include "transport/runtime/fd.h"

namespace nfsrdma::cli::bench {
namespace {

constexpr double kMiB = 1 << 20, kGiB = 1 << 30;
constexpr uint32_t kLargeBlock = 1 << 20, kSmallBlock = 4096;
constexpr unsigned kDepths[] = {1, 2, 4, 8, 16, 32};
constexpr unsigned kLargeDepths[] = {1, 2, 4, 8, 16};
constexpr const char* kDeepRead = "read, so many blocks at once";
constexpr unsigned kSmallDepths[] = {1, 8};
constexpr uint64_t kSlack = 4 << 20;  // for directories and the file system's own metadata

struct Operation {
  const char* metric;
  LoadOp op;
  bool direct = false;
  bool keep = false;
};
constexpr Operation kLarge[] = {{"write a new file", LoadOp::kWrite},
                                {"read", LoadOp::kRead},
                                {"read again", LoadOp::kRead, false, true},
                                {"read, O_DIRECT", LoadOp::kRead, true},
                                {"write, O_DIRECT", LoadOp::kWrite, true}};
constexpr Operation kSmall[] = {{"create", LoadOp::kCreate},
                                {"stat", LoadOp::kStat},
                                {"open, read, close", LoadOp::kSmallRead},
                                {"remove", LoadOp::kRemove}};

// The share of a file's pages in the page cache after POSIX_FADV_DONTNEED. None if it cannot be determined.
std::optional<double> share_cached(const std::string& path) {
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat st {};
  if (!file || fstat(file.get(), &st) != 0 || st.st_size == 0) return std::nullopt;
  posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  const auto size = static_cast<size_t>(st.st_size);
  void* const memory = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return std::nullopt;
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> cached((size + page - 1) / page);
  const bool known = mincore(memory, size, cached.data()) == 0;
  munmap(memory, size);
  if (!known) return std::nullopt;
  const auto count =
      std::count_if(cached.begin(), cached.end(), [](unsigned char c) { return (c & 1) != 0; });
  return static_cast<double>(count) / static_cast<double>(cached.size());
}

std::string processor() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

struct Place {
  Subject subject;
  Playground ground;
  bool direct = true;  // supports O_DIRECT
};

class Session {
 public:
  Session(const BenchVerb& verb, const std::atomic<bool>& stop,
          const std::function<void(const std::string&)>& say)
      : verb_(verb), stop_(stop), say_(say) {}

  Outcome<Document> run() {
    Outcome<> done = make_places();
    for (round_ = 0; done && round_ < verb_.rounds; ++round_) done = run_round();
    for (Place& place : places_) {
      const std::string why = place.ground.remove();
      if (why.empty()) continue;
      note(why + ".");  // the measurements remain valid
      if (!done) done.error().text += "; " + why;
    }
    if (!done) return tl::unexpected(std::move(done).error());
    describe();
    return std::move(document_);
  }

 private:
  Outcome<> make_places() {
    const uint64_t needed = (verb_.large || verb_.random ? verb_.size : 0) +
                            (verb_.small ? verb_.files * 2 * kSmallBlock : 0) + kSlack;
    for (const std::string& directory : verb_.directories) {
      auto subject = Subject::find(directory);
      if (!subject) return tl::unexpected(std::move(subject).error());
      auto ground = Playground::make(directory, needed);
      if (!ground) return tl::unexpected(std::move(ground).error());
      document_.contenders.push_back(subject->contender());
      places_.push_back({*std::move(subject), *std::move(ground)});
    }
    return {};
  }

  // Does one step in every place, one place after the other. Each round begins with another place.
  template <class Do>
  Outcome<> each(const char* what, Do what_to_do) {
    for (size_t i = 0; i < places_.size(); ++i) {
      Place& place = places_[(i + round_) % places_.size()];
      say_(fmt::format("round {} of {}, {}, {}", round_ + 1, verb_.rounds, what, place.subject.directory()));
      if (auto done = what_to_do(place); !done) return done;
    }
    return {};
  }

  Outcome<> run_round() {
    if (verb_.large || verb_.random) {
      for (const Operation& operation : kLarge) {
        if (!verb_.large && operation.op != LoadOp::kWrite) continue;  // random reads need the file
        if (!verb_.large && operation.direct) continue;
        auto done = each(operation.metric, [&](Place& place) { return large(place, operation); });
        if (!done) return done;
      }
    }
    for (const unsigned depth : kLargeDepths) {
      if (!verb_.large) break;
      if (auto done = each(kDeepRead, [&](Place& place) { return deep_read(place, depth); }); !done)
        return done;
    }
    for (const unsigned depth : kDepths) {
      if (!verb_.random) break;
      if (auto done = each("random reads", [&](Place& place) { return random_reads(place, depth); }); !done)
        return done;
    }
    for (const unsigned depth : kSmallDepths) {
      if (!verb_.small) break;
      for (const Operation& operation : kSmall) {
        auto done = each(operation.metric, [&](Place& place) { return small(place, operation, depth); });
        if (!done) return done;
      }
    }
    return {};
  }

  Outcome<> large(Place& place, const Operation& operation) {
    Load load;
    load.op = operation.op;
    load.path = place.ground.path("large");
    load.size = verb_.size / kLargeBlock * kLargeBlock;
    load.block = kLargeBlock;
    load.direct = operation.direct;
    load.keep = operation.keep;
    if (load.direct && !place.direct) return {};
    if (operation.op == LoadOp::kWrite && !operation.direct) unlink(load.path.c_str());
    if (operation.op == LoadOp::kRead && !operation.direct && !operation.keep)
      look_for_pages(place, load.path);
    return measured(place, load, verb_.large ? operation.metric : "", {});
  }

  Outcome<> deep_read(Place& place, unsigned depth) {
    Load load;
    load.path = place.ground.path("large");
    load.size = verb_.size / kLargeBlock * kLargeBlock;
    load.block = kLargeBlock;
    load.depth = depth;
    load.direct = place.direct;
    load.limit = verb_.time;
    return measured(place, load, kDeepRead, {{"depth", depth}});
  }

  Outcome<> random_reads(Place& place, unsigned depth) {
    Load load;
    load.op = LoadOp::kRandomRead;
    load.path = place.ground.path("large");
    load.size = verb_.size;
    load.block = kSmallBlock;
    load.depth = depth;
    load.count = UINT64_MAX;
    load.seed = round_ + 1;
    load.direct = place.direct;
    load.limit = verb_.time;
    return measured(place, load, "random read", {{"depth", depth}});
  }

  Outcome<> small(Place& place, const Operation& operation, unsigned depth) {
    Load load;
    load.op = operation.op;
    load.path = place.ground.path(fmt::format("f{}.", depth));
    load.block = kSmallBlock;
    load.depth = depth;
    load.fill = true;
    // Later steps use only the files that were created within the time limit.
    load.count = operation.op == LoadOp::kCreate ? verb_.files : created_[&place];
    if (operation.op == LoadOp::kCreate) load.limit = verb_.time;
    return measured(place, load, operation.metric, {{"depth", depth}});
  }

  // Runs a load. If the file system does not support O_DIRECT, a load with a time limit is repeated without
  // it; the others measure O_DIRECT itself and are skipped. Discards the result if `metric` is empty.
  Outcome<> measured(Place& place, Load load, const std::string& metric, const At& at) {
    const Used before = place.subject.used();
    auto result = run_load(load, stop_);
    if (!result && result.error().error == EINVAL && load.direct) {
      note(fmt::format("{} does not take O_DIRECT.", place.subject.directory()));
      place.direct = false;
      if (load.limit.count() == 0) return {};  // the metric is for O_DIRECT only
      load.direct = false;
      result = run_load(load, stop_);
    }
    if (!result)
      return refuse(ToolExit::kFailed, fmt::format("{}: {}", place.subject.directory(), result.error().what));
    if (load.op == LoadOp::kCreate) created_[&place] = result->operations;
    if (!metric.empty() && result->operations != 0)
      keep(metric, place, at, *result, before, place.subject.used());
    return {};
  }

  void keep(const std::string& metric, const Place& place, const At& at, const LoadResult& result,
            const Used& before, const Used& after) {
    Measurement& kept = document_.measurement(metric, place.subject.contender().name, at);
    const auto put = [&](const char* key, double value) { kept.values[key][round_] = value; };
    const auto operations = static_cast<double>(result.operations);
    const auto bytes = static_cast<double>(result.bytes);
    put("ops_per_s", operations / result.seconds);
    put("p50_us", result.p50_us);
    put("p99_us", result.p99_us);
    put("p999_us", result.p999_us);
    if (bytes > 0) {
      put("mib_per_s", bytes / kMiB / result.seconds);
      put("application_cpu_per_gib", result.cpu_seconds / (bytes / kGiB));
    }
    if (before.cpu_seconds && after.cpu_seconds) {
      const double cpu = *after.cpu_seconds - *before.cpu_seconds;
      put("cpu_us_per_op", cpu / operations * 1e6);
      put("cpu_percent", 100 * (cpu + result.cpu_seconds) / result.seconds);
      if (bytes > 0) put("cpu_per_gib", cpu / (bytes / kGiB));
    }
    if (before.calls && after.calls && *after.calls >= *before.calls)
      put("rpcs_per_op", static_cast<double>(*after.calls - *before.calls) / operations);
  }

  void look_for_pages(const Place& place, const std::string& path) {
    const auto share = share_cached(path);
    if (share && *share > 0.01)
      note(fmt::format("{} keeps files in the page cache whatever it is told: its \"read\" is not cold.",
                       place.subject.directory()));
  }

  void note(std::string text) {
    if (std::find(document_.notes.begin(), document_.notes.end(), text) == document_.notes.end())
      document_.notes.push_back(std::move(text));
  }

  // --- plots and conditions

  void describe() {
    document_.title = "nfsrdma-fuse bench " + verb_.directories.front();
    for (size_t i = 1; i < verb_.directories.size(); ++i) document_.title += " " + verb_.directories[i];
    document_.date = utc_now();
    utsname system{};
    uname(&system);
    document_.conditions = {
        {"host", system.nodename},
        {"processor", fmt::format("{} × {}", std::thread::hardware_concurrency(), processor())},
        {"kernel", fmt::format("{} {}", system.sysname, system.release)},
        {"program", program()},
        {"libfuse", fuse::libfuse_version()},
        {"server", server()},
        {"large file", fmt::format("{} MiB", verb_.size >> 20)},
        {"rounds", std::to_string(verb_.rounds)},
        {"small files", fmt::format("{} of 4 KiB", verb_.files)},
        {"longest run of random reads or creations", fmt::format("{} s", verb_.time.count())}};
    describe_large();
    describe_random();
    describe_small();
  }

  // The version of this command, and those of daemons with another version.
  std::string program() const {
    std::string out = fmt::format("nfsrdma-fuse {}", kVersion);
    for (const Place& place : places_) {
      const std::string& daemon = place.subject.daemon_version();
      if (!daemon.empty() && daemon != kVersion)
        out += fmt::format("; {} is a mount of {}", place.subject.directory(), daemon);
    }
    return out;
  }

  std::string server() const {
    std::set<std::string> names;
    for (const Place& place : places_) {
      if (place.subject.contender().role == Role::kOurs)
        names.insert(place.subject.server().empty() ? "does not name itself" : place.subject.server());
    }
    return names.empty() ? "none that is known" : fmt::format("{}", fmt::join(names, "; "));
  }

  Plot& plot(PlotKind kind, std::string title, std::string y, std::string text) {
    Plot& made = document_.plots.emplace_back();
    made.kind = kind;
    made.title = std::move(title);
    made.y = std::move(y);
    made.text = std::move(text);
    for (size_t i = 1; i < verb_.directories.size(); ++i)
      made.compare.push_back({verb_.directories.front(), verb_.directories[i]});
    return made;
  }

  void describe_large() {
    if (!verb_.large) return;
    std::vector<std::string> metrics;
    for (const Operation& operation : kLarge) metrics.emplace_back(operation.metric);
    plot(PlotKind::kBars, "Large transfers", "mib_per_s",
         "One file in blocks of 1 MiB. Before \"read\" the page cache has dropped the file; \"read again\" "
         "comes "
         "right after it. Writing ends with an fsync.")
        .metrics = metrics;
    plot(PlotKind::kBars, "CPU of the daemon for large transfers", "cpu_per_gib", "").metrics = metrics;
    plot(PlotKind::kBars, "Calls to the server for each MiB", "rpcs_per_op", "").metrics = metrics;
    Plot& deep = plot(PlotKind::kLines, "Throughput against queue depth", "mib_per_s",
                      "The file in order, in blocks of 1 MiB, so many of them under way at once; with "
                      "O_DIRECT where the file system takes it.");
    deep.metrics = {kDeepRead};
    deep.x = "depth";
  }

  void describe_random() {
    if (!verb_.random) return;
    const auto add = [&](const char* title, const char* y, const char* text) {
      Plot& made = plot(PlotKind::kLines, title, y, text);
      made.metrics = {"random read"};
      made.x = "depth";
    };
    add("4 KiB random reads", "ops_per_s", "With O_DIRECT where the file system takes it.");
    add("How long a random read takes: half of them", "p50_us", "");
    add("How long the slowest 1 % take", "p99_us", "");
    add("Calls to the server for each random read", "rpcs_per_op", "");
  }

  void describe_small() {
    if (!verb_.small) return;
    std::vector<std::string> metrics;
    for (const Operation& operation : kSmall) metrics.emplace_back(operation.metric);
    const auto add = [&](std::string title, const char* y, unsigned depth) {
      Plot& made = plot(PlotKind::kBars, std::move(title), y,
                        "Files of 4 KiB, created with their data, looked at, opened and read, removed.");
      made.metrics = metrics;
      made.where = {{"depth", depth}};
    };
    for (const unsigned depth : kSmallDepths)
      add(fmt::format("Small files, {}", depth == 1 ? "one at a time" : fmt::format("{} at once", depth)),
          "ops_per_s", depth);
    add("Calls to the server for each small file, one at a time", "rpcs_per_op", 1);
  }

  const BenchVerb& verb_;
  const std::atomic<bool>& stop_;
  const std::function<void(const std::string&)>& say_;
  std::vector<Place> places_;
  std::map<const Place*, uint64_t> created_;  // small files created in this round
  unsigned round_ = 0;
  Document document_;
};

}  // namespace

Outcome<Document> measure_directories(const BenchVerb& verb, const std::atomic<bool>& stop,
                                      const std::function<void(const std::string&)>& say) {
  return Session(verb, stop, say).run();
}

}  // namespace nfsrdma::cli::bench
