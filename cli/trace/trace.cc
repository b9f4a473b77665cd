// SPDX-License-Identifier: Apache-2.0
#include "cli/trace/trace.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "cli/control/ask_daemon.h"
#include "cli/support/mountinfo.h"
#include "cli/support/version.h"
#include "cli/trace/pcapng.h"
#include "transport/runtime/fd.h"

namespace nfsrdma::cli {
namespace {

using Clock = std::chrono::steady_clock;

// The pause after an answer without records.
constexpr timespec kPause{0, 100'000'000};

// SIGINT, SIGTERM and SIGHUP are taken only while the tool pauses, so fetched records are written first.
class EndSignals {
 public:
  EndSignals() {
    sigemptyset(&set_);
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set_, number);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  }
  // Waits at most `time`; returns whether a signal has come.
  bool wait(timespec time) const { return sigtimedwait(&set_, nullptr, &time) > 0; }

 private:
  sigset_t set_{};
};

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// The destination of the traced records.
class Output {
 public:
  virtual ~Output() = default;
  virtual Json first_request() const = 0;
  // Takes at most `most` records of the daemon's answer; returns how many of them counted.
  virtual Outcome<uint64_t> take(const Json& list, uint64_t most) = 0;
  // Called when the daemon has started the trace.
  virtual Outcome<> begin() { return {}; }
  // The name of the answer's member that holds the records.
  virtual const char* what() const = 0;
};

class Lines final : public Output {
 public:
  explicit Lines(const TraceVerb& verb) : verb_(verb) {}

  Json first_request() const override {
    Json request{{"command", "trace"}, {"at_least_ns", verb_.at_least.count()}};
    if (!verb_.operations.empty()) request["operations"] = verb_.operations;
    return request;
  }

  Outcome<uint64_t> take(const Json& list, uint64_t most) override {
    uint64_t shown = 0;
    for (const Json& element : list) {
      if (shown == most) break;
      if (!element.is_object()) continue;
      const TraceRecord record = trace_record_from_json(element);
      if (!wanted(verb_, record)) continue;
      ++shown;
      const std::string line = verb_.json ? element.dump(-1, ' ', true, Json::error_handler_t::replace)
                                          : printable_text(trace_line(record));
      if (std::printf("%s\n", line.c_str()) < 0) return write_failed();
    }
    if (std::fflush(stdout) != 0) return write_failed();
    return shown;
  }

  const char* what() const override { return "operations"; }

