// SPDX-License-Identifier: Apache-2.0
#include "cli/tool/tool_args.h"

#include <gtest/gtest.h>

#include "cli/options/option_table.h"

namespace nfsrdma::cli {
namespace {

using Arguments = std::vector<std::string>;

template <class Verb>
Verb parse(const Arguments& arguments) {
  const auto command = parse_tool_arguments(arguments);
  EXPECT_TRUE(command) << command.error().text;
  if (!command || !std::holds_alternative<Verb>(*command)) {
    ADD_FAILURE() << "another verb";
    return {};
  }
  return std::get<Verb>(*command);
}

int usage_error(const Arguments& arguments) {
  const auto command = parse_tool_arguments(arguments);
  if (command) return -1;
  EXPECT_EQ(command.error().text.find('\n'), std::string::npos) << command.error().text;
  return command.error().exit_code;
}

std::vector<RawOption> options(const Arguments& more) {
  Arguments all{"mount", "s:/e", "/m"};
  all.insert(all.end(), more.begin(), more.end());
  return parse<MountRequest>(all).options;
}

TEST(ToolMount, SourceDirAndFlags_AreTaken) {
  const auto r = parse<MountRequest>({"mount", "srv:/e", "/mnt", "-f", "-v"});
  EXPECT_EQ(r.source, "srv:/e");
  EXPECT_EQ(r.directory, "/mnt");
  EXPECT_TRUE(r.foreground);
  EXPECT_TRUE(r.verbose);
  EXPECT_FALSE(r.fake);
  EXPECT_TRUE(parse<MountRequest>({"mount", "-d", "srv:/e", "/mnt"}).debug);
  EXPECT_TRUE(parse<MountRequest>({"mount", "--foreground", "srv:/e", "/mnt"}).foreground);
  EXPECT_TRUE(parse<MountRequest>({"mount", "--fake", "srv:/e", "/mnt"}).fake);
}

TEST(ToolMount, ListsAndLongForms_KeepTheirOrder) {
  const std::vector<RawOption> want{
      {"soft", {}}, {"timeo", "5"}, {"hard", {}}, {"rsize", "4096"}, {"ro", {}}};
  EXPECT_EQ(options({"-o", "soft,timeo=5", "--hard", "--rsize=4096", "-oro"}), want);
  EXPECT_EQ(options({"--soft", "--timeo", "5", "-o", "hard", "--rsize", "4096", "--ro"}), want);
}

TEST(ToolMount, LongForms_AreKnownForEveryOption) {
  for (const OptionSpec& spec : option_table()) {
    std::string dashed(spec.name);
    for (char& c : dashed) c = c == '_' ? '-' : c;
    const bool value = spec.kind != OptionKind::kSwitch && spec.kind != OptionKind::kRefused &&
                       spec.kind != OptionKind::kIgnored;
    const auto got = options({"--" + dashed + (value ? "=x" : "")});
    ASSERT_EQ(got.size(), 1u) << dashed;
    EXPECT_EQ(find_option(got[0].name).spec, &spec) << dashed;
  }
}

TEST(ToolMount, ValueOfALongForm_MayHoldCommasAndBackslashes) {
  EXPECT_EQ(options({"--conf=/a,b\\c"}), (std::vector<RawOption>{{"conf", "/a,b\\c"}}));
  EXPECT_EQ(options({"--conf", "/a,b=c"}), (std::vector<RawOption>{{"conf", "/a,b=c"}}));
}

TEST(ToolMount, LongFormBeforeTheOperands_DoesNotEatThem) {
  const auto r = parse<MountRequest>({"mount", "--ro", "srv:/e", "/mnt"});
  EXPECT_EQ(r.source, "srv:/e");
  EXPECT_EQ(r.options, (std::vector<RawOption>{{"ro", {}}}));
  EXPECT_EQ(parse<MountRequest>({"mount", "--rsize", "4096", "srv:/e", "/mnt"}).source, "srv:/e");
}

TEST(ToolMount, UnknownLongForm_IsLeftToTheOptionTable) {
  // It gets the same "did you mean" as with -o.
  EXPECT_EQ(options({"--rsiez=4"}), (std::vector<RawOption>{{"rsiez", "4"}}));
}

TEST(ToolMount, Ipv6Source_IsOneOperand) {
  EXPECT_EQ(parse<MountRequest>({"mount", "[::1]:/e", "/mnt"}).source, "[::1]:/e");
}

// Usage errors of `mount` have the exit status of mount(8), those of other verbs the status of a tool.
TEST(ToolUsage, Errors_HaveTheStatusOfTheirVerb) {
  EXPECT_EQ(usage_error({"mount"}), 1);
  EXPECT_EQ(usage_error({"mount", "s:/e"}), 1);
  EXPECT_EQ(usage_error({"mount", "s:/e", "/m", "/n"}), 1);
  EXPECT_EQ(usage_error({"mount", "s:/e", "/m", "-o"}), 1);
  EXPECT_EQ(usage_error({"mount", "s:/e", "/m", "-o", "=x"}), 1);
  EXPECT_EQ(usage_error({"mount", "s:/e", "/m", "-x"}), 1);
  for (const Arguments& wrong : {Arguments{},
                                 Arguments{"nonsense"},
                                 Arguments{"umount"},
                                 Arguments{"umount", "/a", "/b"},
                                 Arguments{"umount", "/a", "--timeout"},
                                 Arguments{"umount", "/a", "--timeout", "x"},
                                 Arguments{"umount", "/a", "--timeout", "0"},
                                 Arguments{"umount", "/a", "--nonsense"},
                                 Arguments{"status", "/a", "/b"},
                                 Arguments{"stats", "/a", "0"},
                                 Arguments{"stats", "/a", "/b"},
                                 Arguments{"stats", "/a", "1", "x"},
                                 Arguments{"stats", "/a", "1", "0"},
                                 Arguments{"stats", "/a", "1", "2", "3"},
                                 Arguments{"stats", "--format", "xml"},
                                 Arguments{"stats", "--format=prometheus", "--since=f"},
                                 Arguments{"probe"},
                                 Arguments{"probe", "srv", "-o", "=x"},
                                 Arguments{"log-level"},
                                 Arguments{"--nonsense"}}) {
    EXPECT_EQ(usage_error(wrong), 2) << (wrong.empty() ? "" : wrong.front()) << " " << wrong.size();
  }
}

TEST(ToolUsage, UnknownCommand_IsNamed) {
  const auto parsed = parse_tool_arguments({"bogus", "/a"});
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().text, "there is no command \"bogus\"; see 'nfsrdma-fuse --help'");
}

std::string text_of(const Arguments& arguments) {
  const auto parsed = parse_tool_arguments(arguments);
  if (!parsed) return parsed.error().text;
  return std::holds_alternative<ShowText>(*parsed) ? std::get<ShowText>(*parsed).text : std::string();
}

TEST(ToolUsage, MistypedCommand_IsOfferedTheNearest) {
  EXPECT_EQ(text_of({"umont", "/a"}), "there is no command \"umont\"; did you mean \"umount\"?");
  EXPECT_EQ(text_of({"stat"}), "there is no command \"stat\"; did you mean \"stats\"?");
  EXPECT_EQ(text_of({"prob", "srv"}), "there is no command \"prob\"; did you mean \"probe\"?");
  EXPECT_EQ(text_of({"loglevel", "/a"}), "there is no command \"loglevel\"; did you mean \"log-level\"?");
}

// Each sentence ends with the help command of the verb that was used.
TEST(ToolUsage, Errors_AreSentencesAndNameTheirCommandsHelp) {
  EXPECT_EQ(
      text_of({"stats", "--format=xml"}),
      "--format: \"xml\" is none of table, json, prometheus, mountstats; see 'nfsrdma-fuse stats --help'");
  EXPECT_EQ(text_of({"status", "--jsn"}),
            "there is no option --jsn; did you mean --json?; see 'nfsrdma-fuse status --help'");
  EXPECT_EQ(text_of({"status", "/a", "/b"}),
            "\"/b\" is one argument too many; see 'nfsrdma-fuse status --help'");
  EXPECT_EQ(text_of({"trace", "/a", "--dration", "5"}),
            "there is no option --dration; did you mean --duration?; see 'nfsrdma-fuse trace --help'");
  EXPECT_EQ(text_of({"umount"}), "DIR is missing; see 'nfsrdma-fuse umount --help'");
  EXPECT_EQ(text_of({"umount", "/a", "--timeout"}),
            "--timeout needs a value; see 'nfsrdma-fuse umount --help'");
  EXPECT_EQ(text_of({"umount", "/a", "--timeout", "0"}),
            "--timeout: \"0\" is not a number from 1 to 1000000000; see 'nfsrdma-fuse umount --help'");
  EXPECT_EQ(text_of({"bench", "/a", "--only", "huge"}),
            "--only: \"huge\" is none of large, random, small; see 'nfsrdma-fuse bench --help'");
  EXPECT_EQ(text_of({"stats", "/a", "0"}),
            "stats: INTERVAL must be a number of seconds; see 'nfsrdma-fuse stats --help'");
  EXPECT_EQ(text_of({"mount"}), "SOURCE is missing; see 'nfsrdma-fuse mount --help'");
  EXPECT_EQ(text_of({}), "a command is missing; see 'nfsrdma-fuse --help'");
}

TEST(ToolHelp, EveryPage_IsFreeOfTheParsersNotation) {
  for (const Arguments& page :
       {Arguments{"--help"}, Arguments{"mount", "--help"}, Arguments{"umount", "--help"},
        Arguments{"status", "--help"}, Arguments{"stats", "--help"}, Arguments{"probe", "--help"},
        Arguments{"bench", "--help"}, Arguments{"log-level", "--help"}}) {
    const std::string text = text_of(page);
    const std::string& name = page.front();
    ASSERT_FALSE(text.empty()) << name;
    for (const char* notation : {"REQUIRED", "TEXT", "UINT", "FLOAT", " in [", "(0x)", "[OPTIONS]",
                                 "SUBCOMMAND", "Positionals", ":{"})
      EXPECT_EQ(text.find(notation), std::string::npos) << name << ": " << notation << "\n" << text;
    EXPECT_NE(text.find("Usage: nfsrdma-fuse"), std::string::npos) << text;
  }
  EXPECT_NE(
      text_of({"stats", "--help"}).find("Usage: nfsrdma-fuse stats [options] [DIR] [INTERVAL [COUNT]]\n"),
      std::string::npos)
      << text_of({"stats", "--help"});
  EXPECT_NE(text_of({"umount", "--help"}).find("-l, --lazy "), std::string::npos);
}

TEST(ToolUmount, Flags_AreTaken) {
  const auto v = parse<UmountVerb>({"umount", "--lazy", "/mnt", "--force", "--timeout", "7"});
  EXPECT_EQ(v.directory, "/mnt");
  EXPECT_TRUE(v.lazy && v.force);
  EXPECT_EQ(v.timeout, std::chrono::seconds(7));
  EXPECT_FALSE(parse<UmountVerb>({"umount", "/mnt"}).timeout);
}

TEST(ToolStatus, DirAndJson_AreOptional) {
  EXPECT_EQ(parse<StatusVerb>({"status"}).directory, "");
  const auto v = parse<StatusVerb>({"status", "/mnt", "--json"});
  EXPECT_EQ(v.directory, "/mnt");
  EXPECT_TRUE(v.json);
}

TEST(ToolStats, Operands_AreDirIntervalCount) {
  EXPECT_FALSE(parse<StatsVerb>({"stats"}).interval);
  const auto all =
      parse<StatsVerb>({"stats", "/mnt", "2", "3", "--ops", "--xprt", "--format", "json", "--since", "f"});
  EXPECT_EQ(all.directory, "/mnt");
  EXPECT_EQ(all.interval, std::chrono::seconds(2));
  EXPECT_EQ(all.count, 3u);
  EXPECT_TRUE(all.operations && all.transports);
  EXPECT_EQ(all.format, StatsFormat::kJson);
  EXPECT_EQ(all.since, "f");
  const auto no_dir = parse<StatsVerb>({"stats", "5"});
  EXPECT_EQ(no_dir.directory, "");
  EXPECT_EQ(no_dir.interval, std::chrono::seconds(5));
  EXPECT_EQ(parse<StatsVerb>({"stats", "./5"}).directory, "./5");
  EXPECT_EQ(parse<StatsVerb>({"stats", "--format=prometheus"}).format, StatsFormat::kPrometheus);
  EXPECT_EQ(parse<StatsVerb>({"stats", "--format=mountstats"}).format, StatsFormat::kMountstats);
}

TEST(ToolStats, Processes_AreAskedFor) {
  EXPECT_FALSE(parse<StatsVerb>({"stats"}).processes);
  EXPECT_TRUE(parse<StatsVerb>({"stats", "--processes"}).processes);
}

TEST(ToolTop, WhatItTakes) {
  const auto plain = parse<TopVerb>({"top"});
  EXPECT_EQ(plain.directory, "");
  EXPECT_FALSE(plain.batch || plain.processes || plain.count);
  EXPECT_EQ(plain.interval, std::chrono::seconds(1));
  const auto all = parse<TopVerb>({"top", "/mnt", "--batch", "--count", "3", "--interval=0.5", "-p"});
  EXPECT_EQ(all.directory, "/mnt");
  EXPECT_TRUE(all.batch && all.processes);
  EXPECT_EQ(all.count, 3u);
  EXPECT_EQ(all.interval, std::chrono::milliseconds(500));
  for (const std::vector<std::string>& wrong :
       std::vector<std::vector<std::string>>{{"top", "--count", "3"},
                                             {"top", "--interval", "0"},
                                             {"top", "-b", "--count", "0"},
                                             {"top", "a", "b"}}) {
    const auto command = parse_tool_arguments(wrong);
    ASSERT_FALSE(command) << wrong[1];
    EXPECT_EQ(command.error().exit_code, static_cast<int>(ToolExit::kUsage));
  }
}

TEST(ToolProbe, Server_MayBeAnAddressInBrackets) {
  EXPECT_EQ(parse<ProbeVerb>({"probe", "[::1]"}).server, "[::1]");
  const auto v = parse<ProbeVerb>({"probe", "srv:/e", "-o", "port=99,tcp"});
  EXPECT_EQ(v.server, "srv:/e");
  EXPECT_EQ(v.options, (std::vector<RawOption>{{"port", "99"}, {"tcp", {}}}));
}

TEST(ToolLogLevel, Level_IsOptional) {
  EXPECT_EQ(parse<LogLevelVerb>({"log-level", "/m"}).level, "");
  EXPECT_EQ(parse<LogLevelVerb>({"log-level", "/m", "debug"}).level, "debug");
}

TEST(ToolHelp, EveryVerb_ExplainsItself) {
  EXPECT_NE(parse<ShowText>({"--help"}).text.find("umount"), std::string::npos);
  for (const char* verb : {"mount", "umount", "status", "stats", "probe", "log-level"}) {
    EXPECT_NE(parse<ShowText>({verb, "--help"}).text.find(verb), std::string::npos) << verb;
  }
  const std::string mount = parse<ShowText>({"mount", "--help"}).text;
  EXPECT_NE(mount.find("acregmin=SECONDS"), std::string::npos) << mount;
  EXPECT_NE(mount.find("32 the mount failed"), std::string::npos);
}

TEST(ToolHelp, Version_NeedsNoVerb) {
  EXPECT_EQ(parse<ShowText>({"--version"}).text, version_text());
  EXPECT_EQ(parse<ShowText>({"-V"}).text, version_text());
}

}  // namespace
}  // namespace nfsrdma::cli
