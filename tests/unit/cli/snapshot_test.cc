// SPDX-License-Identifier: Apache-2.0
#include "cli/stats/snapshot.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <regex>
#include <set>
#include <sstream>

#include "tests/unit/cli/temp_directory.h"

namespace nfsrdma::cli {
namespace {

// Counts with the given number of operations for each time in microseconds.
LatencyCounts times(std::initializer_list<std::pair<uint64_t, uint64_t>> list) {
  LatencyCounts counts;
  for (const auto& [microseconds, count] : list) counts[latency::bucket_of(microseconds)] += count;
  return counts;
}

Snapshot example() {
  Snapshot s;
  s.version = "0.1.0";
  s.pid = 4711;
  s.state = "mounted";
  s.source = "srv1:/exp a";
  s.mount_point = "/mnt/a b";
  s.mount_options = "rw,vers=4.1,hard,timeo=600";
  s.found_transport = true;
  s.log_level = "info";
  s.client.server = "srv1";
  s.client.export_path = "/exp a";
  s.client.age_seconds = 100;
  s.client.operations = {{"READ", 1000, 1, 2, 150'000, 4'096'000, 5'000, 900'000, 905'000},
                         {"WRITE", 500, 0, 0, 2'000'000, 60'000, 0, 400'000, 400'000},
                         {"LOOKUP", 10, 3, 0, 1'000, 2'000, 0, 1'000, 1'000}};
  rpc::TransportStatus t;
  t.state = rpc::TransportState::kReady;
  t.protocol = "tcp";
  t.peer = "10.0.0.1:2049";
  t.local = "10.0.0.2:777";
  t.tls = "TLSv1.3 with TLS_AES_256_GCM_SHA384, server CN=filer";
  t.calls = 1510;
  t.replies = 1510;
  t.retransmissions = 2;
  t.connects = 2;
  t.bytes_sent = 2'151'000;
  t.bytes_received = 4'158'000;
  t.bytes_placed = 4'000'000;
  t.bytes_spliced = 3'000'000;
  t.bytes_copied = 96'000;
  t.bad_messages = 1;
  t.pending = 3;
  t.last_error = "connection reset";
  s.client.transports = {t};
  s.client.session = {"00ff",
                      "owner",
                      "scope",
                      "Ganesha 4.3",
                      64,
                      64,
                      5,
                      1'053'696,
                      1'053'696,
                      16,
                      90,
                      true,
                      true,
                      1,
                      1,
                      0,
                      7,
                      1'048'576,
                      1'048'576,
                      "krb5p",
                      {{1000, true, 35'999, ""}, {1001, false, 0, "alice: no Kerberos ticket"}}};
  s.client.cache = {50, 60, 70, 30, 80, 20, 4096, 8192, 512, 9, 3, 1, 6};
  s.client.delegations = {5, 6, 1, 20, 7, 8, 2, 900};
  s.fuse.operations = {{"READ", 900, 1, 800'000, 5'000}, {"LOOKUP", 20, 4, 1'500, 300}};
  s.fuse.operations[0].latency = times({{700, 850}, {4'999, 50}});
  s.fuse.operations[1].latency = times({{75, 19}, {299, 1}});
  s.client.operations[0].max_us = 30'000;
  s.client.operations[0].latency = times({{800, 995}, {29'000, 5}});
  s.fuse.read_bytes = 4'096'000;
  s.fuse.write_bytes = 2'000'000;
  s.fuse.kernel_inodes = 40;
  s.fuse.callers = {{4812, 800, 4'000'000, 0, 700'000, 90'000, 15},
                    {0, 120, 96'000, 2'000'000, 101'500, 95'000, 20}};
  s.fuse.replaced_callers = {0, 11, 12, 13, 14, 0, 0};
  s.memory = {89'000'000, 67'108'864, 41'943'040, 20'971'520};
  return s;
}

Snapshot rdma_example() {
  Snapshot s = example();
  rpc::TransportStatus& t = s.client.transports[0];
  t.protocol = "rdma";
  t.peer = "10.0.0.1:20049";
  t.rdma = {.fabric = "software RDMA",
            .fabric_reason = "no RDMA device",
            .version = 1,
            .version_reason = "it has no version 2",
            .credits_asked = 64,
            .credits_granted = 32,
            .credits_in_use = 3,
            .segments_open = 4,
            .inline_send = 4096,
            .inline_receive = 4000,
            .exposure = "fenced",
            .remote_invalidation = true,
            .inline_calls = 101,
            .read_chunks = 102,
            .long_calls = 103,
            .inline_replies = 104,
            .write_chunks = 105,
            .reply_chunks = 106,
            .bytes_inline = 2048,
            .bytes_placed = 4096,
            .bytes_fetched = 8192,
            .bytes_long = 16384,
            .reads_inline = 111,
            .reads_long = 112,
            .reads_chunk_unused = 113,
            .remotely_invalidated = 114,
            .errors_received = 115,
            .errors_sent = 116,
            .calls_repeated = 117};
  return s;
}

TEST(Snapshot, Json_CarriesEveryField) {
  const Json json = to_json(example());
  const auto back = snapshot_from_json(json);
  ASSERT_TRUE(back) << back.error().text;
  EXPECT_EQ(to_json(*back), json);
  // Spot checks that the fields were not left at their defaults.
  EXPECT_EQ(back->client.transports[0].state, rpc::TransportState::kReady);
  EXPECT_EQ(back->client.transports[0].tls, "TLSv1.3 with TLS_AES_256_GCM_SHA384, server CN=filer");
  EXPECT_TRUE(back->client.session.lease_holds);
  EXPECT_EQ(back->client.session.wsize, 1'048'576u);
  EXPECT_EQ(back->client.session.security, "krb5p");
  ASSERT_EQ(back->client.session.contexts.size(), 2u);
  EXPECT_TRUE(back->client.session.contexts[0].ends);
  EXPECT_EQ(back->client.session.contexts[0].seconds_left, 35'999u);
  EXPECT_EQ(back->client.session.contexts[1].user, 1001u);
  EXPECT_NE(back->client.session.contexts[1].refusal, "");
  EXPECT_EQ(back->client.cache.refused_bytes, 512u);
  EXPECT_EQ(back->client.cache.locks, 1u);
  EXPECT_EQ(back->client.delegations.local_opens, 900u);
  EXPECT_EQ(back->pid, 4711u);
  EXPECT_EQ(back->memory.huge_page_bytes, 67'108'864u);
  EXPECT_EQ(back->memory.idle_buffer_bytes, 20'971'520u);
  EXPECT_EQ(json["fuse"]["operations"][0]["histogram"], Json::parse("[[640,850],[4096,50]]"));
  EXPECT_EQ(back->fuse.operations[0].latency.total(), 900u);
  EXPECT_EQ(back->client.operations[0].latency.total(), 1000u);
  EXPECT_EQ(back->client.operations[0].max_us, 30'000u);
  EXPECT_EQ(back->fuse.callers[0].tid, 4812);
  EXPECT_EQ(back->fuse.callers[0].seen_ms, 90'000u);
  EXPECT_EQ(back->fuse.callers[1].write_bytes, 2'000'000u);
  EXPECT_EQ(back->fuse.replaced_callers.total_us, 14u);
  EXPECT_FALSE(back->client.transports[0].rdma);
}

TEST(Snapshot, Json_CarriesEveryFieldOfRdma) {
  const Json json = to_json(rdma_example());
  const auto back = snapshot_from_json(json);
  ASSERT_TRUE(back) << back.error().text;
  EXPECT_EQ(to_json(*back), json);
  const Json& rdma = json["transports"][0]["rdma"];
  EXPECT_EQ(rdma.size(), 29u);
  for (const auto& [name, value] : rdma.items()) {
    EXPECT_NE(value, Json(0)) << name << " is not told from a default";
    EXPECT_NE(value, Json("")) << name;
  }
}

TEST(Snapshot, JsonOfAnotherVersion_LeavesDefaults) {
  const auto s = snapshot_from_json(Json::parse(
      R"({"operations":[{"name":"READ","requests":-5},{"name":5},7],"mount_point":"/m","pid":"x","new":[1],
          "transports":{"a":1},"session":[],"age_seconds":1.5,
          "fuse":{"operations":[{"name":"READ","histogram":[[5],[-1,2],"x",[1,2,3],[18446744073709551615,7]]},
                                {"name":"LOOKUP","histogram":{"a":1}}]}})"));
  ASSERT_TRUE(s);
  EXPECT_EQ(s->client.operations.size(), 2u);
  EXPECT_EQ(s->client.operations[0].requests, 0u);
  EXPECT_EQ(s->pid, 0u);
  EXPECT_TRUE(s->client.transports.empty());
  EXPECT_EQ(s->fuse.operations[0].latency.total(), 7u);
  EXPECT_EQ(s->fuse.operations[1].latency.total(), 0u);
}

TEST(Snapshot, OtherJson_IsRefused) {
  for (const char* text : {"5", "[]", "null", "{}", R"({"operations":[]})"}) {
    EXPECT_FALSE(snapshot_from_json(Json::parse(text))) << text;
  }
}

TEST(Difference, Counters_AreSubtractedLevelsAreKept) {
  Snapshot now = example();
  now.client.age_seconds = 130;
  now.client.operations[0].requests += 11;
  now.client.operations.push_back({"CLOSE", 5, 0, 0, 0, 0, 0, 0, 0});
  now.client.transports[0].bytes_sent += 17;
  now.client.session.slots_in_use = 9;
  now.fuse.operations[1].requests += 2;
  now.fuse.read_bytes += 3;
  const Snapshot d = difference(now, example());
  EXPECT_EQ(d.client.age_seconds, 30u);
  EXPECT_EQ(d.client.operations[0].requests, 11u);
  EXPECT_EQ(d.client.operations[1].requests, 0u);
  EXPECT_EQ(d.client.operations[3].requests, 5u);
  EXPECT_EQ(d.client.transports[0].bytes_sent, 17u);
  EXPECT_EQ(d.client.session.slots_in_use, 9u);
  EXPECT_EQ(d.client.cache.dirty_bytes, 4096u);
  EXPECT_EQ(d.fuse.operations[1].requests, 2u);
  EXPECT_EQ(d.fuse.read_bytes, 3u);
}

TEST(Difference, Latencies_AreThoseOfTheInterval) {
  Snapshot now = example();
  now.fuse.operations[0].requests += 2;
  now.fuse.operations[0].latency[latency::bucket_of(100)] += 2;
  const Snapshot d = difference(now, example());
  EXPECT_EQ(d.fuse.operations[0].latency.total(), 2u);
  EXPECT_EQ(d.fuse.operations[0].max_us, 112u);  // not 5000, the earlier maximum: the bucket ends here
  EXPECT_EQ(d.fuse.operations[1].max_us, 0u);
  EXPECT_EQ(d.client.operations[0].max_us, 0u);
}

TEST(Difference, Callers_AreThoseOfTheInterval) {
  Snapshot now = example();
  now.fuse.callers[0].requests += 5;
  now.fuse.callers[1].seen_ms = 1000;  // the number now belongs to another thread
  now.fuse.callers.push_back({4813, 7, 0, 0, 70, 500, 0});
  now.fuse.replaced_callers.requests += 1;
  const Snapshot d = difference(now, example());
  ASSERT_EQ(d.fuse.callers.size(), 3u);
  EXPECT_EQ(d.fuse.callers[0].requests, 5u);
  EXPECT_EQ(d.fuse.callers[0].read_bytes, 0u);
  EXPECT_EQ(d.fuse.callers[1].requests, 120u);
  EXPECT_EQ(d.fuse.callers[2].requests, 7u);
  EXPECT_EQ(d.fuse.replaced_callers.requests, 1u);
  EXPECT_TRUE(difference(example(), example()).fuse.callers.empty());
}

TEST(Difference, CountersOfRdma_AreSubtractedItsTermsAreKept) {
  Snapshot now = rdma_example();
  now.client.transports[0].rdma->write_chunks += 9;
  now.client.transports[0].rdma->credits_in_use = 7;
  const Snapshot d = difference(now, rdma_example());
  EXPECT_EQ(d.client.transports[0].rdma->write_chunks, 9u);
  EXPECT_EQ(d.client.transports[0].rdma->bytes_placed, 0u);
  EXPECT_EQ(d.client.transports[0].rdma->credits_in_use, 7u);
  EXPECT_EQ(d.client.transports[0].rdma->inline_send, 4096u);
}

TEST(Difference, SnapshotOfAnotherMount_CountsAsNothing) {
  Snapshot other = example();
  other.pid = 1;
  EXPECT_EQ(to_json(difference(example(), other)), to_json(example()));
  Snapshot older = example();
  older.client.age_seconds = 101;
  EXPECT_EQ(to_json(difference(example(), older)), to_json(example()));
}

TEST(StatusText, Snapshot_IsReadable) {
  const std::string text = status_text(example());
  for (const char* part : {"srv1:/exp a on /mnt/a b",
                           "tcp connected to 10.0.0.1:2049 from 10.0.0.2:777, TLSv1.3 with "
                           "TLS_AES_256_GCM_SHA384, server CN=filer",
                           "5 of 64 slots in use", "lease 90 s", "rsize 1048576", "process 4711",
                           "up 1 min 40 s", "Ganesha 4.3", "reconnected 1 times", "4.0 KiB, and 8.0 KiB",
                           "5 to read and 6 to write held; 20 granted, 7 recalled, 8 returned, 2 revoked",
                           "900 opens needed no OPEN",
                           "84.9 MiB, 64.0 MiB of it in huge pages; buffers 40.0 MiB, and 20.0 MiB that"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  Snapshot silent = example();
  silent.responding = false;
  EXPECT_NE(status_text(silent).find("server not responding"), std::string::npos);
}

TEST(StatusText, SecurityContexts_AreShownWithTheirEnd) {
  Snapshot s = example();
  const std::string text = status_text(s);
  EXPECT_NE(text.find("krb5p, user 1000 for 9 h 59 min\n"), std::string::npos) << text;
  EXPECT_NE(text.find("krb5p, user 1001: alice: no Kerberos ticket\n"), std::string::npos) << text;
  s.client.session.contexts.clear();
  EXPECT_NE(status_text(s).find("krb5p, nobody has a context"), std::string::npos);
  for (uint32_t user = 0; user < 25; ++user) s.client.session.contexts.push_back({user, false, 0, ""});
  EXPECT_NE(status_text(s).find("user 19 without end\n"), std::string::npos);
  EXPECT_NE(status_text(s).find("and 5 users more"), std::string::npos);
  s.client.session.security.clear();
  EXPECT_EQ(status_text(s).find("security"), std::string::npos) << "sec=sys";
}

TEST(StatusText, Rdma_IsShownWithItsTerms) {
  const std::string text = status_text(rdma_example());
  EXPECT_NE(text.find("rdma connected to 10.0.0.1:20049"), std::string::npos) << text;
  EXPECT_NE(
      text.find("software RDMA (no RDMA device), version 1 (it has no version 2), 3 of 32 credits in use (64 "
                "asked for), "
                "inline up to 4096 bytes out and 4000 in, 4 segments of memory open, fenced, closed by the "
                "server's replies"),
      std::string::npos)
      << text;
  EXPECT_EQ(status_text(example()).find("rdma"), std::string::npos);
}

void expect_chunks_and_paths(const std::string& text) {
  for (const char* part :
       {"calls: 101 inline, 102 with a Read chunk, 103 long; replies: 104 inline (105 with a Write chunk), "
        "106 "
        "long",
        "2.0 KiB inline, 4.0 KiB placed, 8.0 KiB fetched, 16.0 KiB in long calls and replies",
        "READs not placed: 111 short enough to come inline, 112 in a long reply, 113 with a chunk",
        "114 handles closed by the server, 115 errors received, 116 sent, 117 calls repeated"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(StatusAndStats, Rdma_IsShownByChunksAndPaths) {
  expect_chunks_and_paths(status_text(rdma_example()));
  expect_chunks_and_paths(stats_table(rdma_example(), 10, {false, true}));
}

TEST(StatusText, NamesFromTheServer_CannotDriveTheTerminal) {
  Snapshot s = example();
  s.client.session.server_implementation = "evil\x1b[2J\nstate: fine";
  s.source = "a\x1b]0;x\x07:/b";
  const std::string text = status_text(s) + stats_table(s, 1, {true, true});
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find("\nstate: fine"), std::string::npos);
}

TEST(StatsTable, Rates_AreOfTheInterval) {
  const std::string text = stats_table(example(), 10, {true, true});
  EXPECT_TRUE(std::regex_search(text, std::regex("READ +1000 +100\\.0 ")));
  EXPECT_NE(text.find("names 80% and attributes 70% from the cache"), std::string::npos) << text;
  EXPECT_NE(text.find("FUSE"), std::string::npos);
  EXPECT_NE(text.find("1510 calls"), std::string::npos);
  EXPECT_TRUE(
      std::regex_search(text, std::regex("requests +op/s +avg ms +median ms +99% ms +max ms +errors")));
  EXPECT_TRUE(
      std::regex_search(text, std::regex("READ +900 +90\\.0 +0\\.889 +0\\.704 +4\\.608 +5\\.000 +1\n")))
      << text;
  EXPECT_TRUE(std::regex_search(text, std::regex("READ +1000 +0\\.900 +0\\.832 +0\\.832 +30\\.000\n")))
      << text;
  const std::string plain = stats_table(example(), 10, {});
  EXPECT_EQ(plain.find("median"), std::string::npos);
  EXPECT_EQ(plain.find("FUSE"), std::string::npos);
  EXPECT_EQ(plain.find("1510 calls"), std::string::npos);
}

TEST(StatsTable, EmptyMount_DividesByNothing) {
  const std::string text = stats_table(Snapshot{}, 0, {true, true});
  EXPECT_EQ(text.find("nan"), std::string::npos);
  EXPECT_EQ(text.find("inf"), std::string::npos);
}

// https://prometheus.io/docs/instrumenting/exposition_formats: "All lines for a given metric must be provided
// as one single group"; "Each line must have a unique combination of a metric name and labels".
TEST(StatsPrometheus, Exposition_IsWellFormed) {
  Snapshot second = example();
  second.mount_point = "/other\"\\\n";
  Snapshot third = rdma_example();
  third.mount_point = "/third";
  third.client.transports.push_back(third.client.transports[0]);
  const std::string text = stats_prometheus({example(), second, third});
  const std::regex sample(
      R"re(^(nfsrdma_fuse_[a-z_]+)(\{([a-z]+="([^"\\\n]|\\["\\n])*",?)*\}) [0-9]+(\.[0-9]+)?$)re");
  std::set<std::string> closed, seen;
  std::string current;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    std::string family;
    if (line.starts_with("# HELP ") || line.starts_with("# TYPE ")) {
      family = line.substr(7, line.find(' ', 7) - 7);
    } else {
      ASSERT_TRUE(std::regex_match(line, match, sample)) << line;
      EXPECT_TRUE(seen.insert(match[1].str() + match[2].str()).second) << line;
      family = std::regex_replace(match[1].str(), std::regex("(_seconds)_(sum|count|bucket)$"), "$1");
    }
    if (family != current) {
      EXPECT_TRUE(closed.insert(current).second) << current << " is not one group";
      EXPECT_FALSE(closed.contains(family)) << family << " is not one group";
      current = family;
    }
  }
  EXPECT_NE(
      text.find("nfsrdma_fuse_nfs_operations_requests_total{export=\"srv1:/exp a\",mountpoint=\"/mnt/a b\","
                "protocol=\"tcp\",operation=\"READ\"} 1000\n"),
      std::string::npos);
  EXPECT_NE(
      text.find("nfsrdma_fuse_huge_page_bytes{export=\"srv1:/exp a\",mountpoint=\"/third\"} 67108864\n"),
      std::string::npos);
  const std::string rdma = "{export=\"srv1:/exp a\",mountpoint=\"/third\",";
  EXPECT_NE(text.find("nfsrdma_fuse_rdma_messages_total" + rdma + "form=\"write_chunk\"} 210\n"),
            std::string::npos);
  EXPECT_NE(text.find("nfsrdma_fuse_rdma_inline_threshold_bytes" + rdma + "direction=\"send\"} 4096\n"),
            std::string::npos);
  EXPECT_NE(text.find("nfsrdma_fuse_reconnects_total{export=\"srv1:/exp a\",mountpoint=\"/mnt/a b\"} 1\n"),
            std::string::npos);
}

TEST(StatsPrometheus, Histograms_AddUp) {
  const std::string text = stats_prometheus({example()});
  const std::string read = "{export=\"srv1:/exp a\",mountpoint=\"/mnt/a b\",op=\"READ\"";
  for (const char* end :
       {"_sum@} 0.800000\n", "_count@} 900\n", "_bucket@,le=\"0.00001\"} 0\n", "_bucket@,le=\"0.00064\"} 0\n",
        "_bucket@,le=\"0.00128\"} 850\n", "_bucket@,le=\"0.00512\"} 900\n", "_bucket@,le=\"10.48576\"} 900\n",
        "_bucket@,le=\"+Inf\"} 900\n"}) {
    const std::string_view form(end);
    const size_t at = form.find('@');
    const std::string line = fmt::format("\nnfsrdma_fuse_fuse_request_seconds{}{}{}", form.substr(0, at),
                                         read, form.substr(at + 1));
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
  EXPECT_NE(
      text.find("\nnfsrdma_fuse_nfs_response_seconds_bucket{export=\"srv1:/exp a\",mountpoint=\"/mnt/a b\","
                "protocol=\"tcp\",operation=\"READ\",le=\"0.02048\"} 995\n"),
      std::string::npos);
}

struct Ran {
  int status = 0;
  std::string output;
};

Ran run(const std::string& command) {
  Ran ran;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  std::array<char, 4096> buffer{};
  for (size_t n; (n = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) ran.output.append(buffer.data(), n);
  ran.status = WEXITSTATUS(pclose(pipe));
  return ran;
}

// Prometheus' own program parses the text and checks its conventions.
TEST(StatsPrometheus, Promtool_HasNothingToSay) {
  if (run("command -v promtool").status != 0)
    GTEST_SKIP() << "promtool (package prometheus) is not installed";
  const TempDirectory temp;
  Snapshot second = rdma_example();
  second.mount_point = "/other\"\\\n";
  const std::string file = temp.write("metrics", stats_prometheus({example(), second}));
  const Ran ran = run("promtool check metrics < " + file);
  EXPECT_EQ(ran.status, 0) << ran.output;
  EXPECT_EQ(ran.output, "");
}

// nfs-common's own program reads the text.
TEST(StatsMountstats, MountstatsOfNfsCommon_ReadsIt) {
  if (run("command -v mountstats").status != 0)
    GTEST_SKIP() << "mountstats (package nfs-common) is not installed";
  if (run("test -r /proc/self/mountstats").status != 0)
    GTEST_SKIP() << "/proc/self/mountstats is not readable";
  const TempDirectory temp;
  Snapshot second = example();
  second.mount_point = "/mnt/second";
  second.client.transports.clear();
  second.client.operations.clear();
  Snapshot third = rdma_example();
  third.mount_point = "/mnt/third";
  const std::string file = temp.write("stats", stats_mountstats({example(), second, third}));
  for (const char* verb :
       {"", "mountstats --raw", "mountstats --nfs", "mountstats --xprt", "nfsstat", "iostat"}) {
    const Ran ran = run(std::string("mountstats ") + verb + " -f " + file);
    EXPECT_EQ(ran.status, 0) << verb << "\n" << ran.output;
    EXPECT_EQ(ran.output.find("Traceback"), std::string::npos) << verb << "\n" << ran.output;
  }
  const Ran text = run("mountstats -f " + file);
  for (const char* part :
       {"Stats for srv1:/exp\\040a mounted on /mnt/a\\040b", "READ:\n\t1000 ops", "2 retrans", "1 errors",
        "applications read 4096000 bytes via read(2)", "Stats for srv1:/exp\\040a mounted on /mnt/second"}) {
    EXPECT_NE(text.output.find(part), std::string::npos) << part << "\n" << text.output;
  }
  const Ran since = run("mountstats -S " + file + " -f " + file);
  EXPECT_EQ(since.status, 0) << since.output;
}

}  // namespace
}  // namespace nfsrdma::cli
