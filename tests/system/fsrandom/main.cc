// SPDX-License-Identifier: Apache-2.0
// usage: fsrandom [--seed N] [--steps N] [--workers N] [--check-every N] [--max-bytes N] [--scans N]
//                 [--witness DIR] [--dump FILE] [--tolerate none|silly] [--without KIND,...]
//                 [--require KIND,...] [--step-timeout S] DIR
//        fsrandom --verify FILE [--tolerate none|silly] DIR
//
// Random file operations in DIR, compared after each step with a model in memory. Each of several workers has
// its own subdirectory, process and seed (N, N+1, ...). --witness is the same directory by another way, which
// is compared, too, at every check. --dump writes the model at the end, so that --verify can compare another
// mount with it. --scans is the weight, among about 130, of steps that read long runs. --require fails when
// the directory lacks something optional (direct, noreplace, allocate).
//
// Exit status: 0 no difference, 1 a difference (printed with seed, step and history), 2 usage, 3 a step that
// does not end.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <sstream>

#include "runner.h"

namespace {

using fsrandom::Options;

struct Arguments {
  Options options;
  unsigned workers = 1;
  std::string dump;
  std::string verify;
  std::set<std::string> require;
};

[[noreturn]] void usage(const std::string& what) {
  std::fprintf(stderr, "fsrandom: %s; the head of tests/system/fsrandom/main.cc has the usage\n",
               what.c_str());
  std::exit(2);
}

std::set<std::string> split(const std::string& list) {
  std::set<std::string> parts;
  std::istringstream in(list);
  for (std::string part; std::getline(in, part, ',');) parts.insert(part);
  return parts;
}

Arguments parse(int argc, char** argv) {
  Arguments a;
  Options& o = a.options;
  std::map<std::string, std::function<void(const std::string&)>> known{
      {"--seed", [&](const std::string& v) { o.seed = std::stoull(v); }},
      {"--steps", [&](const std::string& v) { o.steps = std::stoull(v); }},
      {"--workers", [&](const std::string& v) { a.workers = static_cast<unsigned>(std::stoul(v)); }},
      {"--check-every", [&](const std::string& v) { o.check_every = std::stoull(v); }},
      {"--max-bytes", [&](const std::string& v) { o.max_bytes = std::stoull(v); }},
      {"--scans", [&](const std::string& v) { o.scans = static_cast<unsigned>(std::stoul(v)); }},
      {"--witness", [&](const std::string& v) { o.witness = v; }},
      {"--dump", [&](const std::string& v) { a.dump = v; }},
      {"--verify", [&](const std::string& v) { a.verify = v; }},
      {"--without", [&](const std::string& v) { o.without = split(v); }},
      {"--require", [&](const std::string& v) { a.require = split(v); }},
      {"--step-timeout",
       [&](const std::string& v) { o.step_timeout_s = static_cast<unsigned>(std::stoul(v)); }},
      {"--tolerate",
       [&](const std::string& v) {
         if (v != "none" && v != "silly") usage("--tolerate knows none and silly");
         o.silly = v == "silly";
       }},
  };
  int i = 1;
  for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
    const auto option = known.find(argv[i]);
    if (option == known.end()) usage(std::string("unknown option ") + argv[i]);
    option->second(argv[i + 1]);
  }
  if (i + 1 != argc || argv[i][0] == '-') usage("exactly one directory is needed");
  o.directory = argv[i];
  if (a.workers == 0 || o.check_every == 0) usage("--workers and --check-every are at least 1");
  return a;
}

void print_failure(const Options& options, const fsrandom::Runner& runner, const char* what) {
  std::ostringstream out;
  out << "fsrandom: DIFFERENCE: seed " << options.seed << ", step " << runner.step() << ", directory "
      << options.directory << ":\n  " << what << "\nlatest steps:\n";
  for (const std::string& line : runner.history()) out << "  " << line << "\n";
  std::fputs(out.str().c_str(), stderr);
}

void step_does_not_end(int) {
  static constexpr char kMessage[] = "fsrandom: STUCK: a step has not ended within --step-timeout\n";
  [[maybe_unused]] const ssize_t ignored = write(2, kMessage, sizeof(kMessage) - 1);
  _exit(3);
}

int run(const Arguments& arguments, const Options& options, const std::string& dump) {
  signal(SIGALRM, step_does_not_end);
  fsrandom::Runner runner(options);
  const auto begin = std::chrono::steady_clock::now();
  try {
    runner.run();
    if (!dump.empty()) fsrandom::save_tree(runner.tree(), dump);
    for (const std::string& kind : arguments.require) {
      if (runner.unsupported().contains(kind))
        throw fsrandom::Mismatch(kind + " is required but not supported");
    }
  } catch (const fsrandom::Mismatch& mismatch) {
    print_failure(options, runner, mismatch.what());
    return 1;
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::ostringstream out;
  out << "fsrandom: seed " << options.seed << ": " << runner.step() << " steps in " << seconds
      << " s, no difference;";
  for (const auto& [kind, count] : runner.counts()) out << " " << kind << " " << count;
  if (!runner.unsupported().empty()) out << "; not supported:";
  for (const std::string& kind : runner.unsupported()) out << " " << kind;
  std::puts(out.str().c_str());
  return 0;
}

int run_workers(const Arguments& arguments) {
  for (unsigned i = 0; i < arguments.workers; ++i) {
    Options options = arguments.options;
    options.seed += i;
    const std::string part = "/worker" + std::to_string(i);
    options.directory += part;
    if (!options.witness.empty()) options.witness += part;
    if (mkdir(options.directory.c_str(), 0755) != 0)
      usage("mkdir " + options.directory + ": " + std::strerror(errno));
    const pid_t child = fork();
    if (child < 0) usage("cannot fork");
    if (child == 0) {
      const int status =
          run(arguments, options, arguments.dump.empty() ? "" : arguments.dump + "." + std::to_string(i));
      std::fflush(nullptr);
      _exit(status);
    }
  }
  int worst = 0;
  for (int status = 0; wait(&status) > 0;)
    worst = std::max(worst, WIFEXITED(status) ? WEXITSTATUS(status) : 1);
  return worst;
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse(argc, argv);
  umask(0);
  if (!arguments.verify.empty()) {
    try {
      const fsrandom::Tree tree = fsrandom::load_tree(arguments.verify);
      fsrandom::verify_tree(arguments.options.directory, tree, arguments.options.silly, true);
      std::printf("fsrandom: %s is as %s says (%zu names)\n", arguments.options.directory.c_str(),
                  arguments.verify.c_str(), tree.paths().size());
      return 0;
    } catch (const fsrandom::Mismatch& mismatch) {
      std::fprintf(stderr, "fsrandom: DIFFERENCE: %s\n", mismatch.what());
      return 1;
    }
  }
  if (arguments.workers > 1) return run_workers(arguments);
  return run(arguments, arguments.options, arguments.dump);
}
