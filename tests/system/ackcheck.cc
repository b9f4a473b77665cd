// SPDX-License-Identifier: Apache-2.0
// ackcheck: is everything that fsync(2) or close(2) acknowledged still there?
//
// usage: ackcheck write  --log FILE [--workers N] [--seconds S] [--seed N] [--until-error 1]
//                        [--server-dies 1] DIR
//        ackcheck verify --log FILE DIR
//
// `write` overwrites blocks of a few files per worker. It logs each intended block before it writes it, and
// each block that an fsync or close has acknowledged. It also creates and removes names, and logs these
// likewise. The log is on another file system. The client, the server, the connection or this program may be
// killed at any moment. `verify` runs on a fresh mount or in the exported directory itself. It requires of
// every block a generation between the last acknowledged and the last intended one, and of every name the
// acknowledged state unless a later change was in progress. A log belongs to one `write`: it must not exist
// before.
//
// A block is kBlock bytes of 16-byte stamps (file, block, generation). kBlock is not a multiple of the page
// size, so neighbouring blocks share pages. Log records are lines; each line is written by one write(2) with
// O_APPEND. With --server-dies an exclusive create may find the file that it made itself: a server that dies
// between making the file and storing the verifier (nfs-ganesha: eight system calls) cannot recognise it (RFC
// 8881 section 18.16.4 requires the verifier, but not atomically with the file). Exit status: 0 fine, 1
// something lost or wrong, 2 usage, 3 an operation failed (with --until-error: that is the end).
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct Stamp {
  uint32_t file;
  uint32_t block;
  uint64_t generation;
};
static_assert(sizeof(Stamp) == 16);

constexpr size_t kStamps = 188;
constexpr size_t kBlock = kStamps * sizeof(Stamp);
constexpr unsigned kFiles = 4;
constexpr unsigned kBlocks = 96;
constexpr unsigned kNames = 20;

struct Options {
  std::string log;
  std::string directory;
  unsigned workers = 2;
  double seconds = 5;
  uint64_t seed = 1;
  bool until_error = false;
  bool server_dies = false;
};

class Writer {
 public:
  Writer(const Options& options, unsigned worker)
      : options_(options), worker_(worker), generator_(options.seed * 1000 + worker) {
    log_ = open(options.log.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
    if (log_ < 0) std::exit(2);
    fds_.fill(-1);
  }

  int run() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(options_.seconds);
    while (std::chrono::steady_clock::now() < end) {
      const unsigned what = random(10);
      const unsigned file = random(kFiles);
      const bool fine = what < 6   ? write_blocks(file)
                        : what < 8 ? sync(file)
                        : what < 9 ? close_file(file)
                                   : change_name();
      if (!fine) return 3;
    }
    for (unsigned file = 0; file < kFiles; ++file) {
      if (!close_file(file)) return 3;
    }
    return 0;
  }

 private:
  unsigned random(unsigned below) {
    return std::uniform_int_distribution<unsigned>(0, below - 1)(generator_);
  }
  unsigned number(unsigned file) const { return worker_ * kFiles + file; }

