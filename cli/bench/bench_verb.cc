#include "cli/bench/bench_verb.h"

#include <cstdio>

#include "cli/bench/report.h"

namespace nfsrdma::cli::bench {

int run_bench(const std::string& program, const BenchVerb& verb) {
  const auto document = read_document(verb.report);
  if (!document) return report(program, document.error());
  const std::string text = text_report(*document);
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
  if (!verb.html.empty()) {
    if (const auto written = write_file(verb.html, html_report(*document)); !written)
      return report(program, written.error());
  }
  return static_cast<int>(ToolExit::kOk);
}

}  // namespace nfsrdma::cli::bench