 private:
  static Outcome<uint64_t> write_failed() {
    return refuse(ToolExit::kFailed, fmt::format("standard output: {}", std::strerror(errno)));
  }
  const TraceVerb& verb_;
};

class PcapFile final : public Output {
 public:
  // The file keeps its old content until begin(): the daemon may refuse.
  static Outcome<std::unique_ptr<PcapFile>> create(const std::string& name) {
    Fd fd(name == "-" ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)
                      : open(name.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    if (!fd) return refuse(ToolExit::kFailed, fmt::format("{}: {}", name, std::strerror(errno)));
    return std::unique_ptr<PcapFile>(new PcapFile(name, std::move(fd)));
  }

  Outcome<> begin() override {
    struct stat st {};
    // Pipes and standard output (which may append to a file) are not truncated.
    const bool empties = name_ != "-" && fstat(fd_.get(), &st) == 0 && S_ISREG(st.st_mode);
    if (empties && ftruncate(fd_.get(), 0) != 0)
      return refuse(ToolExit::kFailed, fmt::format("{}: {}", name_, std::strerror(errno)));
    return write(format_.header());
  }

  Json first_request() const override { return {{"command", "trace"}, {"messages", 1}}; }

  Outcome<uint64_t> take(const Json& list, uint64_t most) override {
    uint64_t written = 0;
    for (const Json& element : list) {
      if (written == most) break;
      const auto message = captured_message_from_json(element);
      if (!message) return tl::unexpected(message.error());
      if (auto done = write(format_.add(*message)); !done) return tl::unexpected(std::move(done).error());
      ++written;
    }
    return written;
  }

  const char* what() const override { return "messages"; }

 private:
  PcapFile(std::string name, Fd fd) : name_(std::move(name)), fd_(std::move(fd)) {}

  Outcome<> write(ConstBytes bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_.get(), bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return refuse(ToolExit::kFailed, fmt::format("{}: {}", name_, std::strerror(errno)));
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
    return {};
  }

  const std::string name_;
  const Fd fd_;
  Pcapng format_{fmt::format("nfsrdma-fuse {}", kVersion)};
};

// The number of requests after a signal or the time limit, to fetch the records from before it. The daemon
// stores no more than this many answers can carry. On a busy mount new records keep coming.
constexpr int kLastRounds = 20;

struct Ended {
  uint64_t shown = 0;
  uint64_t lost = 0;
};

Outcome<Ended> follow(const MountEntry& entry, const TraceVerb& verb, const Json& request,
                      const EndSignals& signals, Output& output) {
  const auto end = verb.duration ? Clock::now() + *verb.duration : Clock::time_point::max();
  Ended ended;
  int rounds = kLastRounds;
  while (true) {
    const auto answered = ask_daemon(entry, request);
    if (!answered) return tl::unexpected(answered.error());
    const Json& answer = answered->json;
    ended.lost += number_in(answer, "lost");
    const uint64_t most = verb.count ? *verb.count - ended.shown : UINT64_MAX;
    const auto found = answer.find(output.what());
    if (found == answer.end() || !found->is_array())
      return refuse(ToolExit::kFailed, "the daemon's answer is not understandable");
    const Json& list = *found;
    const auto shown = output.take(list, most);
    if (!shown) return tl::unexpected(shown.error());
    ended.shown += *shown;
    if (ended.shown == verb.count) return ended;
    if (rounds == kLastRounds) {
      if (!signals.wait(list.empty() ? kPause : timespec{}) && Clock::now() < end) continue;
    } else if (list.empty()) {
      return ended;
    }
    if (--rounds == 0) return ended;
  }
}

Outcome<Ended> trace(const MountEntry& entry, const TraceVerb& verb, Output& output) {
  const EndSignals signals;
  const auto begun = ask_daemon(entry, output.first_request());
  if (!begun) return tl::unexpected(begun.error());
  Json request{{"command", "trace"}, {"id", number_in(begun->json, "id")}};
  const auto ended = output.begin().and_then([&] { return follow(entry, verb, request, signals, output); });
  request["end"] = 1;
  // An older daemon does not know "end": it answers with new records, and ends the trace after some seconds
  // without a request.
  (void)ask_daemon(entry, request);
  return ended;
}

}  // namespace

bool wanted(const TraceVerb& verb, const TraceRecord& r) {
  if (verb.failures && r.errnum == 0) return false;
  if (!verb.process.empty() &&
      verb.process != (is_number(verb.process) ? std::to_string(r.process) : r.command))
    return false;
  if (verb.path.empty()) return true;
  const auto matches = [&](const std::string& path) {
    return fnmatch(verb.path.c_str(), path.c_str(), 0) == 0;
  };
  return matches(r.path) || (!r.new_path.empty() && matches(r.new_path));
}

int run_trace(const std::string& program, const TraceVerb& verb) {
  const auto entry = find_our_mount(read_mountinfo(), verb.directory, true);
  if (!entry) return report(program, entry.error());
  std::unique_ptr<Output> output = std::make_unique<Lines>(verb);
  if (!verb.pcap.empty()) {
    auto file = PcapFile::create(verb.pcap);
    if (!file) return report(program, file.error());
    output = *std::move(file);
  }
  const auto ended = trace(*entry, verb, *output);
  if (!ended) return report(program, ended.error());
  if (ended->lost != 0) {
    fmt::print(stderr, "{}: {} {} are missing: they came faster than they were fetched\n", program,
               ended->lost, output->what());
  }
  return 0;
}

}  // namespace nfsrdma::cli