  void log(const std::string& line) {
    const std::string text = line + "\n";
    if (write(log_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
      std::perror("ackcheck: log");
      std::exit(2);
    }
  }

  bool failed(const std::string& what) {
    const int error = errno;
    log("failed worker " + std::to_string(worker_) + " " + what + ": " + std::strerror(error));
    if (!options_.until_error) std::fprintf(stderr, "ackcheck: %s: %s\n", what.c_str(), std::strerror(error));
    return false;
  }

  bool open_file(unsigned file) {
    if (fds_[file] >= 0) return true;
    const std::string path = options_.directory + "/data." + std::to_string(number(file));
    fds_[file] = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    return fds_[file] >= 0 || failed("open " + path);
  }

  bool write_blocks(unsigned file) {
    if (!open_file(file)) return false;
    for (unsigned count = 1 + random(12); count > 0; --count) {
      const unsigned block = random(kBlocks);
      const uint64_t generation = ++generations_[{number(file), block}];
      std::array<Stamp, kStamps> stamps;
      stamps.fill({number(file), block, generation});
      log("i " + std::to_string(number(file)) + " " + std::to_string(block) + " " +
          std::to_string(generation));
      const ssize_t done = pwrite(fds_[file], stamps.data(), kBlock, static_cast<off_t>(block * kBlock));
      if (done < 0) return failed("write");
      if (static_cast<size_t>(done) == kBlock) pending_[file][block] = generation;
    }
    return true;
  }

  // One line for all blocks, because they were acknowledged together.
  void acknowledge(unsigned file) {
    std::string line = "a " + std::to_string(number(file));
    for (const auto& [block, generation] : pending_[file]) {
      line += " " + std::to_string(block) + " " + std::to_string(generation);
    }
    pending_[file].clear();
    log(line);
  }

  bool sync(unsigned file) {
    if (fds_[file] < 0) return true;
    if ((random(2) == 0 ? fsync(fds_[file]) : fdatasync(fds_[file])) != 0) return failed("fsync");
    acknowledge(file);
    return true;
  }

  bool close_file(unsigned file) {
    if (fds_[file] < 0) return true;
    const int result = close(fds_[file]);
    fds_[file] = -1;
    if (result != 0) return failed("close");
    acknowledge(file);
    return true;
  }

  // Whether the file exists, is empty, and has no verifier in its times. The times of a file whose verifier
  // was stored look random.
  bool half_made(const std::string& path) const {
    struct stat st {};
    if (!options_.server_dies || lstat(path.c_str(), &st) != 0) return false;
    constexpr time_t kLately = 60;
    return st.st_size == 0 && std::abs(st.st_mtime - st.st_ctime) < kLately &&
           std::abs(st.st_atime - st.st_ctime) < kLately;
  }

  bool change_name() {
    const std::string name = "name." + std::to_string(worker_) + "." + std::to_string(random(kNames));
    const std::string path = options_.directory + "/" + name;
    if (names_.contains(name)) {
      log("u " + name + " absent");
      if (unlink(path.c_str()) != 0) return failed("unlink " + name);
      names_.erase(name);
      log("n " + name + " absent");
      return true;
    }
    log("u " + name + " present");
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0 && !(errno == EEXIST && half_made(path))) return failed("exclusive create of " + name);
    if (fd >= 0 && close(fd) != 0) return failed("close " + name);
    names_.insert(name);
    log("n " + name + " present");
    return true;
  }

  const Options& options_;
  unsigned worker_;
  std::mt19937_64 generator_;
  int log_ = -1;
  std::array<int, kFiles> fds_{};
  std::map<std::pair<unsigned, unsigned>, uint64_t> generations_;
  std::array<std::map<unsigned, uint64_t>, kFiles> pending_;
  std::set<std::string> names_;
};

int write_all(const Options& options) {
  // The log must be new: blocks that another run acknowledged elsewhere would be reported as lost.
  const int log = open(options.log.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (log < 0) {
    std::fprintf(stderr, "ackcheck: cannot begin the log %s: %s\n", options.log.c_str(),
                 std::strerror(errno));
    return 2;
  }
  close(log);
  for (unsigned worker = 0; worker < options.workers; ++worker) {
    const pid_t child = fork();
    if (child < 0) return 2;
    if (child == 0) _exit(Writer(options, worker).run());
  }
  int worst = 0;
  for (int status = 0; wait(&status) > 0;)
    worst = std::max(worst, WIFEXITED(status) ? WEXITSTATUS(status) : 3);
  return options.until_error && worst == 3 ? 0 : worst;
}

struct Block {
  uint64_t intended = 0;
  uint64_t acknowledged = 0;
};
struct Name {
  std::string under_way;  // a change that was logged, but not its success
  std::string settled = "absent";
};
struct Log {
  std::map<unsigned, std::map<unsigned, Block>> files;
  std::map<std::string, Name> names;
  uint64_t acknowledgements = 0;
};

Log read_log(const std::string& path) {
  Log log;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string kind;
    words >> kind;
    if (kind == "i") {
      unsigned file = 0, block = 0;
      uint64_t generation = 0;
      words >> file >> block >> generation;
      log.files[file][block].intended = generation;
    } else if (kind == "a") {
      unsigned file = 0, block = 0;
      uint64_t generation = 0;
      words >> file;
      while (words >> block >> generation) {
        log.files[file][block].acknowledged = generation;
        ++log.acknowledgements;
      }
    } else if (kind == "u" || kind == "n") {
      std::string name, state;
      words >> name >> state;
      Name& entry = log.names[name];
      entry.under_way = kind == "u" ? state : "";
      if (kind == "n") {
        entry.settled = state;
        ++log.acknowledgements;
      }
    }
  }
  return log;
}

