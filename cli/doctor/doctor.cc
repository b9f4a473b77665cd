// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "cli/doctor/bundle.h"
#include "cli/doctor/checks.h"
#include "cli/doctor/doctor_verb.h"
#include "cli/doctor/gather.h"
#include "cli/options/log_setup.h"
#include "cli/support/outcome.h"

namespace nfsrdma::cli::doctor {
namespace {

// The width of a terminal; 0 for any other file.
size_t columns_of(int fd) {
  winsize size{};
  return isatty(fd) == 1 && ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace

int run_doctor(const std::string& program, const DoctorVerb& verb) {
  const ProcessLog log;
  set_log_level(LogLevel::kError);
  const auto facts = gather(verb.what);
  if (!facts) return report(program, facts.error());
  const std::vector<Result> results = judge(*facts);
  if (!verb.bundle.empty()) {
    const auto written = write_bundle(verb.bundle, verb.with_names, *facts, results);
    if (!written) return report(program, written.error());
    fmt::print("{}: written, {}; look into it with 'tar tzf {}' before you send it\n", printable(verb.bundle),
               verb.with_names ? "with names of files, hosts and exports"
                               : "without names of files, hosts and exports",
               printable(verb.bundle));
  } else if (verb.json) {
    fmt::print("{}\n", json_of(*facts, results).dump(2, ' ', true, Json::error_handler_t::replace));
  } else {
    std::fputs(text_of(results, columns_of(STDOUT_FILENO)).c_str(), stdout);
  }
  std::fflush(stdout);
  return static_cast<int>(any_bad(results) && verb.bundle.empty() ? ToolExit::kFailed : ToolExit::kOk);
}

}  // namespace nfsrdma::cli::doctor
