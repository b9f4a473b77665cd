// SPDX-License-Identifier: Apache-2.0
#include "cli/options/config_file.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <unistd.h>

#include "cli/options/option_table.h"
#include "tests/unit/cli/temp_directory.h"

namespace nfsrdma::cli {
namespace {

Config parse(std::string_view text) {
  Config config;
  const auto done = parse_config(text, "f", config);
  EXPECT_TRUE(done) << done.error().text;
  return config;
}

std::string error_of(std::string_view text) {
  Config config;
  const auto done = parse_config(text, "f", config);
  if (done) return "accepted";
  EXPECT_EQ(done.error().exit_code, 1);
  return done.error().text;
}

std::string shown(const std::vector<OptionLayer>& layers) {
  const auto parsed = parse_options(layers, false);
  EXPECT_TRUE(parsed) << parsed.error().text;
  return parsed ? show_options(parsed->values) : "";
}

bool holds(const std::vector<OptionLayer>& layers, const std::string& option) {
  return ("," + shown(layers) + ",").find("," + option + ",") != std::string::npos;
}

constexpr const char* kExample = R"(
# comment
; comment
[ NFSMount_Global_Options ]
    Proto=Tcp
    timeo = 50
    AC = False
[ Server "Srv1.Example" ]
    rsize=32k
    timeo = 60
    Soft=True
[ MountPoint "/export/home" ]
    Background=True
    timeo=70
    Sync = "true"
)";

TEST(ConfigFile, GlobalOptions_HoldForEveryMount) {
  const auto layers = parse(kExample).select("other", "/other");
  EXPECT_TRUE(holds(layers, "timeo=50"));
  EXPECT_TRUE(holds(layers, "noac"));
  EXPECT_TRUE(holds(layers, "hard"));
}

// nfsmount.conf(5): "an exact match (ignoring case) of the server name used in the mount command"
TEST(ConfigFile, ServerSection_OverridesGlobal) {
  const auto layers = parse(kExample).select("srv1.EXAMPLE", "/other");
  EXPECT_TRUE(holds(layers, "timeo=60"));
  EXPECT_TRUE(holds(layers, "soft"));
  EXPECT_TRUE(holds(layers, "rsize=32768"));
  EXPECT_TRUE(holds(layers, "noac"));
}

TEST(ConfigFile, MountPointSection_OverridesServer) {
  const auto layers = parse(kExample).select("srv1.example", "/Export/home");
  EXPECT_TRUE(holds(layers, "timeo=70"));
  EXPECT_TRUE(holds(layers, "soft"));
  EXPECT_TRUE(holds(layers, "bg"));
  EXPECT_TRUE(holds(layers, "sync"));
}

TEST(ConfigFile, OrderOfSections_DoesNotMatterOrderOfLinesDoes) {
  const auto config = parse("[MountPoint \"/m\"]\ntimeo=1\n[nfsmount_global_options]\ntimeo=2\ntimeo=3\n");
  EXPECT_TRUE(holds(config.select("s", "/m"), "timeo=1"));
  EXPECT_TRUE(holds(config.select("s", "/x"), "timeo=3"));
}

// nfsmount.conf(5): "its negation must be given as option=False"
TEST(ConfigFile, FalseSwitch_IsTheOpposite) {
  const auto with = [](const std::string& line) {
    return parse("[ NFSMount_Global_Options ]\n" + line + "\n").select("s", "/m");
  };
  EXPECT_TRUE(holds(with("cto=False"), "nocto"));
  EXPECT_TRUE(holds(with("nocto=False"), "cto"));
  EXPECT_TRUE(holds(with("NoCto=True"), "nocto"));
  EXPECT_TRUE(holds(with("hard=false"), "soft"));
  EXPECT_TRUE(holds(with("ro=TRUE"), "ro"));
  EXPECT_TRUE(holds(with("Foreground=False"), "bg"));
  EXPECT_NE(error_of("[ NFSMount_Global_Options ]\nallow_root=False\n"), "accepted");
}

TEST(ConfigFile, Value_KeepsItsCaseWhereItIsAName) {
  const auto config = parse("[ NFSMount_Global_Options ]\nLog=/Var/Log/X\nLookupCache=NONE\n");
  const auto layers = config.select("s", "/m");
  EXPECT_TRUE(holds(layers, "log=/Var/Log/X"));
  EXPECT_TRUE(holds(layers, "lookupcache=none"));
}

TEST(ConfigFile, MalformedLine_IsNamed) {
  EXPECT_EQ(error_of("\n\nrsize=1\n"), "f:3: an option must stand below a section");
  for (const char* text :
       {"[ Server ]\n", "[ Server srv ]\n", "[ Server \"\" ]\n", "[ Server \"a\"b\" ]\n", "[ x ]\n",
        "[ NFSMount_Global_Options \"x\" ]\n", "[\n", "[]\n", "[ Server \"x\"\n"}) {
    EXPECT_EQ(error_of(text).substr(0, 4), "f:1:") << text;
  }
  for (const char* line : {"rsize", "=5", "ac=maybe", "hard", "hard="}) {
    EXPECT_EQ(error_of(std::string("[NFSMount_Global_Options]\n") + line).substr(0, 4), "f:2:") << line;
  }
}

TEST(ConfigFile, Conf_IsForTheCommandLine) {
  EXPECT_EQ(error_of("[NFSMount_Global_Options]\nconf=/other\n").substr(0, 20), "f:2: conf is for the");
}

TEST(ConfigFile, UnknownOption_FailsWithFileAndLineUnlessSloppy) {
  const auto config = parse("[NFSMount_Global_Options]\nrsiez=5\n");
  const auto parsed = parse_options(config.select("s", "/m"), false);
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().text.substr(0, 4), "f:2:");
  EXPECT_TRUE(parse_options(config.select("s", "/m"), true));
  EXPECT_TRUE(
      parse_options(parse("[NFSMount_Global_Options]\nrsiez=5\nSloppy=True\n").select("s", "/m"), false));
}

