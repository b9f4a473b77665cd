#include "cli/bench/bench_args.h"

namespace nfsrdma::cli::bench {

void BenchArguments::add_to(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("bench", "Make a report of a benchmark's results");
  sub->add_option("--report", verb_.report, "the results, as scripts/bench wrote them")
      ->type_name("RUN.json")
      ->required();
  sub->add_option("REPORT.html", operands_, "where to write the page; without it only the text is shown")
      ->type_name("")
      ->expected(0, 1);
  sub->footer(
      "The text with medians, spreads and verdicts goes to standard output. The page is one file with plots\n"
      "and everything they were drawn from; it needs no network.");
}

Outcome<BenchVerb> BenchArguments::take() {
  if (!operands_.empty()) verb_.html = operands_.front();
  return verb_;
}

}  // namespace nfsrdma::cli::bench
