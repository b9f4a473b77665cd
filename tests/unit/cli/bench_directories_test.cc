// SPDX-License-Identifier: Apache-2.0
// `nfsrdma-fuse bench` on plain directories; tests/system/test_bench.py tests it on mounts.
#include "cli/bench/directories.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cli/bench/load.h"
#include "cli/bench/playground.h"
#include "cli/bench/report.h"
#include "cli/bench/subject.h"
#include "cli/tool/tool_args.h"
#include "tests/unit/cli/temp_directory.h"

namespace nfsrdma::cli::bench {
namespace {

const std::function<void(const std::string&)> kQuiet = [](const std::string&) {};

bool empty(const TempDirectory& directory) {
  return std::filesystem::is_empty(directory.path());
}

BenchVerb tiny(std::vector<std::string> directories) {
  BenchVerb verb;
  verb.directories = std::move(directories);
  verb.size = 2 << 20;
  verb.time = std::chrono::milliseconds(10);
  verb.rounds = 2;
  verb.files = 5;
  return verb;
}

Outcome<BenchVerb> arguments(std::vector<std::string> more) {
  more.insert(more.begin(), "bench");
  auto command = parse_tool_arguments(more);
  if (!command) return tl::unexpected(command.error());
  return std::get<BenchVerb>(*command);
}

TEST(BenchArguments, DefaultsAndSizes) {
  const auto usual = arguments({"/a", "/b"});
  ASSERT_TRUE(usual) << usual.error().text;
  EXPECT_EQ(usual->directories, (std::vector<std::string>{"/a", "/b"}));
  EXPECT_EQ(usual->size, 256u << 20);
  EXPECT_EQ(usual->rounds, 9u);
  EXPECT_TRUE(usual->large && usual->random && usual->small);
  const auto quick = arguments({"--quick", "/a", "--size", "1G"});
  ASSERT_TRUE(quick) << quick.error().text;
  EXPECT_EQ(quick->size, 1u << 30);
  EXPECT_EQ(quick->rounds, 5u);
  EXPECT_EQ(quick->files, 200u);
  EXPECT_EQ(quick->time.count(), 0.2);
}

TEST(BenchArguments, OnlyTakesPartsBeforeAndAfterTheDirectory) {
  const auto after = arguments({"/a", "--only", "random,small"});
  ASSERT_TRUE(after) << after.error().text;
  EXPECT_FALSE(after->large);
  EXPECT_TRUE(after->random && after->small);
  const auto before = arguments({"--only", "large", "/a", "--json", "j", "--html", "h"});
  ASSERT_TRUE(before) << before.error().text;
  EXPECT_EQ(before->directories, std::vector<std::string>{"/a"});
  EXPECT_TRUE(before->large && !before->random && !before->small);
  EXPECT_EQ(before->json, "j");
  EXPECT_EQ(before->html, "h");
}

TEST(BenchArguments, AReport_MeasuresNothing) {
  const auto page = arguments({"--report", "run.json", "page.html"});
  ASSERT_TRUE(page) << page.error().text;
  EXPECT_EQ(page->report, "run.json");
  EXPECT_EQ(page->html, "page.html");
  EXPECT_TRUE(page->directories.empty());
  EXPECT_EQ(arguments({"--report", "run.json", "--html", "p"})->html, "p");
  EXPECT_EQ(arguments({"--report", "run.json"})->html, "");
}

TEST(BenchArguments, WhatMakesNoSense_IsAUsageError) {
  const std::vector<std::vector<std::string>> wrong{{},
                                                    {"/a", "/a"},
                                                    {"/a", "--only", "everything"},
                                                    {"/a", "--size", "1000"},
                                                    {"/a", "--size", "much"},
                                                    {"/a", "--repeats", "0"},
                                                    {"/a", "--time", "-1"},
                                                    {"/a", "--files", "0"},
                                                    {"--report", "run.json", "a.html", "b.html"},
                                                    {"--report", "run.json", "a.html", "--html", "b.html"},
                                                    {"--report", "run.json", "--quick"},
                                                    {"--report", "run.json", "--json", "again.json"}};
  for (const auto& line : wrong) {
    const auto refused = arguments(line);
    ASSERT_FALSE(refused) << testing::PrintToString(line);
    EXPECT_EQ(refused.error().exit_code, static_cast<int>(ToolExit::kUsage));
  }
}

TEST(BenchDirectories, TwoOfThem_AreMeasuredInEachRoundAndLeftEmpty) {
  const TempDirectory one, two;
  const std::atomic<bool> never{false};
  std::vector<std::string> said;
  const auto document = measure_directories(tiny({one.path(), two.path()}), never,
                                            [&](const std::string& line) { said.push_back(line); });
  ASSERT_TRUE(document) << document.error().text;
  for (const char* name : {"host", "processor", "kernel", "program", "libfuse", "server"}) {
    const auto found = std::find_if(document->conditions.begin(), document->conditions.end(),
                                    [&](const auto& condition) { return condition.first == name; });
    ASSERT_NE(found, document->conditions.end()) << name;
    EXPECT_FALSE(found->second.empty()) << name;
  }
  for (const char* metric : {"write a new file", "read", "read again"}) {
    for (const TempDirectory* directory : {&one, &two}) {
      const Measurement* found = document->find(metric, directory->path(), {});
      ASSERT_NE(found, nullptr) << metric;
      EXPECT_EQ(found->values.at("mib_per_s").size(), 2u);
      EXPECT_GT(found->values.at("mib_per_s").at(0), 0);
    }
  }
  for (const unsigned depth : {1, 16}) {
    const Measurement* found = document->find("read, so many blocks at once", two.path(), {{"depth", depth}});
    ASSERT_NE(found, nullptr) << depth;
    EXPECT_GT(found->values.at("mib_per_s").at(1), 0);
  }
  for (const unsigned depth : {1, 32})
    EXPECT_NE(document->find("random read", one.path(), {{"depth", depth}}), nullptr) << depth;
  for (const char* metric : {"create", "stat", "open, read, close", "remove"})
    EXPECT_NE(document->find(metric, two.path(), {{"depth", 8}}), nullptr) << metric;
  // The first directory changes with the round.
  const auto first_of = [&](const char* round) {
    return *std::find_if(said.begin(), said.end(),
                         [&](const std::string& line) { return line.starts_with(round); });
  };
  EXPECT_NE(first_of("round 1").find(one.path()), std::string::npos);
  EXPECT_NE(first_of("round 2").find(two.path()), std::string::npos);
  EXPECT_TRUE(empty(one) && empty(two));
  // The result is a valid document and can be drawn.
  EXPECT_TRUE(document_from_text(json_text(*document)));
  EXPECT_NE(text_report(*document).find("Small files, one at a time"), std::string::npos);
  EXPECT_NE(text_report(*document).find("Throughput against queue depth"), std::string::npos);
}

TEST(BenchDirectories, PartsThatAreNotWanted_AreNotMeasured) {
  const TempDirectory one;
  const std::atomic<bool> never{false};
  BenchVerb verb = tiny({one.path()});
  verb.large = verb.small = false;
  const auto document = measure_directories(verb, never, kQuiet);
  ASSERT_TRUE(document) << document.error().text;
  for (const Measurement& m : document->measurements) EXPECT_EQ(m.metric, "random read");
  EXPECT_EQ(document->measurements.size(), 6u);
}

TEST(BenchDirectories, WhenAskedToStop_NothingIsLeft) {
  const TempDirectory one;
  std::atomic<bool> stop{false};
  unsigned lines = 0;
  const auto document =
      measure_directories(tiny({one.path()}), stop, [&](const std::string&) { stop = ++lines >= 9; });
  ASSERT_FALSE(document);
  EXPECT_GE(lines, 9u);
  EXPECT_LT(lines, 12u);
  EXPECT_TRUE(empty(one));
}

TEST(BenchDirectories, NoRoomNoDirectoryOrNoRight_IsSaidBeforeAnythingIsWritten) {
  const TempDirectory one;
  const std::atomic<bool> never{false};
  BenchVerb verb = tiny({one.path()});
  verb.size = uint64_t{1} << 60;
  const auto full = measure_directories(verb, never, kQuiet);
  ASSERT_FALSE(full);
  EXPECT_NE(full.error().text.find("are needed"), std::string::npos) << full.error().text;
  EXPECT_TRUE(empty(one));
  EXPECT_FALSE(measure_directories(tiny({one.path("absent")}), never, kQuiet));
  EXPECT_FALSE(measure_directories(tiny({one.write("file", "")}), never, kQuiet));
  EXPECT_FALSE(measure_directories(tiny({"/proc"}), never, kQuiet));
}

TEST(BenchLoad, DoesWhatItSays) {
  const TempDirectory one;
  const std::atomic<bool> never{false};
  Load load;
  load.op = LoadOp::kWrite;
  load.path = one.path("file");
  load.size = 1 << 20;
  load.block = 65536;
  load.depth = 3;
  auto done = run_load(load, never);
  ASSERT_TRUE(done) << done.error().what;
  EXPECT_EQ(done->operations, 16u);
  EXPECT_EQ(done->bytes, 1u << 20);
  EXPECT_EQ(std::filesystem::file_size(load.path), 1u << 20);
  EXPECT_LE(done->p50_us, done->p99_us);
  EXPECT_LE(done->p99_us, done->p999_us);

  load.op = LoadOp::kRandomRead;
  load.count = UINT64_MAX;
  load.limit = std::chrono::milliseconds(5);
  done = run_load(load, never);
  ASSERT_TRUE(done) << done.error().what;
  EXPECT_GT(done->operations, 0u);
  load.limit = std::chrono::nanoseconds(1);
  done = run_load(load, never);
  ASSERT_TRUE(done) << done.error().what;
  EXPECT_GE(done->operations, 1u);

  load.op = LoadOp::kRead;
  load.count = 0;
  load.size = 2 << 20;  // larger than the file
  load.limit = {};
  done = run_load(load, never);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().error, EIO);

