// SPDX-License-Identifier: Apache-2.0
// Flavors of exports, and whose files a Kerberos principal may touch.
#include "filer/tree/flavors.h"

#include <gtest/gtest.h>

#include "filer/tree/access.h"

namespace nfsrdma::filer::tree {
namespace {

TEST(Flavors, List_KeepsItsOrder) {
  const auto list = Flavors::parse("krb5p:krb5i:krb5:sys");
  ASSERT_TRUE(list);
  EXPECT_EQ(*list, (Flavors{Flavor::kKrb5p, Flavor::kKrb5i, Flavor::kKrb5, Flavor::kSys}));
  EXPECT_NE(*list, (Flavors{Flavor::kSys, Flavor::kKrb5, Flavor::kKrb5i, Flavor::kKrb5p}));
  EXPECT_EQ(Flavors::parse("sys"), Flavors{Flavor::kSys});
  EXPECT_TRUE(list->has_kerberos());
  EXPECT_FALSE(Flavors{Flavor::kSys}.has_kerberos());
  EXPECT_TRUE(Flavors{Flavor::kKrb5i}.accepts(Flavor::kKrb5i));
  EXPECT_FALSE(Flavors{Flavor::kKrb5i}.accepts(Flavor::kKrb5p));
}

TEST(Flavors, WhatIsNoList_IsNone) {
  for (const char* text : {"", ":", "krb5:", ":krb5", "krb5:krb5", "krb5,sys", "KRB5", "none", "krb5 "})
    EXPECT_FALSE(Flavors::parse(text)) << '"' << text << '"';
}

Principal kerberos(const std::string& name, uint32_t uid) {
  Principal who{.flavor = rpc::RPCSEC_GSS, .uid = uid, .gid = uid};
  who.name = name;
  return who;
}

// All machines of a realm map to nobody here; they are different principals all the same.
TEST(Principal, OfKerberos_IsItsName) {
  const Principal one = kerberos("host/one.test@TEST", Principal::kAnonymous);
  const Principal two = kerberos("host/two.test@TEST", Principal::kAnonymous);
  EXPECT_FALSE(one.same_user(two));
  EXPECT_TRUE(one.same_user(kerberos("host/one.test@TEST", 7))) << "its account may have been made since";
  const Principal sys{rpc::AUTH_SYS, 1000, 1000};
  EXPECT_FALSE(kerberos("alice@TEST", 1000).same_user(sys));
  EXPECT_TRUE(sys.same_user({rpc::AUTH_SYS, 1000, 5}));
  EXPECT_FALSE(sys.same_user({rpc::AUTH_SYS, 1001, 1000}));
  EXPECT_TRUE(kerberos("root@TEST", 0).root());
}

// A server that is not root acts as its own user for everybody. Over Kerberos everybody is only who has that
// user's name.
TEST(Access, OfAStranger_IsWhatEverybodyMayRead) {
  FileSystem fs;
  fs.everybody = Principal{rpc::AUTH_SYS, 1000, 1000};
  Node node;
  node.fs = &fs;
  node.uid = node.gid = 1000;
  node.mode = 0666;
  const Principal owner = kerberos("owner@TEST", 1000);
  const Principal stranger = kerberos("stranger@TEST", 1001);
  EXPECT_TRUE(may(node, owner, kMayRead | kMayWrite));
  EXPECT_TRUE(owns(node, owner));
  EXPECT_TRUE(may(node, stranger, kMayRead));
  EXPECT_FALSE(may(node, stranger, kMayWrite)) << "what he would make would be the server's user's";
  node.mode = 0660;
  EXPECT_FALSE(may(node, stranger, kMayRead));
  EXPECT_FALSE(owns(node, stranger));
  // What a stranger acts as is a stranger, too.
  EXPECT_FALSE(may(node, acting(fs, stranger), kMayRead));
  EXPECT_FALSE(owns(node, acting(fs, stranger)));

  // A server run as nobody: a principal without an account has the number of its user, and is not that user.
  const uint32_t nobody = Principal::kAnonymous;
  fs.everybody = Principal{rpc::AUTH_SYS, nobody, nobody};
  node.uid = node.gid = nobody;
  const Principal machine = kerberos("host/one.test@TEST", nobody);
  EXPECT_FALSE(may(node, machine, kMayRead));
  EXPECT_FALSE(owns(node, machine));
  EXPECT_FALSE(owns(node, acting(fs, machine)));
}

// Where the server acts as its callers: all machines, and all users without an account, have the number
// 65534.
TEST(Access, OfPrincipalsWithoutAnAccount_OwnsNothing) {
  FileSystem fs;
  Node node;
  node.fs = &fs;
  node.uid = node.gid = Principal::kAnonymous;
  EXPECT_FALSE(owns(node, kerberos("host/one.test@TEST", Principal::kAnonymous)));
  EXPECT_TRUE(owns(node, Principal{rpc::AUTH_SYS, Principal::kAnonymous, Principal::kAnonymous}));
  node.uid = 1001;
  EXPECT_TRUE(owns(node, kerberos("alice@TEST", 1001)));
}

TEST(Access, KerberosRoot_IsSquashedLikeAnyOther) {
  FileSystem fs;
  Node node;
  node.fs = &fs;
  node.mode = 0600;
  EXPECT_TRUE(may(node, kerberos("root@TEST", 0), kMayWrite));
  fs.root_becomes = Principal{rpc::AUTH_SYS, Principal::kAnonymous, Principal::kAnonymous};
  EXPECT_FALSE(may(node, kerberos("root@TEST", 0), kMayRead));
  EXPECT_FALSE(owns(node, kerberos("root@TEST", 0)));
}

}  // namespace
}  // namespace nfsrdma::filer::tree
