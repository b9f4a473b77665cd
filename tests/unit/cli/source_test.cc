// SPDX-License-Identifier: Apache-2.0
#include "cli/options/source.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace nfsrdma::cli {
namespace {

struct Good {
  const char* text;
  const char* host;
  HostKind kind;
  int port;  // 0: none
  const char* path;
};

class SourceGood : public testing::TestWithParam<Good> {};

TEST_P(SourceGood, Text_IsUnderstood) {
  const Good& want = GetParam();
  const auto source = parse_source(want.text);
  ASSERT_TRUE(source) << source.error().text;
  EXPECT_EQ(source->text, want.text);
  EXPECT_EQ(source->host, want.host);
  EXPECT_EQ(source->host_kind, want.kind);
  EXPECT_EQ(source->port.value_or(0), want.port);
  EXPECT_EQ(source->path, want.path);
}

INSTANTIATE_TEST_SUITE_P(Forms, SourceGood,
                         testing::Values(
                             // nfs(5): "The server's hostname and export pathname are separated by a colon"
                             Good{"srv1:/exp", "srv1", HostKind::kName, 0, "/exp"},
                             Good{"srv1:/", "srv1", HostKind::kName, 0, "/"},
                             Good{"a.b-c.example:/x/y z/ü", "a.b-c.example", HostKind::kName, 0, "/x/y z/ü"},
                             Good{"srv:/a:/b", "srv", HostKind::kName, 0, "/a:/b"},
                             Good{"srv://a//b///", "srv", HostKind::kName, 0, "/a/b"},
                             Good{"10.0.0.1:/exp", "10.0.0.1", HostKind::kIpv4, 0, "/exp"},
                             // nfs(5): "an IPv6 address enclosed in square brackets"
                             Good{"[2001:db8::1]:/exp", "2001:db8::1", HostKind::kIpv6, 0, "/exp"},
                             Good{"[fe80::1%eth0]:/exp", "fe80::1%eth0", HostKind::kIpv6, 0, "/exp"},
                             Good{"[::1]:/", "::1", HostKind::kIpv6, 0, "/"},
                             // RFC 2224
                             Good{"nfs://srv", "srv", HostKind::kName, 0, "/"},
                             Good{"nfs://srv/exp", "srv", HostKind::kName, 0, "/exp"},
                             Good{"nfs://srv:20049/exp/a%20b%2C", "srv", HostKind::kName, 20049, "/exp/a b,"},
                             Good{"nfs://srv//exp/", "srv", HostKind::kName, 0, "/exp"},
                             Good{"nfs://[2001:db8::1]:2050/e", "2001:db8::1", HostKind::kIpv6, 2050, "/e"},
                             // RFC 6874: the zone's percent sign is written %25 in a URL
                             Good{"nfs://[fe80::1%25eth0]/e", "fe80::1%eth0", HostKind::kIpv6, 0, "/e"},
                             Good{"nfs://10.1.2.3:1/e", "10.1.2.3", HostKind::kIpv4, 1, "/e"}));

class SourceBad : public testing::TestWithParam<const char*> {};

TEST_P(SourceBad, Text_IsRefusedAsUsage) {
  const auto source = parse_source(GetParam());
  ASSERT_FALSE(source) << source->host << " " << source->path;
  EXPECT_EQ(source.error().exit_code, 1);
  EXPECT_EQ(source.error().text.find('\n'), std::string::npos);
  EXPECT_NE(source.error().text.find(GetParam()), std::string::npos) << source.error().text;
}

INSTANTIATE_TEST_SUITE_P(Forms, SourceBad,
                         testing::Values("", "srv", "srv:", "srv:exp", ":/exp", "/exp", "/a:/b", "[::1:/exp",
                                         "[::1]/exp", "[srv]:/exp", "[]:/exp", "[::1%]:/exp",
                                         "[127.0.0.1]:/exp", "2001:db8::1:/exp", "::1:/exp", "s rv:/exp",
                                         "a,b:/exp", "me@srv:/exp", "srv\x01:/exp", "srv:/a/../b", "srv:/./a",
                                         "nfs://", "nfs:///exp", "nfs://srv:0/e", "nfs://srv:65536/e",
                                         "nfs://srv:/e", "nfs://srv:12x/e", "nfs://srv/e?vers=3",
                                         "nfs://srv/e#x", "nfs://srv/%", "nfs://srv/%1", "nfs://srv/%zz",
                                         "nfs://srv/a%00b", "nfs://srv/%2e%2e/b", "nfs://u@srv/e",
                                         "nfs://fe80::1/e", "nfs://[::1]x/e"));

TEST(Source, LongNames_AreRefused) {
  EXPECT_TRUE(parse_source("srv:/" + std::string(255, 'a')));
  EXPECT_FALSE(parse_source("srv:/" + std::string(256, 'a')));
  EXPECT_FALSE(parse_source(std::string(256, 'a') + ":/e"));
  std::string deep = "srv:";
  for (int i = 0; i < 2048; ++i) deep += "/a";
  EXPECT_FALSE(parse_source(deep));
}

TEST(Source, ServerAlone_IsEnoughForProbe) {
  const auto server = parse_server("srv1");
  ASSERT_TRUE(server);
  EXPECT_EQ(server->host, "srv1");
  EXPECT_EQ(server->path, "/");
  EXPECT_EQ(parse_server("[::1]")->host, "::1");
  EXPECT_EQ(parse_server("srv1:/exp")->path, "/exp");
  EXPECT_FALSE(parse_server("srv1:"));
  EXPECT_FALSE(parse_server("::1"));
}

TEST(Source, AnyBytes_GiveACleanPathOrARefusal) {
  const auto clean = [](const std::string& text) {
    const auto source = parse_source(text);
    if (!source) return;
    RC_ASSERT(source->path.starts_with('/'));
    RC_ASSERT(source->path.find("//") == std::string::npos);
    RC_ASSERT(source->path == "/" || !source->path.ends_with('/'));
    RC_ASSERT(!source->host.empty());
  };
  EXPECT_TRUE(rc::check("host:/ANY", [&](const std::string& tail) { clean("h:/" + tail); }));
  EXPECT_TRUE(rc::check("nfs://ANY", [&](const std::string& tail) { clean("nfs://" + tail); }));
  EXPECT_TRUE(rc::check("ANY", [&](const std::string& text) { clean(text); }));
}

}  // namespace
}  // namespace nfsrdma::cli
