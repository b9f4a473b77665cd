// SPDX-License-Identifier: Apache-2.0
// nfsrdma-pages: makes manual pages and completions while the programs are built. It is not installed.
//
//     nfsrdma-pages man TEMPLATE          a page for scdoc, on standard output
//     nfsrdma-pages bash|zsh|fish         a shell's completions
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>

#include "cli/pages/completion.h"
#include "cli/pages/man_page.h"

namespace nfsrdma::cli::pages {
namespace {

int show(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return std::fflush(stdout) == 0 ? 0 : 1;
}

int man(const std::string& path) {
  std::ifstream in(path);
  if (!in) return report("nfsrdma-pages", {ToolExit::kFailed, path + ": cannot be read"});
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto page = man_page(text);
  if (!page) return report("nfsrdma-pages", {ToolExit::kFailed, path + ": " + page.error().text});
  return show(*page);
}

int run(const std::string& what, const std::string& path) {
  if (what == "man" && !path.empty()) return man(path);
  if (what == "bash") return show(bash_completion());
  if (what == "zsh") return show(zsh_completion());
  if (what == "fish") return show(fish_completion());
  return report("nfsrdma-pages", {ToolExit::kUsage, "man TEMPLATE, bash, zsh or fish"});
}

}  // namespace
}  // namespace nfsrdma::cli::pages

int main(int argc, char** argv) {
  try {
    return nfsrdma::cli::pages::run(argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "");
  } catch (const std::exception& error) {
    return nfsrdma::cli::report("nfsrdma-pages", {nfsrdma::cli::ToolExit::kFailed, error.what()});
  }
}
