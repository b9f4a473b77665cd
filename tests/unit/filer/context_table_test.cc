// SPDX-License-Identifier: Apache-2.0
// Which contexts go when there are too many.
#include "filer/security/context_table.h"

#include <gtest/gtest.h>

#include <set>

namespace nfsrdma::filer::security {
namespace {

// The table looks at addresses and principals. A context without a principal is not established.
ContextPtr begun(const std::string& address) {
  auto context = std::make_shared<ServerContext>();
  context->address = address;
  return context;
}

ContextPtr made(const std::string& address, const std::string& name) {
  ContextPtr context = begun(address);
  context->who.flavor = rpc::RPCSEC_GSS;
  context->who.name = name;
  return context;
}

TEST(ContextTable, Handles_AreRandomAndNamedExactly) {
  ContextTable table;
  std::set<ContextTable::Handle> handles;
  for (int i = 0; i < 100; ++i) handles.insert(table.add(made("192.0.2.1", "alice")));
  EXPECT_EQ(handles.size(), 100u);
  const ContextTable::Handle handle = *handles.begin();
  EXPECT_NE(table.find(handle), nullptr);
  EXPECT_EQ(table.find(ConstBytes(handle).first(15)), nullptr);
  EXPECT_EQ(table.find({}), nullptr);
  ContextTable::Handle other = handle;
  other[7] ^= std::byte{1};
  EXPECT_EQ(table.find(other), nullptr);
  table.remove(handle);
  EXPECT_EQ(table.find(handle), nullptr);
  table.clear();
  EXPECT_EQ(table.size(), 0u);
}

// One peer begins 100,000 contexts: memory stays bounded, and another's context stays.
TEST(ContextTable, ManyOfOnePeer_GoThemselves) {
  ContextTable table;
  const auto bobs = table.add(made("192.0.2.2", "bob"));
  const auto alices_elsewhere = table.add(made("192.0.2.3", "alice"));
  ContextTable::Handle last{};
  for (int i = 0; i < 100'000; ++i) last = table.add(made("192.0.2.1", "alice"));
  EXPECT_EQ(table.size(), ContextTable::Limits{}.of_principal + 2);
  EXPECT_NE(table.find(bobs), nullptr);
  EXPECT_NE(table.find(alices_elsewhere), nullptr);
  EXPECT_NE(table.find(last), nullptr);
}

TEST(ContextTable, OnesThatAreNotEstablished_HaveALimitOfTheirOwn) {
  ContextTable table;
  const auto bobs = table.add(made("192.0.2.2", "bob"));
  for (int i = 0; i < 100'000; ++i) table.add(begun("192.0.2." + std::to_string(i % 200)));
  EXPECT_EQ(table.size(), ContextTable::Limits{}.incomplete + 1);
  EXPECT_NE(table.find(bobs), nullptr);
}

TEST(ContextTable, Established_CountsForItsPrincipalFromThenOn) {
  ContextTable table({.all = 100, .of_principal = 2, .incomplete = 1});
  const ContextPtr context = begun("192.0.2.1");
  const auto first = table.add(context);
  context->who.name = "alice";
  table.established(first);
  table.add(begun("192.0.2.9"));
  EXPECT_EQ(table.find(first), context) << "the limit for begun ones does not concern it any more";
  table.add(made("192.0.2.1", "alice"));
  table.add(made("192.0.2.1", "alice"));
  EXPECT_EQ(table.size(), 3u);
  EXPECT_EQ(table.find(first), nullptr) << "it was the oldest of three, of which two may be";
}

TEST(ContextTable, TheOneUnusedForLongest_Goes) {
  ContextTable table({.all = 100, .of_principal = 3});
  const auto a = table.add(made("192.0.2.1", "alice"));
  const auto b = table.add(made("192.0.2.1", "alice"));
  const auto c = table.add(made("192.0.2.1", "alice"));
  EXPECT_NE(table.find(a), nullptr);  // used
  table.add(made("192.0.2.1", "alice"));
  EXPECT_NE(table.find(a), nullptr);
  EXPECT_EQ(table.find(b), nullptr);
  EXPECT_NE(table.find(c), nullptr);
}

// A machine with many users, or one peer with many names: half of the table is for the others.
TEST(ContextTable, OneAddress_HasHalf) {
  ContextTable table({.all = 20, .of_principal = 5});
  const auto bobs = table.add(made("192.0.2.2", "bob"));
  for (int i = 0; i < 1000; ++i) table.add(made("192.0.2.1", "user" + std::to_string(i)));
  EXPECT_EQ(table.size(), 11u);
  EXPECT_NE(table.find(bobs), nullptr);
}

TEST(ContextTable, OfManyAddresses_TheFullestLosesOne) {
  ContextTable table({.all = 20, .of_principal = 5});
  const auto bobs = table.add(made("192.0.2.2", "bob"));
  for (int i = 0; i < 9; ++i) table.add(made("192.0.2.1", "user" + std::to_string(i)));
  for (int i = 0; i < 9; ++i) table.add(made("192.0.2.3", "user" + std::to_string(i)));
  for (int i = 0; i < 10; ++i) table.add(made("192.0.2." + std::to_string(10 + i), "carol"));
  EXPECT_EQ(table.size(), 20u);
  EXPECT_NE(table.find(bobs), nullptr);
}

// Loopback is the address of all users of this machine.
TEST(ContextTable, Loopback_MayHaveAll) {
  ContextTable table({.all = 20, .of_principal = 5});
  for (int i = 0; i < 100; ++i) table.add(made("127.0.0.1", "user" + std::to_string(i)));
  EXPECT_EQ(table.size(), 20u);
}

TEST(ContextTable, TicketsThatEnded_GoWithTheirContexts) {
  ContextTable table;
  const TimePoint now = Clock::now();
  const ContextPtr ended = made("192.0.2.1", "alice");
  ended->ends = now - std::chrono::seconds(1);
  const ContextPtr good = made("192.0.2.1", "alice");
  good->ends = now + std::chrono::seconds(1);
  const auto first = table.add(ended);
  const auto second = table.add(good);
  table.remove_ended(now);
  EXPECT_EQ(table.find(first), nullptr);
  EXPECT_EQ(table.find(second), good);
}

}  // namespace
}  // namespace nfsrdma::filer::security
