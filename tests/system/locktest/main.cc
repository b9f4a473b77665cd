// SPDX-License-Identifier: Apache-2.0
// usage: locktest posix|flock [--seed N] [--steps N] [--owners N] [--isolate-eof 1] [--fair 1] DIR...
//        locktest counter [--rounds N] [--owners N] DIR...
//
// Several processes lock one file, spread over the directories (one file system by several mounts), and every
// answer is compared with a model. posix: random fcntl(2) locks: shared and exclusive, overlapping,
// splitting, upgrades, to the end of file, beyond 4 GiB, F_GETLK, waits that are granted in time or
// interrupted, release by closing any descriptor and by SIGKILL. flock: the same with flock(2). counter: each
// process adds 1 to a number in the file under a lock, so a stale read shows as a lost count.
//
// --isolate-eof: an owner releases all its locks before and after it holds one to the end of file.
// nfs-ganesha 4.3 needs that: if a part of such a lock gets another type there, the part keeps the old type.
// --fair: a lock may be refused while another owner waits for a conflicting one (RFC 8881 section 9.6), as by
// nfs-ganesha 6.
//
// Exit status: 0 all as the model says, 1 a difference, 2 usage, 3 a step that does not end.
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <memory>
#include <random>

#include "worker.h"

namespace {

using namespace locktest;

constexpr int kGrantWithinMs = 60000;  // a server without a callback for locks is polled; seconds are normal
constexpr int kNotYetMs = 20;

struct Options {
  std::string mode;
  uint64_t seed = 1;
  uint64_t steps = 1000;
  unsigned owners = 4;
  unsigned rounds = 200;
  bool isolate_eof = false;
  bool fair = false;
  std::vector<std::string> directories;
};

class Test {
 public:
  explicit Test(const Options& options) : options_(options), generator_(options.seed) {
    for (unsigned i = 0; i < options.owners; ++i) {
      const std::string& directory = options.directories[i % options.directories.size()];
      workers_.push_back(std::make_unique<Worker>(directory + "/locktest." + options.mode));
    }
  }

  void run() {
    for (step_ = 1; step_ <= options_.steps; ++step_) {
      options_.mode == "posix" ? posix_step() : flock_step();
      settle();
    }
    std::printf(
        "locktest: %s: seed %llu: %llu steps, %u owners: %llu granted, %llu denied, %llu waits granted, "
        "%llu interrupted, %llu killed\n",
        options_.mode.c_str(), static_cast<unsigned long long>(options_.seed),
        static_cast<unsigned long long>(options_.steps), options_.owners, granted_, denied_, waited_,
        interrupted_, killed_);
  }

 private:
  struct Waiting {
    unsigned owner;
    Command command;
  };

  uint64_t random(uint64_t below) {
    return std::uniform_int_distribution<uint64_t>(0, below - 1)(generator_);
  }

  [[noreturn]] void fail(const std::string& what) {
    std::fprintf(stderr, "locktest: DIFFERENCE: %s: seed %llu, step %llu: %s\nlatest steps:\n",
                 options_.mode.c_str(), static_cast<unsigned long long>(options_.seed),
                 static_cast<unsigned long long>(step_), what.c_str());
    for (const std::string& line : history_) std::fprintf(stderr, "  %s\n", line.c_str());
    workers_.clear();
    std::exit(1);
  }

  static std::string describe(short type, const Range& range) {
    const char* name = type == F_RDLCK ? "read" : type == F_WRLCK ? "write" : "unlock";
    const std::string end = range.end == kToEof ? "EOF" : std::to_string(range.end);
    return std::string(name) + " [" + std::to_string(range.begin) + ", " + end + ")";
  }

  void note(unsigned owner, const Command& command, const char* name) {
    history_.push_back(std::to_string(step_) + " owner " + std::to_string(owner) + " " + name + " " +
                       describe(command.type, command.range));
    if (history_.size() > 30) history_.pop_front();
  }

  Range some_range() {
    static constexpr uint64_t kBases[] = {0, 0, 0, 0, uint64_t{1} << 32, (uint64_t{1} << 62) + 7};
    const uint64_t begin = kBases[random(std::size(kBases))] + random(40);
    return {begin, random(5) == 0 ? kToEof : begin + 1 + random(30)};
  }

  // A worker that is not waiting for a lock; -1 when there is none.
  int some_idle() {
    for (int attempt = 0; attempt < 20; ++attempt) {
      const unsigned owner = static_cast<unsigned>(random(workers_.size()));
      if (!waiting_ || waiting_->owner != owner) return static_cast<int>(owner);
    }
    return -1;
  }

  void posix_step() {
    const int picked = some_idle();
    if (picked < 0) return;
    const unsigned owner = static_cast<unsigned>(picked);
    Command command{What::Set, random(2) == 0 ? short{F_RDLCK} : short{F_WRLCK}, some_range(), 0};
    if (options_.isolate_eof && (command.range.end == kToEof || model_.reaches_eof(owner))) unlock_all(owner);
    switch (random(20)) {
      case 0: return close_other_descriptor(owner);
      case 1: return kill_owner(owner);
      case 2:
      case 3: return test_lock(owner, command);
      case 4:
      case 5:
        if (!waiting_) return wait_for(owner, command, "waits for");
        return;
      case 6: return interrupt_waiting();
      case 7:
      case 8:
      case 9:
      case 10:
        command.type = F_UNLCK;
        note(owner, command, "set");
        expect(workers_[owner]->ask(command).error, 0, "unlock");
        model_.set(owner, F_UNLCK, command.range);
        return;
      default: return try_lock(owner, command, EAGAIN);
    }
  }

