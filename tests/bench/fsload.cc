// fsload does on a mounted directory what nfsload does over libnfs, so that their figures can stand side by
// side.
//
// usage: fsload --op read|write|randread --path FILE [--size BYTES] [--block BYTES] [--depth N] [--count N]
// [--direct 1]
//        fsload --op stat|create|smallread --path PREFIX [--block BYTES] [--depth N] --count N
//
// `depth` threads each do the next operation of one common sequence. read and write go through the file once,
// write to a file that exists and with an fsync at the end; what the kernel has cached of it is dropped
// before the clock starts. stat, create and smallread (open, read, close) act on PREFIX0, PREFIX1, ... Prints
// one JSON object: operations, bytes, wall seconds and the CPU seconds of this process.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Options {
  std::string op;
  std::string path;
  uint64_t size = 0;
  uint32_t block = 1 << 20;
  unsigned depth = 1;
  uint64_t count = 0;
  uint64_t seed = 1;
  bool direct = false;
};

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "fsload: %s: %s\n", what.c_str(), std::strerror(errno));
  std::_Exit(1);
}

Options parse(int argc, char** argv) {
  Options o;
  std::map<std::string, std::function<void(const std::string&)>> known{
      {"--op", [&](const std::string& v) { o.op = v; }},
      {"--path", [&](const std::string& v) { o.path = v; }},
      {"--size", [&](const std::string& v) { o.size = std::stoull(v); }},
      {"--block", [&](const std::string& v) { o.block = static_cast<uint32_t>(std::stoul(v)); }},
      {"--depth", [&](const std::string& v) { o.depth = static_cast<unsigned>(std::stoul(v)); }},
      {"--count", [&](const std::string& v) { o.count = std::stoull(v); }},
      {"--seed", [&](const std::string& v) { o.seed = std::stoull(v); }},
      {"--direct", [&](const std::string& v) { o.direct = v == "1"; }},
  };
  errno = EINVAL;
  for (int i = 1; i < argc; i += 2) {
    const auto option = known.find(argv[i]);
    if (option == known.end() || i + 1 == argc) fail(std::string("unknown option or no value: ") + argv[i]);
    option->second(argv[i + 1]);
  }
  const bool on_file = o.op == "read" || o.op == "write" || o.op == "randread";
  if (!on_file && o.op != "stat" && o.op != "create" && o.op != "smallread") fail("--op");
  if (o.path.empty() || o.block == 0 || o.depth == 0) fail("--path, --block, --depth");
  if (on_file && o.size < o.block) fail("--size");
  if (o.count == 0 && on_file) o.count = o.size / o.block;
  if (o.count == 0) fail("--count");
  return o;
}

class Load {
 public:
  explicit Load(const Options& options) : options_(options) {
    const std::string& op = options_.op;
    on_file_ = op == "read" || op == "write" || op == "randread";
    if (!on_file_) return;
    const int flags = (op == "write" ? O_WRONLY : O_RDONLY) | (options_.direct ? O_DIRECT : 0) | O_CLOEXEC;
    fd_ = open(options_.path.c_str(), flags);
    if (fd_ < 0) fail("open " + options_.path);
    posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
    if (op == "randread") posix_fadvise(fd_, 0, 0, POSIX_FADV_RANDOM);
  }

  void run() {
    const auto begin = std::chrono::steady_clock::now();
    const double cpu_before = cpu_seconds();
    std::vector<std::thread> threads;
    for (unsigned i = 1; i < options_.depth; ++i) threads.emplace_back([this, i] { work(i); });
    work(0);
    for (std::thread& thread : threads) thread.join();
    if (options_.op == "write" && fsync(fd_) != 0) fail("fsync");
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    std::printf(
        "{\"op\": \"%s\", \"depth\": %u, \"block\": %u, \"direct\": %s, \"operations\": %llu, \"bytes\": "
        "%llu, "
        "\"seconds\": %.6f, \"cpu_seconds\": %.6f}\n",
        options_.op.c_str(), options_.depth, options_.block, options_.direct ? "true" : "false",
        static_cast<unsigned long long>(options_.count), static_cast<unsigned long long>(bytes_.load()),
        seconds, cpu_seconds() - cpu_before);
  }

 private:
  static double cpu_seconds() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& t) { return double(t.tv_sec) + double(t.tv_usec) * 1e-6; };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
  }

  void work(unsigned thread) {
    std::mt19937_64 random(options_.seed * 1000 + thread);
    const size_t room = (size_t{options_.block} + 4095) / 4096 * 4096;
    const std::unique_ptr<char, void (*)(void*)> buffer(static_cast<char*>(std::aligned_alloc(4096, room)),
                                                        &std::free);
    std::memset(buffer.get(), 'f', room);
    const uint64_t blocks = on_file_ ? options_.size / options_.block : 0;
    for (uint64_t index; (index = next_.fetch_add(1)) < options_.count;) {
      if (on_file_) {
        const uint64_t block = options_.op == "randread" ? random() % blocks : index % blocks;
        transfer(buffer.get(), static_cast<off_t>(block * options_.block));
      } else {
        on_name(options_.path + std::to_string(index), buffer.get());
      }
    }
  }

  void transfer(char* buffer, off_t offset) {
    const ssize_t done = options_.op == "write" ? pwrite(fd_, buffer, options_.block, offset)
                                                : pread(fd_, buffer, options_.block, offset);
    if (done != static_cast<ssize_t>(options_.block)) fail("transfer at " + std::to_string(offset));
    bytes_ += static_cast<uint64_t>(done);
  }

  void on_name(const std::string& name, char* buffer) {
    if (options_.op == "stat") {
      struct stat st {};
      if (stat(name.c_str(), &st) != 0) fail("stat " + name);
      return;
    }
    const bool create = options_.op == "create";
    const int fd =
        open(name.c_str(), create ? O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC : O_RDONLY | O_CLOEXEC, 0644);
    if (fd < 0) fail("open " + name);
    if (!create) {
      const ssize_t done = read(fd, buffer, options_.block);
      if (done < 0) fail("read " + name);
      bytes_ += static_cast<uint64_t>(done);
    }
    if (close(fd) != 0) fail("close " + name);
  }

  const Options& options_;
  bool on_file_ = false;
  int fd_ = -1;
  std::atomic<uint64_t> next_{0};
  std::atomic<uint64_t> bytes_{0};
};

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  Load(options).run();
  return 0;
}
