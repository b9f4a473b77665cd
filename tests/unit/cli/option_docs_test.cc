// SPDX-License-Identifier: Apache-2.0
// docs/user/options.md matches the option table. NFSRDMA_WRITE_DOCS=1 writes the document instead.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "cli/options/option_table.h"
#include "cli/options/options.h"

namespace nfsrdma::cli {
namespace {

constexpr const char* kPath = NFSRDMA_SOURCE_DIR "/docs/user/options.md";

std::string document() {
  std::string text =
      "# Mount options\n\n"
      "Names, units and defaults are those of nfs(5) where nfs(5) has the option. They are given to `mount "
      "-o`, "
      "in fstab, as\n`--NAME[=VALUE]` to `nfsrdma-fuse mount`, or in the configuration file. "
      "(A test keeps this page equal to the option\ntable in `cli/options/option_table.cc`.)\n\n```\n";
  text += options_help(110);
  text +=
      "```\n\n## Known and refused\n\nThese end the mount with this sentence; nothing is parsed and "
      "ignored.\n\n";
  for (const OptionSpec& spec : option_table()) {
    if (spec.kind != OptionKind::kRefused) continue;
    text += fmt::format("- `{}`", spec.name);
    for (const std::string_view alias : split_words(spec.aliases)) text += fmt::format(", `{}`", alias);
    text += fmt::format(": {}\n", spec.help);
  }
  return text;
}

TEST(OptionDocs, Page_IsWhatTheTableSays) {
  if (std::getenv("NFSRDMA_WRITE_DOCS") != nullptr) std::ofstream(kPath) << document();
  std::ifstream in(kPath);
  const std::string page{std::istreambuf_iterator<char>(in), {}};
  EXPECT_EQ(page, document()) << "NFSRDMA_WRITE_DOCS=1 cli_test writes " << kPath;
  for (const OptionSpec& spec : option_table())
    EXPECT_NE(page.find(spec.name), std::string::npos) << spec.name;
}

}  // namespace
}  // namespace nfsrdma::cli