  void flock_step() {
    const int picked = some_idle();
    if (picked < 0) return;
    const unsigned owner = static_cast<unsigned>(picked);
    Command command{What::Flock, random(2) == 0 ? short{F_RDLCK} : short{F_WRLCK}, {}, 0};
    switch (random(10)) {
      case 0: return kill_owner(owner);
      case 1:
      case 2:
        command.what = What::FlockWait;
        if (!waiting_) return wait_for(owner, command, "flock waits for");
        return;
      case 3: return interrupt_waiting();
      case 4:
      case 5:
      case 6:
        command.type = F_UNLCK;
        note(owner, command, "flock");
        expect(workers_[owner]->ask(command).error, 0, "unlock");
        model_.set(owner, F_UNLCK, command.range);
        return;
      default: return try_lock(owner, command, EWOULDBLOCK);
    }
  }

  void expect(int got, int wanted, const std::string& what) {
    if (got != wanted) fail(what + ": " + std::strerror(got) + ", expected " + std::strerror(wanted));
  }

  void unlock_all(unsigned owner) {
    const Command unlock{What::Set, F_UNLCK, {}, 0};
    note(owner, unlock, "set");
    expect(workers_[owner]->ask(unlock).error, 0, "unlock");
    model_.drop_owner(owner);
    settle();
  }

  void try_lock(unsigned owner, const Command& command, int denied_error) {
    note(owner, command, command.what == What::Set ? "set" : "flock");
    const bool conflict = model_.conflict(owner, command.type, command.range) != nullptr;
    const bool behind = !conflict && options_.fair && waiting_ && in_conflict(waiting_->command, command);
    const int error = ask_patiently(owner, command, [&](const Answer& a) {
                        return !conflict && !behind && a.error != 0;
                      }).error;
    // flock(2): a conversion is not atomic; when the new lock is denied the old one may be gone.
    const bool converted = command.what == What::Flock && conflict;
    if (behind && error == denied_error) {
      if (command.what == What::Flock) drop_flock(owner);
      return void(++denied_);
    }
    if (error == EACCES && denied_error == EAGAIN && conflict) return void(++denied_);  // POSIX allows both
    expect(error, conflict ? denied_error : 0, "lock");
    if (!conflict) model_.set(owner, command.type, command.range);
    if (converted) drop_flock(owner);
    ++(conflict ? denied_ : granted_);
  }

  static bool in_conflict(const Command& a, const Command& b) {
    return (a.type == F_WRLCK || b.type == F_WRLCK) && a.range.overlaps(b.range);
  }

  void drop_flock(unsigned owner) {
    const Command unlock{What::Flock, F_UNLCK, {}, 0};
    expect(workers_[owner]->ask(unlock).error, 0, "unlock");
    model_.drop_owner(owner);
  }

  void test_lock(unsigned owner, Command command) {
    command.what = What::Get;
    note(owner, command, "test");
    const bool conflict = model_.conflict(owner, command.type, command.range) != nullptr;
    const Answer answer = ask_patiently(owner, command, [&](const Answer& a) {
      return a.type != F_UNLCK && (!conflict || !model_.holds(owner, a.type, a.range));
    });
    expect(answer.error, 0, "F_GETLK");
    if (!conflict && answer.type != F_UNLCK) fail("F_GETLK names a lock that is not there");
    if (conflict && answer.type == F_UNLCK) fail("F_GETLK does not see a conflict");
    if (conflict &&
        (!model_.holds(owner, answer.type, answer.range) || !answer.range.overlaps(command.range))) {
      fail("F_GETLK names a lock nobody holds: " + describe(answer.type, answer.range));
    }
  }

  void wait_for(unsigned owner, Command command, const char* name) {
    if (command.what == What::Set) command.what = What::SetWait;
    // An owner that waits while it holds a lock could deadlock with the next waiter, and flock conversions
    // are not atomic. So a waiter begins without locks.
    const Command unlock{command.what == What::SetWait ? What::Set : What::Flock, F_UNLCK, {}, 0};
    expect(workers_[owner]->ask(unlock).error, 0, "unlock");
    model_.drop_owner(owner);  // no wait depends on these locks: there is at most one waiter
    note(owner, command, name);
    workers_[owner]->begin(command);
    waiting_ = std::make_unique<Waiting>(Waiting{owner, command});
    if (model_.conflict(owner, command.type, command.range) != nullptr &&
        workers_[owner]->finish(kNotYetMs)) {
      fail("a wait for a lock somebody holds has ended");
    }
  }

