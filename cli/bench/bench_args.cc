// SPDX-License-Identifier: Apache-2.0
#include "cli/bench/bench_args.h"

#include <algorithm>

#include "cli/options/command_words.h"

namespace nfsrdma::cli::bench {
namespace {

struct Sizes {
  uint64_t size;
  double seconds;
  unsigned rounds;
  uint64_t files;
};
constexpr Sizes kUsual{256u << 20, 1.0, 9, 1000};
// Five rounds are kDecidingPairs: fewer rounds decide nothing (statistics.h).
constexpr Sizes kQuick{32u << 20, 0.2, 5, 200};

constexpr uint64_t kLeastSize = 1u << 20;  // one block of a large transfer

constexpr const char* kFooter =
    "Works in a directory of its own inside of each DIR, which it removes again, also when it is "
    "interrupted\n"
    "(INT, TERM, HUP). Several DIRs are measured in turn, round by round, and compared with the first. Any "
    "file\n"
    "system will do. Of a mount of this program the daemon's CPU and calls are shown, too, of one of the "
    "kernel's\n"
    "NFS client its calls.\n\n"
    "What is measured: large   one file in blocks of 1 MiB: written (new, with fsync), read (dropped from "
    "the page\n"
    "                          cache before), read again, and both with O_DIRECT where the file system takes "
    "it;\n"
    "                          read with 1 to 16 blocks at once\n"
    "                  random  4 KiB reads of it, 1 to 32 at once, with their latencies\n"
    "                  small   files of 4 KiB: created, looked at, read, removed; 1 and 8 at once\n\n"
    "Medians, spreads and comparisons go to standard output, progress to a terminal. --html writes one page "
    "with\n"
    "plots, which needs no network; 'bench --report RUN.json REPORT.html' makes it again from what --json "
    "kept.\n"
    "Usually a minute or two for each DIR; --quick a few seconds.\n"
    "Exit status: 0 measured, 1 failed or no room, 2 usage, 128 and its number after a signal.";

}  // namespace

void BenchArguments::add_to(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("bench", "Measure directories of any mount, with a report");
  sub->add_option("DIR", operands_, "what to measure; with --report, where to write the page")->type_name("");
  sub->add_option("--size", verb_.size, "of the large file, as 64M or 1G (default 256M)")
      ->type_name("BYTES")
      ->transform(CLI::AsSizeValue(false).description(""));
  sub->add_option("--time", seconds_, "the longest a run of random reads or small files may take (default 1)")
      ->type_name("S")
      ->check(within(0.01, 3600));
  sub->add_option("--repeats", verb_.rounds, "rounds (default 9; fewer than 5 decide nothing)")
      ->type_name("N")
      ->check(within(1, 1000));
  sub->add_option("--files", verb_.files, "small files (default 1000)")
      ->type_name("N")
      ->check(within(1, 1'000'000));
  sub->add_option("--only", parts_, "large, random, small: only these parts")
      ->type_name("PART,...")
      ->delimiter(',')
      ->check(one_of({"large", "random", "small"}))
      ->allow_extra_args(false);
  sub->add_flag("--quick", quick_, "as --size 32M --time 0.2 --repeats 5 --files 200");
  sub->add_option("--json", verb_.json, "write the results")->type_name("FILE");
  sub->add_option("--html", verb_.html, "write the page")->type_name("FILE");
  sub->add_option("--report", verb_.report, "measure nothing: show results that were kept")
      ->type_name("RUN.json");
  sub->footer(kFooter);
}

Outcome<BenchVerb> BenchArguments::take() {
  const auto usage = [](const char* text) { return refuse(ToolExit::kUsage, text); };
  if (!verb_.report.empty()) {
    if (operands_.size() > 1 || (!operands_.empty() && !verb_.html.empty()))
      return usage("bench: --report takes one REPORT.html");
    if (verb_.size != 0 || seconds_ != 0 || verb_.rounds != 0 || verb_.files != 0 || !parts_.empty() ||
        quick_ || !verb_.json.empty())
      return usage("bench: --report measures nothing; only --html goes with it");
    if (!operands_.empty()) verb_.html = operands_.front();
    return verb_;
  }
  if (operands_.empty()) return usage("bench: DIR is missing");
  verb_.directories = operands_;
  std::sort(operands_.begin(), operands_.end());
  if (std::adjacent_find(operands_.begin(), operands_.end()) != operands_.end())
    return usage("bench: a DIR is there twice");
  const Sizes& sizes = quick_ ? kQuick : kUsual;
  if (verb_.size == 0) verb_.size = sizes.size;
  if (verb_.size < kLeastSize) return usage("bench: --size must be at least 1M");
  verb_.size -= verb_.size % kLeastSize;  // random reads must only touch written blocks
  if (verb_.rounds == 0) verb_.rounds = sizes.rounds;
  if (verb_.files == 0) verb_.files = sizes.files;
  verb_.time = std::chrono::duration<double>(seconds_ != 0 ? seconds_ : sizes.seconds);
  const auto wanted = [&](const char* part) {
    return parts_.empty() || std::find(parts_.begin(), parts_.end(), part) != parts_.end();
  };
  verb_.large = wanted("large");
  verb_.random = wanted("random");
  verb_.small = wanted("small");
  return verb_;
}

}  // namespace nfsrdma::cli::bench