TEST(ConfigFile, FilesOfTheDirectory_OverrideInTheOrderOfTheirNames) {
  const TempDirectory temp;
  const std::string main =
      temp.write("main.conf", "[NFSMount_Global_Options]\ntimeo=1\nretrans=1\nrsize=4k\n");
  temp.write("d/20-b.conf", "[NFSMount_Global_Options]\ntimeo=20\n");
  temp.write("d/10-a.conf", "[NFSMount_Global_Options]\ntimeo=10\nretrans=10\n");
  temp.write("d/30-c.conf.bak", "[NFSMount_Global_Options]\ntimeo=30\n");
  temp.write("d/.hidden.conf", "[NFSMount_Global_Options]\ntimeo=40\n");
  const auto config = read_default_config(main, temp.path("d"));
  ASSERT_TRUE(config) << config.error().text;
  const auto layers = config->select("s", "/m");
  EXPECT_TRUE(holds(layers, "timeo=20"));
  EXPECT_TRUE(holds(layers, "retrans=10"));
  EXPECT_TRUE(holds(layers, "rsize=4096"));
}

TEST(ConfigFile, MissingDefaults_AreNoError) {
  const TempDirectory temp;
  const auto config = read_default_config(temp.path("none"), temp.path("none.d"));
  ASSERT_TRUE(config);
  EXPECT_TRUE(config->sections.empty());
}

TEST(ConfigFile, MissingNamedFile_IsAnError) {
  const auto config = read_config_file("/nonexistent/x.conf");
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().text, "/nonexistent/x.conf: No such file or directory");
  EXPECT_EQ(config.error().exit_code, 1);
}

TEST(ConfigFile, DirectoryOrEndlessFile_IsRefused) {
  EXPECT_FALSE(read_config_file("/"));
  EXPECT_FALSE(read_config_file("/dev/zero"));
}

TEST(ConfigFile, AnyBytes_ParseOrFailWithALine) {
  EXPECT_TRUE(rc::check("no crash", [](const std::vector<std::string>& lines) {
    std::string text = "[ NFSMount_Global_Options ]\n";
    for (const std::string& line : lines) text += line + "\n";
    Config config;
    const auto done = parse_config(text, "f", config);
    if (!done) RC_ASSERT(done.error().text.starts_with("f:"));
  }));
}

}  // namespace
}  // namespace nfsrdma::cli
