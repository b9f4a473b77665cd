// SPDX-License-Identifier: Apache-2.0
// Each verdict of the doctor, from constructed facts.
#include <gtest/gtest.h>

#include <cerrno>

#include "cli/doctor/checks.h"
#include "cli/doctor/gather.h"
#include "cli/doctor/name_filter.h"

namespace nfsrdma::cli::doctor {
namespace {

// A machine, a server and a mount without any problem.
Facts healthy() {
  Facts f;
  f.version = "1";
  MachineFacts& m = f.machine;
  m.kernel = "6.1.0";
  m.kernel_major = 6;
  m.kernel_minor = 1;
  m.user_allow_other = true;
  m.memlock_bytes = UINT64_MAX;
  m.memory_bytes = m.memory_available_bytes = uint64_t{16} << 30;
  m.cache_bytes = uint64_t{1} << 30;
  m.clock_synchronised = true;
  ServerFacts& s = f.server.emplace();
  s.host = "filer";
  s.path = "/";
  s.resolved = true;
  s.addresses = {"192.0.2.1"};
  s.reverse = "filer.example.com";
  s.tcp.emplace();
  s.tcp->port = 2049;
  s.tcp->state = PortState::kOpen;
  s.tcp->answer = NfsAnswer::kVersion4;
  s.tcp->path_mtu = 1500;
  s.rdma = {{true, "filer: software RDMA"}};
  SessionFacts& session = s.session.emplace();
  session.made = true;
  session.lease_seconds = 90;
  session.listed = true;
  session.names = {"export"};
  session.entries = 1;
  MountFacts& mount = f.mounts.emplace_back();
  mount.mount_point = "/mnt";
  mount.source = "filer:/export";
  Snapshot& snapshot = mount.snapshot.emplace();
  snapshot.version = "1";
  snapshot.state = "mounted";
  snapshot.log_level = "info";
  snapshot.client.cache.data_limit_bytes = m.cache_bytes;
  return f;
}

std::vector<Finding> of(const Facts& facts, std::string_view check) {
  std::vector<Finding> out;
  for (const Result& r : judge(facts)) {
    if (r.check->name == check) out.push_back(r.finding);
  }
  return out;
}

// The worst finding of a check.
Finding one(const Facts& facts, std::string_view check) {
  const auto found = of(facts, check);
  if (found.empty()) {
    ADD_FAILURE() << "no finding of " << check;
    return {};
  }
  return found.front();
}

void expect(Verdict verdict, const Facts& facts, std::string_view check, std::string_view words) {
  const Finding finding = one(facts, check);
  EXPECT_EQ(to_string(finding.verdict), to_string(verdict)) << check << ": " << finding.text;
  const std::string line = finding.text + "; " + finding.remedy;
  EXPECT_NE(line.find(words), std::string::npos) << line;
  if (verdict == Verdict::kBad || verdict == Verdict::kWarn) {
    EXPECT_FALSE(finding.remedy.empty()) << finding.text;
  }
}

TEST(Doctor, Health_HasNothingBadAndNothingToWarnOf) {
  for (const Result& r : judge(healthy())) {
    EXPECT_TRUE(r.finding.verdict == Verdict::kGood || r.finding.verdict == Verdict::kUnknown)
        << r.check->name << ": " << r.finding.text;
  }
  EXPECT_FALSE(any_bad(judge(healthy())));
}

TEST(Doctor, EveryCheck_HasAVerdictSomewhere) {
  Facts f = healthy();
  f.machine.page_reporting = false;
  f.machine.rdma_ports = {{.device = "rxe0",
                           .port = 1,
                           .state = "PORT_ACTIVE",
                           .active = true,
                           .link_layer = "Ethernet",
                           .mtu = 1024,
                           .largest_mtu = 1024}};
  for (const Check& check : checks()) EXPECT_FALSE(of(f, check.name).empty()) << check.name;
}

TEST(Doctor, Report_HasTheWorstFirst) {
  Facts f = healthy();
  f.server->tcp->state = PortState::kRefused;
  f.server->rdma.clear();
  f.machine.clock_synchronised = false;
  const std::string text = text_of(judge(f));
  EXPECT_TRUE(text.starts_with("bad      port ")) << text;
  EXPECT_LT(text.find("\nwarn "), text.find("\ngood "));
  const Json json = json_of(f, judge(f));
  EXPECT_TRUE(json["bad"].get<bool>());
  EXPECT_EQ(json["checks"][0]["check"], "port");
  EXPECT_EQ(json["checks"][0]["verdict"], "bad");
}

TEST(Doctor, Report_IsBrokenBetweenWordsForATerminal) {
  Facts f = healthy();
  f.machine.clock_synchronised = false;
  const auto results = judge(f);
  EXPECT_EQ(text_of(results), text_of(results, 0));
  std::string text = text_of(results, 60);
  for (size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
    EXPECT_LE(end - at, 60u) << text.substr(at, end - at);
  const std::string broken = "\n" + std::string(24, ' ');
  EXPECT_NE(text.find(broken), std::string::npos);
  for (size_t at; (at = text.find(broken)) != std::string::npos;) text.replace(at, broken.size(), " ");
  EXPECT_EQ(text, text_of(results)) << "nothing is lost";
}

TEST(DoctorMachine, Kernel) {
  Facts f = healthy();
  f.machine.kernel_major = 4;
  expect(Verdict::kBad, f, "kernel", "older");
  f.machine.kernel_major = 5;
  f.machine.kernel_minor = 10;
  expect(Verdict::kWarn, f, "kernel", "tested");
}

TEST(DoctorMachine, Fuse_HasTheRemedyOfMount) {
  Facts f = healthy();
  f.machine.device_problem = "/dev/fuse: No such file or directory; run 'modprobe fuse' as root";
  expect(Verdict::kBad, f, "fuse", "run 'modprobe fuse' as root");
  EXPECT_EQ(one(f, "fuse").remedy, "run 'modprobe fuse' as root");
}

TEST(DoctorMachine, Fusermount_IsOfNoUseToRoot) {
  Facts f = healthy();
  f.machine.helper_problem = "fusermount3 is missing; install the package fuse3";
  expect(Verdict::kBad, f, "fusermount3", "fuse3");
  f.machine.root = true;
  expect(Verdict::kWarn, f, "fusermount3", "root needs none");
}

TEST(DoctorMachine, AllowOther_IsSaidAndNotHeldAgainstAnybody) {
  Facts f = healthy();
  f.machine.user_allow_other = false;
  expect(Verdict::kGood, f, "allow-other", "no user_allow_other");
}

TEST(DoctorMachine, Memlock_CountsWithDevicesOnly) {
  Facts f = healthy();
  f.machine.memlock_bytes = 8 << 20;
  EXPECT_TRUE(of(f, "memlock").empty());
  f.machine.rdma_ports = {{.device = "mlx5_0", .port = 1, .active = true}};
  expect(Verdict::kWarn, f, "memlock", "ulimit -l 2097152");
  f.machine.memlock_bytes = uint64_t{2} << 30;
  expect(Verdict::kGood, f, "memlock", "2048 MiB");
  f.machine.memlock_bytes = 8 << 20;
  f.machine.memlock_exempt = true;
  expect(Verdict::kGood, f, "memlock", "not limited");
}

TEST(DoctorMachine, RdmaPorts) {
  Facts f = healthy();
  f.machine.rdma_ports = {{.device = "mlx5_0", .port = 1, .state = "PORT_DOWN"}};
  expect(Verdict::kWarn, f, "rdma-device", "PORT_DOWN");
  f.machine.rdma_ports = {{.device = "mlx5_0", .error = EACCES}};
  expect(Verdict::kBad, f, "rdma-device", "Permission denied");
  f.machine.rdma_ports = {};
  expect(Verdict::kGood, f, "rdma-device", "no RDMA device");
}

TEST(DoctorMachine, Mtu) {
  Facts f = healthy();
  f.machine.rdma_ports = {{.device = "rxe0",
                           .port = 1,
                           .active = true,
                           .link_layer = "Ethernet",
                           .mtu = 1024,
                           .largest_mtu = 4096}};
  expect(Verdict::kWarn, f, "mtu", "1024 of 4096");
  f = healthy();
  f.server->tcp->path_mtu = 576;
  expect(Verdict::kWarn, f, "mtu", "576 bytes");
}

TEST(DoctorMachine, PageReporting) {
  Facts f = healthy();
  EXPECT_TRUE(of(f, "page-reporting").empty());
  f.machine.page_reporting = true;
  expect(Verdict::kWarn, f, "page-reporting", "free-page-reporting=off");
  f.machine.page_reporting = false;
  expect(Verdict::kGood, f, "page-reporting", "does not give");
}

TEST(DoctorMachine, Uring) {
  Facts f = healthy();
  f.machine.enable_uring = "Y";
  expect(Verdict::kGood, f, "uring", "is Y");
}

TEST(DoctorServer, Names) {
  Facts f = healthy();
  f.server->reverse.clear();
  expect(Verdict::kUnknown, f, "name", "has no name");
  f.server->resolved = false;
  f.server->resolve_error = "Name or service not known";
  expect(Verdict::kBad, f, "name", "getent ahosts filer");
  f.server->resolve_timed_out = true;
  expect(Verdict::kBad, f, "name", "resolv.conf");
}

TEST(DoctorServer, SilenceIsNotARefusal) {
  Facts f = healthy();
  f.server->rdma.clear();
  f.server->tcp->state = PortState::kSilent;
  expect(Verdict::kBad, f, "port", "firewall");
  f.server->tcp->state = PortState::kRefused;
  expect(Verdict::kBad, f, "port", "the machine is up");
  f.server->tcp->state = PortState::kUnreachable;
  f.server->tcp->error = "No route to host";
  expect(Verdict::kBad, f, "port", "No route to host");
  // One working transport is enough: with RDMA it is only a warning.
  f.server->rdma = {{true, "software RDMA"}};
  expect(Verdict::kWarn, f, "port", "No route to host");
}

TEST(DoctorServer, Versions) {
  Facts f = healthy();
  f.server->tcp->answer = NfsAnswer::kVersion3;
  expect(Verdict::kWarn, f, "version", "version 3 only");
  f.server->tcp->answer = NfsAnswer::kNotNfs;
  f.server->tcp->answer_text = "NULL: the answer is not from an RPC server";
  expect(Verdict::kBad, f, "version", "not from an RPC server");
  f.server->tcp->answer = NfsAnswer::kNone;
  expect(Verdict::kBad, f, "version", "answers nothing");
}

TEST(DoctorServer, RdmaThatNobodyAskedForIsAWarning) {
  Facts f = healthy();
  f.server->rdma = {{false, "connect: refused"}};
  expect(Verdict::kWarn, f, "rdma", "proto=tcp");
  f.server->rdma_wanted_only = true;
  expect(Verdict::kBad, f, "rdma", "refused");
}

TEST(DoctorServer, Sessions) {
  Facts f = healthy();
  f.server->session = SessionFacts{};
  f.server->session->timed_out = true;
  expect(Verdict::kBad, f, "session", "grace period");
  f.server->session->timed_out = false;
  f.server->session->error = "LOOKUP: NFS4ERR_NOENT";
  f.server->path = "/absent";
  expect(Verdict::kBad, f, "session", "nfsrdma-fuse probe filer");
}

TEST(DoctorServer, Exports) {
  Facts f = healthy();
  f.server->session->entries = 0;
  f.server->session->names.clear();
  expect(Verdict::kWarn, f, "exports", "exports nothing");
  f.server->session->listed = false;
  f.server->session->list_error = "READDIR: NFS4ERR_ACCESS";
  expect(Verdict::kWarn, f, "exports", "NFS4ERR_ACCESS");
}

TEST(DoctorServer, LowPorts) {
  Facts f = healthy();
  expect(Verdict::kGood, f, "low-port", "any user");
  f.server->session = SessionFacts{};
  f.server->session->refused = true;
  expect(Verdict::kBad, f, "low-port", "insecure");
  f.machine.first_user_port = 0;
  expect(Verdict::kWarn, f, "low-port", "resvport");
  f.machine.root = true;
  f.server->session->made = f.server->session->low_port_mends = true;
  expect(Verdict::kGood, f, "low-port", "below 1024");
}

TEST(DoctorServer, Owners) {
  Facts f = healthy();
  f.server->session->nobodys = 1;
  f.machine.idmap_domain = "example.com";
  expect(Verdict::kWarn, f, "owners", "example.com");
}

TEST(DoctorServer, Clock) {
  Facts f = healthy();
  expect(Verdict::kUnknown, f, "clock", "date -u");
  f.server->session->newest_ahead_seconds = 100;
  expect(Verdict::kWarn, f, "clock", "100 s in the future");
  f.server->session->newest_ahead_seconds = -100;
  expect(Verdict::kUnknown, f, "clock", "date -u");
  f.machine.clock_synchronised = false;
  expect(Verdict::kWarn, f, "clock", "set-ntp");
}

TEST(DoctorMount, Daemon) {
  Facts f = healthy();
  expect(Verdict::kGood, f, "daemon", "answer");
  f.mounts[0].snapshot->responding = false;
  expect(Verdict::kBad, f, "daemon", "does not answer");
  f.mounts[0].snapshot->responding = true;
  auto& transports = f.mounts[0].snapshot->client.transports;
  const auto connected = transports;
  transports.assign(1, {});
  transports[0].state = rpc::TransportState::kBackoff;
  expect(Verdict::kBad, f, "daemon", "no connection");
  transports = connected;
  f.mounts[0].snapshot->version = "0";
  expect(Verdict::kWarn, f, "daemon", "mount it again");
  f.mounts[0].snapshot->state = "unmounting";
  expect(Verdict::kWarn, f, "daemon", "unmounting");
  f.mounts[0].snapshot.reset();
  f.mounts[0].error =
      "filer:/export on /mnt: refused; if the daemon has died, run 'nfsrdma-fuse umount /mnt', with --force "
      "if it hangs";
  expect(Verdict::kBad, f, "daemon", "umount /mnt");
  f.mounts[0].may_ask = false;
  expect(Verdict::kUnknown, f, "daemon", "another user's");
}

TEST(DoctorMount, Placement) {
  Facts f = healthy();
  expect(Verdict::kGood, f, "placement", "TCP");
  rdma::RdmaStatus& rdma = f.mounts[0].snapshot->client.transports.emplace_back().rdma.emplace();
  expect(Verdict::kUnknown, f, "placement", "too few");
  rdma.write_chunks = 10;
  rdma.reads_chunk_unused = 20;
  expect(Verdict::kWarn, f, "placement", "20 did not use");
  rdma.write_chunks = 100;
  expect(Verdict::kGood, f, "placement", "100 READs placed");
}

TEST(DoctorMount, Cache) {
  Facts f = healthy();
  client::CacheStatistics& cache = f.mounts[0].snapshot->client.cache;
  cache.ahead_bytes = uint64_t{100} << 20;
  cache.ahead_wasted_bytes = uint64_t{80} << 20;
  expect(Verdict::kWarn, f, "cache", "read_ahead_kb");
  cache.data_limit_bytes = 4 << 20;
  f.machine.memory_available_bytes = 8 << 20;
  expect(Verdict::kWarn, f, "cache", "memory is short");
  cache.refused_bytes = 5 << 20;
  expect(Verdict::kBad, f, "cache", "5 MiB");
}

TEST(DoctorMount, LogLevel) {
  Facts f = healthy();
  f.mounts[0].snapshot->log_level = "trace";
  expect(Verdict::kWarn, f, "log-level", "nfsrdma-fuse log-level /mnt info");
}

TEST(DoctorGather, FeaturesOfABalloon) {
  EXPECT_TRUE(reports_pages("0110010000"));
  EXPECT_FALSE(reports_pages("0110000000"));
  EXPECT_FALSE(reports_pages("01"));
}

TEST(DoctorGather, DomainOfIdmapd) {
  EXPECT_EQ(domain_in("[General]\n#Domain = no\n Domain = example.com \n"), "example.com");
  EXPECT_EQ(domain_in("[General]\nVerbosity = 0\n"), "");
}

TEST(DoctorGather, WayOfAMount) {
  EXPECT_EQ(way_in("rw,vers=4.1,proto=tcp,port=2050", false), "port=2050,proto=tcp");
  EXPECT_EQ(way_in("rw,vers=4.1,proto=tcp,port=2050", true), "port=2050,proto=tcp");
  EXPECT_EQ(way_in("rw,proto=rdma,port=20049", true), "");
  EXPECT_EQ(way_in("rw,proto=rdma,port=20049", false), "port=20049,proto=rdma");
  EXPECT_EQ(log_file_in("rw,log=/var/log/x\\,y"), "/var/log/x,y");
  EXPECT_EQ(log_file_in("rw,log=journal"), "");
}

// --- names

NameFilter filter() {
  return NameFilter(
      words_of("server not responding locks of are lost data could be written: mounted on /export rw log "
               "unmounted tcp"));
}

TEST(NameFilter, KnownNames_AreReplacedEverywhere) {
  NameFilter f = filter();
  f.add("server", "server");  // also a word of the vocabulary
  f.add("export", "/export");
  EXPECT_EQ(f.text("server server:/export not responding"), "server-1 server-1:export-1 not responding");
  EXPECT_EQ(f.text("mounted on /export."), "mounted on export-1.");
}

TEST(NameFilter, WordsOfNobodysVocabulary_AreNames) {
  NameFilter f = filter();
  EXPECT_EQ(f.text("locks of salaries are lost"), "locks of name-1 are lost");
  EXPECT_EQ(f.text("locks of \"salaries\" (12, 4.1)"), "locks of \"name-1\" (12, 4.1)");
  EXPECT_EQ(f.text("data of /home/anna/letter.txt could not"), "data of path-1 could not");
  EXPECT_EQ(f.text("10.1.2.3 and [fe80::1]").find("10.1"), std::string::npos);
  EXPECT_EQ(f.text("läßt").find("l"), std::string::npos);
}

TEST(NameFilter, NumbersWithAUnit_AreNumbers) {
  NameFilter f = filter();
  EXPECT_EQ(f.text("locks 100ms 5s 64KiB 99.5% 1.5GiB lost"), "locks 100ms 5s 64KiB 99.5% 1.5GiB lost");
  EXPECT_EQ(f.text("5salaries 10.0.0.1s 3M -s"), "name-1 address-1 name-2 name-3");
}

TEST(NameFilter, TheSameName_HasTheSameStandIn) {
  NameFilter f = filter();
  EXPECT_EQ(f.text("salaries bonus"), "name-1 name-2");
  EXPECT_EQ(f.text("bonus"), "name-2");
}

TEST(NameFilter, WhatLiesBelowAKnownDirectory_IsAName) {
  NameFilter f = filter();
  f.add("mount", "/export");
  EXPECT_EQ(f.text("/export/anna").find("anna"), std::string::npos);
  EXPECT_EQ(f.text("/exported").find("exported"), std::string::npos);
}

TEST(NameFilter, Json_KeepsKeysAndNumbers) {
  NameFilter f = filter();
  const Json out = f.json({{"secret_key", {{"a", "salaries"}, {"n", 7}}}, {"list", {"tcp", "anna"}}});
  EXPECT_EQ(out.dump(), R"({"list":["tcp","name-1"],"secret_key":{"a":"name-2","n":7}})");
}

}  // namespace
}  // namespace nfsrdma::cli::doctor
