// SPDX-License-Identifier: Apache-2.0
#include "cli/bench/bench_verb.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>

#include "cli/bench/directories.h"
#include "cli/bench/report.h"
#include "cli/bench/stop_signal.h"

namespace nfsrdma::cli::bench {
namespace {

// One terminal line that is overwritten. Prints nothing if standard error is not a terminal.
class Progress {
 public:
  ~Progress() {
    if (shown_) std::fputs("\r\033[K", stderr);
  }
  void operator()(const std::string& line) {
    if (!terminal_) return;
    fmt::print(stderr, "\r\033[K{}", printable(line));
    std::fflush(stderr);
    shown_ = true;
  }

 private:
  const bool terminal_ = isatty(STDERR_FILENO) == 1;
  bool shown_ = false;
};

Outcome<> write_results(const BenchVerb& verb, const Document& document) {
  if (!verb.json.empty()) {
    if (auto written = write_file(verb.json, json_text(document)); !written) return written;
  }
  if (!verb.html.empty()) return write_file(verb.html, html_report(document));
  return {};
}

int show(const std::string& program, const BenchVerb& verb, const Document& document) {
  const auto written = write_results(verb, document);  // first: the reader of the text may close the pipe
  const std::string text = text_report(document);
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
  if (!written) return report(program, written.error());
  return static_cast<int>(ToolExit::kOk);
}

int measure(const std::string& program, const BenchVerb& verb) {
  StopSignal stop;
  const auto document = [&] {
    Progress progress;
    return measure_directories(verb, stop.asked(), [&](const std::string& line) { progress(line); });
  }();
  if (!document && stop.asked()) return report(program, Failure(128 + stop.number(), document.error().text));
  if (!document) return report(program, document.error());
  return show(program, verb, *document);
}

}  // namespace

int run_bench(const std::string& program, const BenchVerb& verb) {
  if (verb.report.empty()) return measure(program, verb);
  const auto document = read_document(verb.report);
  if (!document) return report(program, document.error());
  return show(program, verb, *document);
}

}  // namespace nfsrdma::cli::bench