  load.path = one.path("small");
  load.op = LoadOp::kStat;
  load.count = 1;
  EXPECT_EQ(run_load(load, never).error().error, ENOENT);
  load.op = LoadOp::kCreate;
  load.fill = true;
  load.count = 7;
  EXPECT_EQ(run_load(load, never)->operations, 7u);
  EXPECT_EQ(std::filesystem::file_size(one.path("small6")), 65536u);
  load.op = LoadOp::kRemove;
  EXPECT_TRUE(run_load(load, never));
  EXPECT_FALSE(std::filesystem::exists(one.path("small0")));
  const std::atomic<bool> stopped{true};
  EXPECT_EQ(run_load(load, stopped).error().error, 0);
}

// The format of /proc/self/mountstats, shortened.
constexpr const char* kMountstats =
    "device tmpfs mounted on /tmp with fstype tmpfs\n"
    "device srv:/a mounted on /mnt/a with fstype nfs4 statvers=1.1\n"
    "\topts:\trw,vers=4.2\n"
    "\tevents:\t1 2 3\n"
    "\tper-op statistics\n"
    "\t        NULL: 1 1 0 44 24 0 0 0 0\n"
    "\t        READ: 40 40 0 8000 900000 1 20 30 0\n"
    "\t    SEQUENCE: 3 3 0 8000 900000 1 20 30 0\n"
    "\n"
    "device srv:/b mounted on /mnt/a/b with fstype nfs4 statvers=1.1\n"
    "\tper-op statistics\n"
    "\t        NULL: 7 7 0 44 24 0 0 0 0\n";

TEST(BenchSubject, CallsOfTheKernelsClient_AreThoseOfItsMount) {
  EXPECT_EQ(calls_in_mountstats(kMountstats, "/mnt/a"), 41u);
  EXPECT_EQ(calls_in_mountstats(kMountstats, "/mnt/a/b"), 7u);
  EXPECT_EQ(calls_in_mountstats(kMountstats, "/tmp"), std::nullopt);
  EXPECT_EQ(calls_in_mountstats("", "/mnt/a"), std::nullopt);
}

TEST(BenchSubject, APlainDirectory_HasNoDaemonAndNoCalls) {
  const TempDirectory one;
  const auto subject = Subject::find(one.path());
  ASSERT_TRUE(subject) << subject.error().text;
  EXPECT_EQ(subject->contender().role, Role::kPeer);
  EXPECT_FALSE(subject->used().cpu_seconds);
  EXPECT_FALSE(subject->used().calls);
}

}  // namespace
}  // namespace nfsrdma::cli::bench
