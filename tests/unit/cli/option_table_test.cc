// SPDX-License-Identifier: Apache-2.0
#include "cli/options/option_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "cli/options/options.h"

namespace nfsrdma::cli {
namespace {

// NFSv3's options need vers=3 beside them.
bool of_version3(std::string_view item) {
  const std::string_view name = item.substr(0, item.find('='));
  return std::ranges::find(version3_options(), name) != version3_options().end();
}

ParsedOptions parse_given(const std::string& given) {
  const std::string list = of_version3(given) ? "vers=3," + given : given;
  const auto items = split_options(list);
  EXPECT_TRUE(items) << list;
  std::vector<OptionLayer> layers;
  for (const RawOption& item : *items) layers.push_back({OptionOrigin::kCommandLine, {}, item});
  auto parsed = parse_options(layers, false);
  EXPECT_TRUE(parsed) << list << ": " << parsed.error().text;
  return parsed ? *std::move(parsed) : ParsedOptions{};
}

// The options shown without `item`.
std::string shown_without(std::string_view item) {
  return show_options(of_version3(item) ? parse_given("vers=3").values : MountOptions{});
}

std::string error_of_given(const std::string& list) {
  const auto items = split_options(list);
  std::vector<OptionLayer> layers;
  for (const RawOption& item : *items) layers.push_back({OptionOrigin::kCommandLine, {}, item});
  const auto parsed = parse_options(layers, false);
  if (parsed) return "accepted";
  EXPECT_EQ(parsed.error().exit_code, 1);
  EXPECT_EQ(parsed.error().text.find('\n'), std::string::npos);
  return parsed.error().text;
}

// All names of a row, without the x-* patterns.
std::vector<std::string> names(const OptionSpec& spec) {
  std::vector<std::string> all{std::string(spec.name)};
  for (const std::string_view alias : split_words(spec.aliases)) {
    if (!alias.ends_with('*')) all.emplace_back(alias);
  }
  return all;
}

TEST(OptionTable, Names_AreUniqueAndUnderscored) {
  std::set<std::string> seen;
  for (const OptionSpec& spec : option_table()) {
    for (const std::string& name : names(spec)) {
      EXPECT_TRUE(seen.insert(name).second) << name << " is in two rows";
      EXPECT_EQ(name.find('-'), std::string::npos) << name;
      EXPECT_EQ(find_option(name).spec, &spec) << name;
      EXPECT_FALSE(find_option(name).negated) << name;
    }
  }
  for (const OptionSpec& spec : option_table()) {
    if (spec.off.empty()) continue;
    // The opposite is only a name, or is a switch itself: `soft` turns `hard` off.
    EXPECT_NE(find_option(spec.off).spec, nullptr) << spec.off;
  }
}

TEST(OptionTable, EveryRow_IsComplete) {
  for (const OptionSpec& spec : option_table()) {
    EXPECT_FALSE(spec.help.empty()) << spec.name;
    const bool active = spec.kind != OptionKind::kRefused && spec.kind != OptionKind::kIgnored;
    EXPECT_EQ(spec.set != nullptr, active) << spec.name << ": parsed and ignored?";
    if (spec.kind == OptionKind::kNumber || spec.kind == OptionKind::kSize) {
      EXPECT_LE(spec.min, spec.max) << spec.name;
      EXPECT_FALSE(spec.unit.empty()) << spec.name;
    }
    if (spec.kind == OptionKind::kWord) {
      EXPECT_FALSE(spec.words.empty()) << spec.name;
    }
    if (spec.kind == OptionKind::kText) {
      EXPECT_FALSE(spec.unit.empty()) << spec.name;
    }
  }
}

// The default that help and manual pages print is the effective default.
TEST(OptionTable, PrintedDefault_IsTheDefaultInEffect) {
  for (const OptionSpec& spec : option_table()) {
    if (spec.fallback.empty() || spec.fallback.starts_with('(')) continue;
    std::string item(spec.name);
    if (spec.kind == OptionKind::kSwitch) {
      if (spec.fallback == "off" && spec.off.empty()) continue;  // nothing to write for it
      if (spec.fallback == "off") item = spec.off;
    } else {
      item += "=" + std::string(spec.fallback);
    }
    MountOptions options = parse_given(item).values;
    options.family = AddressFamily::kAny;
    EXPECT_EQ(show_options(options), shown_without(item)) << item;
  }
}

// `status` shows every option that has an effect.
TEST(OptionTable, EveryActiveRow_ChangesWhatIsShown) {
  // These show nothing of their own: another row shows their effect, or they only state the default. NFSv3's
  // state what holds anyway: locks stay local, MOUNT uses proto.
  const std::set<std::string> same_as_default{"vers",    "minorversion", "v4.1",      "v4",
                                              "proto",   "sec",          "xprtsec",   "sloppy",
                                              "remount", "nolock",       "mountvers", "mountproto"};
  for (const OptionSpec& spec : option_table()) {
    if (spec.set == nullptr || same_as_default.contains(std::string(spec.name))) continue;
    std::string item;
    switch (spec.kind) {
      case OptionKind::kSwitch: item = spec.fallback == "on" ? spec.off : spec.name; break;
      case OptionKind::kNumber: item = std::string(spec.name) + "=7"; break;
      case OptionKind::kSize: item = std::string(spec.name) + "=8k"; break;
      case OptionKind::kWord: {
        for (const std::string_view word : split_words(spec.words)) {
          if (word != spec.fallback) item = std::string(spec.name) + "=" + std::string(word);
        }
        break;
      }
      default: item = std::string(spec.name) + (spec.name == "metrics" ? "=unix:" : "=") + "/some/file";
    }
    EXPECT_NE(show_options(parse_given(item).values), shown_without(item)) << item;
  }
}

TEST(OptionTable, ShownOptions_ParseToTheSameOptions) {
  const char* lists[] = {
      "",
      "ro,soft,timeo=50,retrans=5,rsize=32k,wsize=64k,noac,nocto,nordirplus,lookupcache=pos",
      "proto=tcp6,port=20049,noresvport,softerr,bg,retry=3,acregmin=1,acdirmax=9,local_lock=flock",
      "proto=rdma6,rdmavers=2",
      "rdma,rdmavers=1,inline=8k,credits=16,ddp=1k,ccp",
      "proto=rdma,rdma_dev=rxe0:1,gid_index=2,poll_us=50",
      R"(xprtsec=mtls,tls_ca=/ca,tls_cert="/a,b",tls_key=/key,sec=krb5p:krb5)",
      "sync,dirsync,dev,suid,noexec,allow_other,default_permissions,auto_unmount,threads=4",
      "allow_root,idmap=nfsidmap,log=/var/log/"
      "x,log_level=debug,log_format=json,read_ahead_kb=1024,cache_mem=2g",
      R"(log="/var/log/a,b",mounthost="\"other",vers=3)",
      "metrics=127.0.0.1:9464",
      "metrics=[::1]:9464",
      "metrics=unix:/run/m"};
  for (const char* list : lists) {
    const std::string shown = show_options(parse_given(list).values);
    EXPECT_EQ(show_options(parse_given(shown).values), shown) << list;
  }
}

// A thread has one connection and reads FUSE requests. So the names that other programs use for either are
// aliases.
TEST(OptionTable, Threads_IsWhatNconnectAndFuseThreadsAskFor) {
  for (const char* list :
       {"threads=3", "nconnect=3", "fuse_threads=3", "fuse-threads=3", "threads=9,nconnect=3"}) {
    EXPECT_EQ(parse_given(list).values.threads, 3u) << list;
  }
  EXPECT_NE(error_of_given("nconnect=17").find("is not from 1 to 16"), std::string::npos);
  EXPECT_NE(error_of_given("max_connect=4").find("is not implemented"), std::string::npos);
}

// The address decides between tcp and tcp6.
TEST(OptionTable, Proto_IsShownWhenItIsKnown) {
  EXPECT_EQ(show_options(MountOptions{}).find("proto="), std::string::npos);
  EXPECT_NE(show_options(parse_given("proto=tcp").values).find(",proto=tcp,"), std::string::npos);
  EXPECT_NE(show_options(parse_given("proto=tcp6").values).find(",proto=tcp6,"), std::string::npos);
  EXPECT_NE(show_options(parse_given("rdma").values).find(",proto=rdma,"), std::string::npos);
  EXPECT_NE(show_options(parse_given("proto=rdma6,rdmavers=1").values).find(",proto=rdma6,rdmavers=1,"),
            std::string::npos);
}

TEST(OptionTable, FixedChanges_AreWhatSighupCannotDo) {
  const auto changes = [](const char* now, const char* wanted) {
    return fixed_changes(parse_given(now).values, parse_given(wanted).values);
  };
  EXPECT_EQ(changes("", ""), "");
  EXPECT_EQ(changes("", "log_level=debug,log=/x,log_format=json"), "");
  EXPECT_EQ(changes("", "soft,timeo=70,log=/x"), "soft,timeo=70");
  EXPECT_EQ(changes("soft,bg", "hard"), "hard,fg");
  EXPECT_EQ(changes("softerr,rsize=4096,sync,allow_root", "soft"), "soft,rsize,async,allow_root");
}

TEST(OptionTable, RefusedRow_FailsWithItsReason) {
  for (const OptionSpec& spec : option_table()) {
    if (spec.kind != OptionKind::kRefused) continue;
    for (const std::string& name : names(spec)) {
      EXPECT_NE(error_of_given(name).find(spec.help), std::string::npos) << name;
      EXPECT_NE(error_of_given(name + "=1").find(name), std::string::npos) << name;
    }
  }
}

// mount(8) passes the options of the mount table to the helper on remount.
TEST(OptionTable, WhatTheKernelShows_IsSkippedByRemount) {
  EXPECT_EQ(error_of_given("remount,ro,nosuid,nodev,relatime,user_id=0,group_id=0,allow_other,max_read=1"),
            "accepted");
  EXPECT_NE(error_of_given("ro,user_id=0"), "accepted");
  EXPECT_NE(error_of_given("remount,umask=0"), "accepted");
}

TEST(OptionTable, IgnoredRow_ChangesNothing) {
  for (const OptionSpec& spec : option_table()) {
    if (spec.kind != OptionKind::kIgnored) continue;
    for (const std::string& name : names(spec)) {
      EXPECT_EQ(show_options(parse_given(name).values), show_options(MountOptions{})) << name;
      EXPECT_EQ(show_options(parse_given(name + "=x").values), show_options(MountOptions{})) << name;
    }
  }
  for (const char* name :
       {"x-systemd.automount", "x-systemd.idle-timeout=60", "X-mount.mkdir=0755", "x-gvfs-show"}) {
    EXPECT_EQ(show_options(parse_given(name).values), show_options(MountOptions{})) << name;
  }
}

TEST(OptionTable, NumberRow_KeepsItsRange) {
  for (const OptionSpec& spec : option_table()) {
    if (spec.kind != OptionKind::kNumber || spec.name == "minorversion") continue;
    const std::string name(spec.name);
    parse_given(name + "=" + std::to_string(spec.min));
    parse_given(name + "=" + std::to_string(spec.max));
    EXPECT_NE(error_of_given(name + "=" + std::to_string(spec.max + 1)).find("is not from"),
              std::string::npos)
        << name;
    if (spec.min > 0) {
      EXPECT_NE(error_of_given(name + "=" + std::to_string(spec.min - 1)), "accepted") << name;
    }
    for (const char* text : {"=x", "=1x", "=-1", "= 1", "=1.5", "=0x10", "=", "=99999999999999999999999"}) {
      EXPECT_NE(error_of_given(name + text), "accepted") << name << text;
    }
    EXPECT_NE(error_of_given(name).find("needs a value"), std::string::npos) << name;
  }
}

TEST(OptionTable, WordRow_TakesItsWordsOnly) {
  for (const OptionSpec& spec : option_table()) {
    if (spec.kind != OptionKind::kWord) continue;
    for (const std::string_view word : split_words(spec.words))
      parse_given(std::string(spec.name) + "=" + std::string(word));
    EXPECT_NE(error_of_given(std::string(spec.name) + "=nonsense").find("is none of"), std::string::npos)
        << spec.name;
    EXPECT_NE(error_of_given(std::string(spec.name)).find("needs a value"), std::string::npos) << spec.name;
  }
}

TEST(OptionTable, SwitchRow_TakesNoValue) {
  for (const OptionSpec& spec : option_table()) {
    if (spec.kind != OptionKind::kSwitch) continue;
    EXPECT_NE(error_of_given(std::string(spec.name) + "=1").find("takes no value"), std::string::npos)
        << spec.name;
  }
}

TEST(OptionTable, Help_NamesEveryActiveOptionWithinTheWidth) {
  const std::string help = options_help(100);
  for (const OptionSpec& spec : option_table()) {
    if (spec.kind != OptionKind::kRefused) {
      EXPECT_NE(help.find(spec.name), std::string::npos) << spec.name;
    }
  }
  size_t start = 0;
  while (start < help.size()) {
    const size_t end = help.find('\n', start);
    EXPECT_LE(end - start, 100u) << help.substr(start, end - start);
    start = end + 1;
  }
}

}  // namespace
}  // namespace nfsrdma::cli