  void interrupt_waiting() {
    if (!waiting_) return;
    note(waiting_->owner, waiting_->command, "is interrupted waiting for");
    std::optional<Answer> answer;
    for (int attempt = 0; attempt < 100 && !answer; ++attempt) {  // the signal may come before the wait
      workers_[waiting_->owner]->interrupt();
      answer = workers_[waiting_->owner]->finish(kGrantWithinMs / 100);
    }
    if (!answer) fail("a wait for a lock cannot be interrupted");
    expect(answer->error, EINTR, "interrupted wait");
    waiting_.reset();
    ++interrupted_;
  }

  void close_other_descriptor(unsigned owner) {
    note(owner, {What::ReopenAndClose, F_UNLCK, {}, 0}, "closes another descriptor, which means");
    expect(workers_[owner]->ask({What::ReopenAndClose, F_UNLCK, {}, 0}).error, 0, "open and close");
    model_.drop_owner(owner);
  }

  void kill_owner(unsigned owner) {
    note(owner, {}, "is killed, which means");
    workers_[owner]->kill_now();
    workers_[owner]->start();
    model_.drop_owner(owner);
    ++killed_;
  }

  // Repeats the command while the answer may still reflect a killed process's lock. POSIX locks go when the
  // kernel has closed the process's files; flock locks go with the release, for which no process waits.
  template <class Unwanted>
  Answer ask_patiently(unsigned owner, const Command& command, Unwanted unwanted) {
    const auto stuck = std::chrono::steady_clock::now() + std::chrono::milliseconds(kGrantWithinMs);
    Answer answer = workers_[owner]->ask(command);
    while (killed_ != 0 && unwanted(answer) && std::chrono::steady_clock::now() < stuck) {
      usleep(20000);
      answer = workers_[owner]->ask(command);
    }
    return answer;
  }

  // A wait must end if and only if no lock conflicts with it any more.
  void settle() {
    if (!waiting_ ||
        model_.conflict(waiting_->owner, waiting_->command.type, waiting_->command.range) != nullptr)
      return;
    const auto answer = workers_[waiting_->owner]->finish(kGrantWithinMs);
    if (!answer) fail("a wait does not end though the lock is free");
    expect(answer->error, 0, "wait");
    model_.set(waiting_->owner, waiting_->command.type, waiting_->command.range);
    waiting_.reset();
    ++waited_;
  }

  const Options& options_;
  std::mt19937_64 generator_;
  std::vector<std::unique_ptr<Worker>> workers_;
  LockModel model_;
  std::unique_ptr<Waiting> waiting_;
  std::deque<std::string> history_;
  uint64_t step_ = 0;
  unsigned long long granted_ = 0, denied_ = 0, waited_ = 0, interrupted_ = 0, killed_ = 0;
};

int count(const Options& options) {
  const std::string name = "/locktest.counter";
  std::ofstream(options.directories[0] + name) << "0\n";
  std::vector<std::unique_ptr<Worker>> workers;
  for (unsigned i = 0; i < options.owners; ++i) {
    workers.push_back(std::make_unique<Worker>(options.directories[i % options.directories.size()] + name));
  }
  for (const auto& worker : workers) worker->begin({What::Increment, F_WRLCK, {}, options.rounds});
  for (const auto& worker : workers) {
    const auto answer = worker->finish(300000);
    if (!answer) {
      std::fprintf(stderr, "locktest: STUCK: the counting has not ended within 300 s\n");
      return 3;
    }
    if (answer->error != 0) {
      std::fprintf(stderr, "locktest: DIFFERENCE: counting: %s\n", std::strerror(answer->error));
      return 1;
    }
  }
  workers.clear();
  const long expected = static_cast<long>(options.owners) * options.rounds;
  for (const std::string& directory : options.directories) {
    long got = -1;
    std::ifstream(directory + name) >> got;
    if (got != expected) {
      std::fprintf(stderr, "locktest: DIFFERENCE: %s counted to %ld, expected %ld\n", directory.c_str(), got,
                   expected);
      return 1;
    }
  }
  std::printf("locktest: counter: %u owners counted to %ld\n", options.owners, expected);
  return 0;
}

[[noreturn]] void usage() {
  std::fprintf(
      stderr,
      "usage: locktest posix|flock|counter [--seed N] [--steps N] [--owners N] [--rounds N] DIR...\n");
  std::exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (argc < 3) usage();
  options.mode = argv[1];
  for (int i = 2; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg.starts_with("--") && i + 1 < argc) {
      const uint64_t value = std::strtoull(argv[++i], nullptr, 10);
      if (arg == "--seed")
        options.seed = value;
      else if (arg == "--steps")
        options.steps = value;
      else if (arg == "--isolate-eof")
        options.isolate_eof = value != 0;
      else if (arg == "--fair")
        options.fair = value != 0;
      else if (arg == "--owners")
        options.owners = static_cast<unsigned>(value);
      else if (arg == "--rounds")
        options.rounds = static_cast<unsigned>(value);
      else
        usage();
    } else {
      options.directories.push_back(arg);
    }
  }
  if (options.directories.empty() || options.owners < 2) usage();
  if (options.mode == "counter") return count(options);
  if (options.mode != "posix" && options.mode != "flock") usage();
  Test(options).run();
  return 0;
}
