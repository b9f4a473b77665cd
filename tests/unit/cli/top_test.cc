// SPDX-License-Identifier: Apache-2.0
// The screens of `top`. A daemon that does not answer delays no other.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>

#include "cli/top/mount_watcher.h"
#include "cli/top/top_view.h"
#include "tests/unit/transport/support/eventually.h"

namespace nfsrdma::cli::top {
namespace {

using namespace std::chrono_literals;

LatencyCounts times(std::initializer_list<std::pair<uint64_t, uint64_t>> list) {
  LatencyCounts counts;
  for (const auto& [microseconds, count] : list) counts[latency::bucket_of(microseconds)] += count;
  return counts;
}

MountView example(const std::string& mount_point = "/mnt/a") {
  MountView m;
  m.source = "srv1:/export";
  m.mount_point = mount_point;
  m.known = true;
  m.seconds = 2;
  Snapshot& s = m.shown;
  s.fuse.read_bytes = 200u << 20;
  s.fuse.write_bytes = 3u << 20;
  s.fuse.in_flight = 4;
  s.fuse.operations = {{"READ", 400, 0, 400'000, 60'000, times({{300, 390}, {50'000, 10}})},
                       {"GETATTR", 20, 0, 2'000, 900, times({{90, 20}})},
                       {"FORGET", 1000, 0, 0, 0, times({{0, 1000}})}};
  client::OperationStatistics read;
  read.name = "READ";
  read.requests = 200;
  read.max_us = 40'000;
  read.latency = times({{250, 200}});
  s.client.operations = {read};
  rpc::TransportStatus t;
  t.state = rpc::TransportState::kReady;
  t.protocol = "tcp";
  t.peer = "10.0.0.1:2049";
  t.bytes_placed = 95'000;
  t.bytes_spliced = 40'000;
  t.bytes_copied = 5'000;
  s.client.transports = {t};
  s.client.session.slots = 64;
  s.client.session.slots_in_use = 5;
  s.client.cache.name_hits = 3;
  s.client.cache.name_misses = 1;
  s.client.cache.dirty_bytes = 5 << 20;
  s.client.cache.data_hit_bytes = 50u << 20;
  ProcessLoad cp;
  cp.id = 4711;
  cp.command = "cp";
  cp.requests = 410;
  cp.read_bytes = 200u << 20;
  cp.total_us = 410'000;
  ProcessLoad kernel;
  kernel.kind = ProcessLoad::Kind::kKernel;
  kernel.requests = 10;
  m.processes = {cp, kernel};
  return m;
}

MountView over_rdma() {
  MountView m = example("/mnt/rdma");
  rpc::TransportStatus& t = m.shown.client.transports.front();
  t.protocol = "rdma";
  t.rdma.emplace();
  t.rdma->fabric = "software RDMA";
  t.rdma->fabric_reason = "no RDMA device";
  t.rdma->version = 2;
  t.rdma->credits_granted = 32;
  t.rdma->credits_in_use = 3;
  t.rdma->reads_inline = 10;
  t.rdma->reads_long = 20;
  t.rdma->reads_chunk_unused = 30;
  return m;
}

MountView silent() {
  MountView m;
  m.source = "srv2:/dead";
  m.mount_point = "/mnt/silent";
  m.problem = "the daemon does not answer, for 7 s";
  return m;
}

std::string text_of(const std::vector<Line>& lines) {
  std::string text;
  for (const Line& line : lines) text += line.text + '\n';
  return text;
}

std::string shown(const std::vector<MountView>& mounts, const Choice& choice = {}, size_t width = 80,
                  size_t height = 24) {
  return text_of(screen(mounts, choice, "12:34:56", 1, width, height));
}

void expect_parts(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(TopScreen, Mount_IsShownByItsRates) {
  const std::string text = shown({example()});
  expect_parts(text, {"12:34:56  1 mount, every 1 s", "MOUNT POINT", "READ/s", "> /mnt/a",
                      // 200 MiB and 420 requests in two seconds; FORGETs are not counted.
                      "100M", "1.5M", " 210 ", "288us", "53ms", "5.0M", "srv1:/export on /mnt/a",
                      "tcp connected to 10.0.0.1:2049", "95% placed without a copy (40% spliced), 5% copied",
                      "slots 5 of 64 in use; 4 requests under way",
                      "names 75%, attributes -, read data 25%; uncommitted 0B"});
}

TEST(TopScreen, Operations_StandBesideWhatTheServerDid) {
  const std::string text = shown({example()});
  expect_parts(text, {"  FUSE", "  NFS", "  READ ", " 200 ", "60ms", "40ms"});
  const size_t line = text.find("  READ  ");
  ASSERT_NE(line, std::string::npos);
  EXPECT_NE(text.substr(line, text.find('\n', line) - line).find("READ", 8), std::string::npos) << text;
  EXPECT_EQ(text.find("FORGET"), std::string::npos);
}

TEST(TopScreen, Rdma_SaysWhereReadDataWentAndWhy) {
  const std::string text = shown({over_rdma()});
  expect_parts(text, {"rdma connected to 10.0.0.1:2049, version 2, software RDMA (",
                      "READ data   70% of READs placed, 5% inline, 25% copied\n",
                      "not placed  5% short enough for inline, 10% long replies, 15% chunks unused\n",
                      "slots 5 of 64 in use; credits 3 of 32 in use"});
}

TEST(TopScreen, Processes_AreShownOnRequest) {
  Choice choice;
  EXPECT_EQ(shown({example()}, choice).find("4711"), std::string::npos);
  choice.by_process = true;
  const std::string text = shown({example()}, choice);
  expect_parts(text, {"PID", "COMMAND", "4711  cp", " 205 ", "1.00ms", "(kernel)"});
  EXPECT_EQ(text.find("GETATTR"), std::string::npos);
}

TEST(TopScreen, SilentMount_IsShownAsSuchBesideTheOthers) {
  Choice choice;
  choice.selected = 1;
  const auto lines = screen({example(), silent()}, choice, "", 1, 80, 24);
  const std::string text = text_of(lines);
  expect_parts(text, {"  /mnt/a ", "> /mnt/silent", "srv2:/dead on /mnt/silent",
                      "the daemon does not answer, for 7 s"});
  EXPECT_TRUE(std::any_of(lines.begin(), lines.end(), [](const Line& l) {
    return l.style == Style::kAlarm && l.text.find("/mnt/silent") != std::string::npos;
  }));
}

TEST(TopScreen, NothingIsWiderOrHigherThanTheTerminal) {
  std::vector<MountView> mounts = {
      example(), over_rdma(), silent(),
      example("/mnt/\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e" + std::string(60, 'x'))};
  mounts[3].shown.responding = false;
  for (int n = 0; n < 30; ++n) mounts.push_back(example(fmt::format("/mnt/{}", n)));
  for (const bool by_process : {false, true}) {
    for (const bool help : {false, true}) {
      for (size_t width = 1; width <= 200; ++width) {
        for (const size_t height : {1, 2, 5, 24, 60}) {
          Choice choice{width % mounts.size(), by_process, help};
          const auto lines = screen(mounts, choice, "12:34:56", 1, width, height);
          EXPECT_LE(lines.size(), height);
          for (const Line& line : lines) ASSERT_LE(columns_of(line.text), width) << line.text;
        }
      }
    }
  }
}

TEST(TopScreen, NarrowTerminal_KeepsWhatMatters) {
  const std::string text = shown({example()}, {}, 40);
  expect_parts(text, {"MOUNT POINT", "READ/s", "> /mnt/a", "100M"});
  EXPECT_EQ(text.find("DIRTY"), std::string::npos);
  expect_parts(shown({example()}, {}, 80), {"DIRTY"});
}

TEST(TopScreen, ManyMounts_ScrollWithTheSelectedOne) {
  std::vector<MountView> mounts;
  for (int n = 0; n < 40; ++n) mounts.push_back(example(fmt::format("/mnt/number{}.", n)));
  Choice choice;
  choice.selected = 33;
  const std::string text = shown(mounts, choice);
  expect_parts(text, {"> /mnt/number33.", "/mnt/number32.", "srv1:/export on /mnt/number33."});
  EXPECT_EQ(text.find("/mnt/number0."), std::string::npos);
}

TEST(TopScreen, HelpAndNoMounts) {
  Choice choice;
  choice.help = true;
  expect_parts(shown({example()}, choice), {"q         quit", "processes, or operations"});
  expect_parts(shown({}), {"0 mounts", "no mounts of yours"});
}

TEST(TopScreen, NamesFromOutside_CannotDriveTheTerminal) {
  MountView m = example("/mnt/\x1b[2J");
  m.source = "a\x1b]0;x\x07:/b";
  m.processes[0].command = "c\x1b[31m";
  m.shown.client.transports[0].peer = "p\x1b";
  m.problem = "q\x1b";
  for (const bool by_process : {false, true}) {
    EXPECT_EQ(shown({m}, {0, by_process, false}).find('\x1b'), std::string::npos);
    EXPECT_EQ(batch_text({m}, "", by_process).find('\x1b'), std::string::npos);
  }
}

TEST(TopBatch, EveryMountHasItsDetails) {
  const std::string text = batch_text({example(), silent(), over_rdma()}, "12:34:56", false);
  expect_parts(text, {"12:34:56  3 mounts\n", "srv1:/export on /mnt/a\n",
                      "srv2:/dead on /mnt/silent\n  the daemon does not", "srv1:/export on /mnt/rdma\n",
                      "70% of READs placed"});
  expect_parts(batch_text({example()}, "", true), {"4711  cp"});
}

TEST(TextWidth, CountsColumns) {
  EXPECT_EQ(columns_of("abc"), 3u);
  EXPECT_EQ(columns_of("\xc3\xa4"), 1u);                  // a umlaut
  EXPECT_EQ(columns_of("a\xcc\x88"), 1u);                 // the same, combined
  EXPECT_EQ(columns_of("\xe6\x97\xa5\xe6\x9c\xac"), 4u);  // two ideographs
  EXPECT_EQ(columns_of("\xf0\x9f\x98\x80"), 2u);
  EXPECT_EQ(cut("\xe6\x97\xa5\xe6\x9c\xac", 3), "\xe6\x97\xa5");
  EXPECT_EQ(cut("abc", 0), "");
  EXPECT_EQ(to_ascii("a\xc3\xa4\xe6\x97\xa5z"), "a??z");
}

MountEntry entry(unsigned id) {
  MountEntry e;
  e.id = id;
  e.mount_point = fmt::format("/mnt/{}", id);
  e.source = "srv:/";
  return e;
}

Snapshot snapshot(uint64_t reads) {
  Snapshot s;
  s.pid = 1;
  s.client.age_seconds = 10;
  s.fuse.read_bytes = reads;
  return s;
}

TEST(MountWatcher, SecondLook_ShowsTheInterval) {
  std::atomic<uint64_t> bytes{1000};
  MountWatcher watcher([] { return std::vector<MountEntry>{entry(1)}; },
                       [&](const MountEntry&) -> Outcome<Snapshot> { return snapshot(bytes); });
  watcher.ask_all();
  watcher.wait(5s);
  ASSERT_EQ(watcher.views().size(), 1u);
  EXPECT_TRUE(watcher.views()[0].since_mount);
  EXPECT_EQ(watcher.views()[0].seconds, 10);
  bytes = 1300;
  watcher.ask_all();
  watcher.wait(5s);
  const MountView view = watcher.views()[0];
  EXPECT_FALSE(view.since_mount);
  EXPECT_EQ(view.shown.fuse.read_bytes, 300u);
}

TEST(MountWatcher, SilentDaemon_DelaysNobody) {
  auto answer = std::make_shared<std::promise<void>>();
  std::shared_future<void> answered = answer->get_future().share();
  MountWatcher watcher(
      [] {
        return std::vector<MountEntry>{entry(1), entry(2)};
      },
      [answered](const MountEntry& e) -> Outcome<Snapshot> {
        if (e.id == 1) answered.wait();
        return snapshot(1);
      });
  const auto begin = std::chrono::steady_clock::now();
  watcher.ask_all();
  watcher.wait(10s);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, MountWatcher::kPatience);
  EXPECT_FALSE(watcher.views()[0].known);
  EXPECT_NE(watcher.views()[0].problem.find("does not answer"), std::string::npos);
  EXPECT_TRUE(watcher.views()[1].known);
  watcher.ask_all();  // does not ask the first again
  watcher.wait(10s);
  EXPECT_FALSE(watcher.views()[1].since_mount);
  answer->set_value();
  ASSERT_TRUE(test::eventually([&] { return watcher.views()[0].known; }));
  EXPECT_EQ(watcher.views()[0].problem, "");
}

TEST(MountWatcher, MountsComeAndGo) {
  std::vector<MountEntry> mounts = {entry(1)};
  MountWatcher watcher([&] { return mounts; },
                       [](const MountEntry& e) -> Outcome<Snapshot> {
                         if (e.id == 2) return refuse(ToolExit::kFailed, "it hung up");
                         return snapshot(1);
                       });
  watcher.ask_all();
  watcher.wait(5s);
  mounts = {entry(2), entry(1)};
  watcher.ask_all();
  watcher.wait(5s);
  ASSERT_EQ(watcher.views().size(), 2u);
  EXPECT_EQ(watcher.views()[0].problem, "it hung up");
  EXPECT_FALSE(watcher.views()[1].since_mount);
  mounts.clear();
  watcher.ask_all();
  EXPECT_TRUE(watcher.views().empty());
  EXPECT_FALSE(watcher.pending());
}

}  // namespace
}  // namespace nfsrdma::cli::top
