// SPDX-License-Identifier: Apache-2.0
// packaging/nfsrdma-fuse.conf becomes /etc/nfsrdma-fuse.conf. It contains every option that the file accepts,
// and each line works after its '#' is removed. NFSRDMA_WRITE_DOCS=1 writes the file instead.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "cli/options/config_file.h"
#include "cli/options/option_table.h"
#include "cli/options/options.h"

namespace nfsrdma::cli {
namespace {

constexpr const char* kPath = NFSRDMA_SOURCE_DIR "/packaging/nfsrdma-fuse.conf";

constexpr const char* kHead = R"(# SPDX-License-Identifier: Apache-2.0
# Options of NFS mounts by nfsrdma-fuse: nfsrdma-fuse.conf(5). Sections and words are those of nfsmount.conf(5).
#
# A line that begins with '#' or ';' is a comment; every option here is one, and shows its default, or an example where the
# default depends on the server or on the machine. What is typed (mount -o, fstab) overrides a [ MountPoint ] section, that
# one a [ Server ] section, and that one the global section. /etc/nfsrdma-fuse.conf.d/*.conf are read behind this file.
#
#     [ Server "filer.example.org" ]
#     proto = rdma
#
#     [ MountPoint "/mnt/scratch" ]
#     Soft = True
#     timeo = 100
#
# updatedb(8) walks through mounts unless it is told not to: add fuse.rpcrdma, the type that the kernel shows, to
# PRUNEFS in /etc/updatedb.conf.

[ NFSMount_Global_Options ]
)";

// Values for options without a default that could be written.
const std::map<std::string_view, std::string_view> kExamples = {
    {"vers", "4.1"},
    {"ddp", "1024"},
    {"inline", "4096"},
    {"credits", "64"},
    {"rdma_dev", "auto"},
    {"gid_index", "1"},
    {"port", "2049"},
    {"proto", "auto"},
    {"metrics", "127.0.0.1:9464"},
    {"mountport", "20048"},
    {"mounthost", "filer.example.org"},
    {"mountproto", "tcp"},
    {"retry", "2"},
    {"rsize", "1048576"},
    {"wsize", "1048576"},
    {"read_ahead_kb", "16384"},
    {"cache_mem", "1g"},
    {"actimeo", "60"},
    {"threads", "4"},
    {"sec", "krb5p:krb5"},
    {"tls_ca", "/etc/ssl/certs/ca-certificates.crt"},
    {"tls_cert", "/etc/ssl/certs/machine.pem"},
    {"tls_key", "/etc/ssl/private/machine.key"},
    {"log", "syslog"},
};

// Options for one mount or one command; they do not belong in a file for all mounts.
const std::set<std::string_view> kOnlyTyped = {"conf", "remount"};

std::string value_of(const OptionSpec& spec) {
  if (spec.kind == OptionKind::kSwitch) return spec.fallback == "off" && !spec.off.empty() ? "False" : "True";
  if (!spec.fallback.empty() && !spec.fallback.starts_with('(')) return std::string(spec.fallback);
  const auto example = kExamples.find(spec.name);
  return example != kExamples.end() ? std::string(example->second) : std::string();
}

bool belongs_there(const OptionSpec& spec) {
  return spec.kind != OptionKind::kRefused && spec.kind != OptionKind::kIgnored &&
         !kOnlyTyped.contains(spec.name);
}

// The option whose row of the help text begins at this line. Null within a row.
const OptionSpec* row_of(const std::string& line) {
  if (!line.starts_with("  ") || line.starts_with("   ")) return nullptr;
  const std::string name = line.substr(2, line.find_first_of(" =,", 2) - 2);
  for (const OptionSpec& spec : option_table()) {
    if (spec.name == name) return &spec;
  }
  return nullptr;
}

std::string file_text() {
  std::string out = kHead;
  const OptionSpec* row = nullptr;
  const auto end_row = [&] {
    if (row != nullptr && belongs_there(*row)) out += fmt::format("#{} = {}\n\n", row->name, value_of(*row));
    row = nullptr;
  };
  std::istringstream help(options_help(110));
  for (std::string line; std::getline(help, line);) {
    if (line.starts_with(title(OptionSection::kIgnored))) break;
    if (const OptionSpec* next = row_of(line)) {
      end_row();
      row = next;
    } else if (line.empty() || !line.starts_with(' ')) {
      end_row();
      if (!line.empty()) out += fmt::format("# --- {}\n\n", line.substr(0, line.size() - 1));
      continue;
    }
    if (row != nullptr && belongs_there(*row)) out += fmt::format("#   {}\n", line.substr(2));
  }
  while (out.ends_with("\n\n")) out.pop_back();
  return out;
}

std::string file_there() {
  std::ifstream in(kPath);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(ConfigTemplate, File_HasEveryOptionThatAFileTakes) {
  if (std::getenv("NFSRDMA_WRITE_DOCS") != nullptr) std::ofstream(kPath) << file_text();
  EXPECT_EQ(file_there(), file_text()) << "NFSRDMA_WRITE_DOCS=1 cli_test writes " << kPath;
  for (const OptionSpec& spec : option_table()) {
    if (!belongs_there(spec)) continue;
    EXPECT_NE(file_there().find(fmt::format("\n#{} = ", spec.name)), std::string::npos) << spec.name;
  }
}

TEST(ConfigTemplate, EveryLine_WorksWithoutItsHash) {
  std::istringstream file(file_there());
  size_t tried = 0;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with('#') || line.size() < 2 || line[1] == ' ' || line.find(" = ") == std::string::npos)
      continue;
    ++tried;
    Config config;
    const auto read = parse_config("[ NFSMount_Global_Options ]\n" + line.substr(1) + "\n", "f", config);
    ASSERT_TRUE(read) << read.error().text;
    const auto parsed = parse_options(config.select("filer", "/mnt"), false);
    EXPECT_TRUE(parsed) << line << ": " << (parsed ? "" : parsed.error().text);
  }
  EXPECT_GT(tried, 50u);
}

TEST(ConfigTemplate, AsItIs_SetsNothing) {
  Config config;
  ASSERT_TRUE(parse_config(file_there(), "f", config));
  EXPECT_TRUE(config.select("filer", "/mnt").empty());
}

}  // namespace
}  // namespace nfsrdma::cli