// Returns an error message for the block, empty when it is correct.
std::string check_block(int fd, unsigned file, unsigned block, const Block& expected) {
  std::array<Stamp, kStamps> stamps{};
  const ssize_t got = pread(fd, stamps.data(), kBlock, static_cast<off_t>(block * kBlock));
  if (got < 0) return std::strerror(errno);
  for (size_t i = 0; i < kStamps; ++i) {
    const Stamp& stamp = stamps[i];
    const bool zero = stamp.file == 0 && stamp.block == 0 && stamp.generation == 0;
    if (zero && expected.acknowledged == 0) continue;
    if (!zero && stamp.file == file && stamp.block == block && stamp.generation >= expected.acknowledged &&
        stamp.generation <= expected.intended) {
      continue;
    }
    return "bytes from " + std::to_string(i * sizeof(Stamp)) + " are of file " + std::to_string(stamp.file) +
           " block " + std::to_string(stamp.block) + " generation " + std::to_string(stamp.generation) +
           "; acknowledged was " + std::to_string(expected.acknowledged) + ", intended " +
           std::to_string(expected.intended);
  }
  return {};
}

int verify(const Options& options) {
  const Log log = read_log(options.log);
  uint64_t wrong = 0;
  const auto report = [&wrong](const std::string& what) {
    if (++wrong <= 20) std::fprintf(stderr, "ackcheck: LOST: %s\n", what.c_str());
  };
  for (const auto& [file, blocks] : log.files) {
    const std::string path = options.directory + "/data." + std::to_string(file);
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    for (const auto& [block, expected] : blocks) {
      if (fd < 0 && expected.acknowledged == 0) continue;
      const std::string what = fd < 0 ? std::strerror(ENOENT) : check_block(fd, file, block, expected);
      if (!what.empty())
        report("file " + std::to_string(file) + " block " + std::to_string(block) + ": " + what);
    }
    if (fd >= 0) close(fd);
  }
  for (const auto& [name, expected] : log.names) {
    struct stat st {};
    const std::string state =
        lstat((options.directory + "/" + name).c_str(), &st) == 0 ? "present" : "absent";
    if (state != expected.settled && state != expected.under_way) {
      report(name + " is " + state + ", acknowledged was " + expected.settled);
    }
  }
  if (log.acknowledgements == 0) report("nothing was ever acknowledged: this proves nothing");
  std::printf("ackcheck: %llu acknowledgements, %llu lost\n",
              static_cast<unsigned long long>(log.acknowledgements), static_cast<unsigned long long>(wrong));
  return wrong == 0 ? 0 : 1;
}

[[noreturn]] void usage() {
  std::fprintf(stderr,
               "usage: ackcheck write|verify --log FILE [--workers N] [--seconds S] [--seed N] "
               "[--until-error 1] [--server-dies 1] DIR\n");
  std::exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string arg = argv[i];
    const char* value = argv[i + 1];
    if (arg == "--log")
      options.log = value;
    else if (arg == "--workers")
      options.workers = static_cast<unsigned>(std::strtoul(value, nullptr, 10));
    else if (arg == "--seconds")
      options.seconds = std::strtod(value, nullptr);
    else if (arg == "--seed")
      options.seed = std::strtoull(value, nullptr, 10);
    else if (arg == "--until-error")
      options.until_error = std::strcmp(value, "1") == 0;
    else if (arg == "--server-dies")
      options.server_dies = std::strcmp(value, "1") == 0;
    else
      usage();
  }
  if (argc < 5 || options.log.empty()) usage();
  options.directory = argv[argc - 1];
  const std::string mode = argv[1];
  if (mode == "write") return write_all(options);
  if (mode == "verify") return verify(options);
  usage();
}
