// SPDX-License-Identifier: Apache-2.0
// The program nfsrdma-filer.
#include <cstdio>
#include <exception>

#include "cli/filer/filer_command.h"

namespace {

constexpr const char* kProgram = "nfsrdma-filer";

int run(std::vector<std::string> arguments) {
  using namespace nfsrdma::cli;
  auto invocation = parse_filer_arguments(std::move(arguments));
  if (!invocation) return report(kProgram, invocation.error());
  if (const auto* shown = std::get_if<FilerText>(&*invocation)) {
    std::fputs(shown->text.c_str(), stdout);
    return 0;
  }
  return run_filer(kProgram, std::get<FilerCommand>(*std::move(invocation)));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + (argc > 0 ? 1 : 0), argv + argc});
  } catch (const std::exception& error) {
    using namespace nfsrdma::cli;
    return report(kProgram, Failure(ToolExit::kFailed, error.what()));
  }
}
