// SPDX-License-Identifier: Apache-2.0
#include "cli/bench/load.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "transport/runtime/fd.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::cli::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kAlignment = 4096;  // memory alignment that O_DIRECT may require

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) { return double(t.tv_sec) + double(t.tv_usec) * 1e-6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double microseconds_at(const std::vector<Clock::duration>& sorted, double share) {
  if (sorted.empty()) return 0;
  const auto at = static_cast<size_t>(share * static_cast<double>(sorted.size() - 1) + 0.5);
  return std::chrono::duration<double, std::micro>(sorted[at]).count();
}

class Runner {
 public:
  Runner(const Load& load, const std::atomic<bool>& stop) : load_(load), stop_(stop) {
    blocks_ = load.on_file() && load.block != 0 ? load.size / load.block : 0;
    count_ = load.count != 0 ? load.count : blocks_;
  }

  tl::expected<LoadResult, LoadFailure> run() {
    if (load_.on_file() && !open_file()) return tl::unexpected(failure_);
    const Clock::time_point begin = Clock::now();
    const double cpu_before = cpu_seconds();
    if (load_.limit.count() > 0) end_ = begin + std::chrono::duration_cast<Clock::duration>(load_.limit);
    std::vector<std::thread> threads;
    for (unsigned i = 1; i < load_.depth; ++i) threads.emplace_back([this, i] { work(i); });
    work(0);
    for (std::thread& thread : threads) thread.join();
    if (!failed_ && load_.op == LoadOp::kWrite && fsync(file_.get()) != 0) fail("fsync", errno);
    LoadResult result;
    result.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    result.cpu_seconds = cpu_seconds() - cpu_before;
    if (failed_) return tl::unexpected(failure_);
    if (stop_) return tl::unexpected(LoadFailure{0, "stopped"});
    std::sort(latencies_.begin(), latencies_.end());
    result.operations = latencies_.size();
    result.bytes = bytes_;
    result.p50_us = microseconds_at(latencies_, 0.5);
    result.p99_us = microseconds_at(latencies_, 0.99);
    result.p999_us = microseconds_at(latencies_, 0.999);
    return result;
  }

 private:
  bool open_file() {
    const int flags = (load_.op == LoadOp::kWrite ? O_WRONLY | O_CREAT : O_RDONLY) |
                      (load_.direct ? O_DIRECT : 0) | O_CLOEXEC;
    file_ = Fd(open(load_.path.c_str(), flags, 0600));
    if (!file_) return fail("open " + load_.path, errno);
    if (!load_.keep) posix_fadvise(file_.get(), 0, 0, POSIX_FADV_DONTNEED);
    if (load_.op == LoadOp::kRandomRead) posix_fadvise(file_.get(), 0, 0, POSIX_FADV_RANDOM);
    return true;
  }

  // At least one operation runs, however short the time: otherwise there is nothing to measure.
  bool over(Clock::time_point now) const { return failed_ || stop_ || (end_ && now >= *end_ && next_ > 0); }

  void work(unsigned thread) {
    std::mt19937_64 random(load_.seed * 1000 + thread);
    const size_t room = (size_t{load_.block} + kAlignment - 1) / kAlignment * kAlignment;
    const std::unique_ptr<char, void (*)(void*)> buffer(
        static_cast<char*>(std::aligned_alloc(kAlignment, room)), &std::free);
    if (!buffer) {
      fail("memory", ENOMEM);
      return;
    }
    std::memset(buffer.get(), 'f', room);
    std::vector<Clock::duration> latencies;
    Clock::time_point before = Clock::now();
    for (uint64_t index; !over(before) && (index = next_.fetch_add(1)) < count_;) {
      const uint64_t places = load_.op == LoadOp::kRandomRead ? blocks_ : load_.among;
      const uint64_t place = places != 0 ? random() % places : index;
      if (!one(place, buffer.get())) break;
      const Clock::time_point after = Clock::now();
      latencies.push_back(after - before);
      before = after;
    }
    const MutexLock lock(mutex_);
    latencies_.insert(latencies_.end(), latencies.begin(), latencies.end());
  }

  bool one(uint64_t index, char* buffer) {
    if (load_.on_file()) return transfer(buffer, static_cast<off_t>(index % blocks_ * load_.block));
    const std::string name = load_.path + std::to_string(index);
    switch (load_.op) {
      case LoadOp::kStat: {
        struct statx st {};
        const int how = load_.ask ? AT_STATX_FORCE_SYNC : AT_STATX_SYNC_AS_STAT;
        return statx(AT_FDCWD, name.c_str(), how, STATX_BASIC_STATS, &st) == 0 || fail("stat " + name, errno);
      }
      case LoadOp::kRemove: return unlink(name.c_str()) == 0 || fail("unlink " + name, errno);
      case LoadOp::kCreate: return small_file(name, O_CREAT | O_WRONLY, buffer);
      default: return small_file(name, O_RDONLY, buffer);
    }
  }

  bool transfer(char* buffer, off_t offset) {
    const size_t wanted = load_.block;
    for (size_t done = 0; done < wanted;) {
      const off_t at = offset + static_cast<off_t>(done);
      const ssize_t moved = load_.op == LoadOp::kWrite ? pwrite(file_.get(), buffer + done, wanted - done, at)
                                                       : pread(file_.get(), buffer + done, wanted - done, at);
      if (moved < 0 && errno == EINTR) continue;
      if (moved < 0) return fail("transfer at " + std::to_string(at), errno);
      if (moved == 0) return fail("the file ends at " + std::to_string(at), EIO);
      done += static_cast<size_t>(moved);
    }
    bytes_ += wanted;
    return true;
  }

  bool small_file(const std::string& name, int flags, char* buffer) {
    const int fd = open(name.c_str(), flags | O_CLOEXEC, 0644);
    if (fd < 0) return fail("open " + name, errno);
    ssize_t done = 0;
    if (load_.op == LoadOp::kSmallRead) done = read(fd, buffer, load_.block);
    if (load_.op == LoadOp::kCreate && load_.fill) done = write(fd, buffer, load_.block);
    const int error = errno;
    if (close(fd) != 0) return fail("close " + name, errno);
    if (done < 0) return fail(name, error);
    bytes_ += static_cast<uint64_t>(done);
    return true;
  }

  // Only the first failure is reported.
  bool fail(const std::string& what, int error) {
    const MutexLock lock(mutex_);
    if (!failed_) failure_ = {error, what + ": " + std::strerror(error)};
    failed_ = true;
    return false;
  }

  const Load& load_;
  const std::atomic<bool>& stop_;
  uint64_t blocks_ = 0;
  uint64_t count_ = 0;
  Fd file_;
  std::optional<Clock::time_point> end_;
  std::atomic<uint64_t> next_{0};
  std::atomic<uint64_t> bytes_{0};
  std::atomic<bool> failed_{false};
  Mutex mutex_;
  LoadFailure failure_;                     // under mutex_ while threads run
  std::vector<Clock::duration> latencies_;  // under mutex_ while threads run
};

}  // namespace

tl::expected<LoadResult, LoadFailure> run_load(const Load& load, const std::atomic<bool>& stop) {
  return Runner(load, stop).run();
}

}  // namespace nfsrdma::cli::bench
