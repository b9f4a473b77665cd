// SPDX-License-Identifier: Apache-2.0
#include "cli/support/mountinfo.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <unistd.h>

#include "tests/unit/cli/temp_directory.h"

namespace nfsrdma::cli {
namespace {

constexpr const char* kTable =
    "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
    "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n"
    "40 27 0:57 / /mnt/a\\040b rw,nosuid,nodev,relatime shared:7 - fuse.rpcrdma srv1:/exp\\134x "
    "rw,user_id=1000,group_id=1000\n"
    "41 27 0:58 / /mnt/c rw,nosuid,nodev,relatime shared:7 master:3 propagate_from:2 - fuse.rpcrdma srv2:/ "
    "rw,user_id=0\n"
    "42 41 0:59 /sub /mnt/c rw - fuse.rpcrdma srv3:/ ro,xuser_id=5,user_id=7\n"
    "43 27 0:60 / /mnt/sshfs rw - fuse.sshfs me@host: rw,user_id=1000\n"
    "broken line\n"
    "44 27 0-61 / /x rw - a b c\n"
    "45 27 0:61 / /x rw a b c\n"
    "46 27 0:62 / /empty rw -\n";

TEST(MountInfo, Lines_AreUnderstoodAndUnescaped) {
  const auto table = parse_mountinfo(kTable);
  ASSERT_EQ(table.size(), 6u);
  EXPECT_EQ(table[2].id, 40u);
  EXPECT_EQ(table[2].parent, 27u);
  EXPECT_EQ(table[2].major, 0u);
  EXPECT_EQ(table[2].minor, 57u);
  EXPECT_EQ(table[2].mount_point, "/mnt/a b");
  EXPECT_EQ(table[2].source, "srv1:/exp\\x");
  EXPECT_EQ(table[2].fs_options, "rw,user_id=1000,group_id=1000");
  EXPECT_TRUE(table[2].ours());
  EXPECT_EQ(table[2].owner(), 1000u);
  EXPECT_EQ(table[3].owner(), 0u);
  EXPECT_EQ(table[4].root, "/sub");
  EXPECT_EQ(table[4].owner(), 7u);
  EXPECT_FALSE(table[5].ours());
}

TEST(MountInfo, Option_IsFoundWholeAndOnlyWhole) {
  EXPECT_TRUE(has_option("ro", "ro"));
  EXPECT_TRUE(has_option("ro,nosuid", "ro"));
  EXPECT_TRUE(has_option("nosuid,ro", "ro"));
  EXPECT_FALSE(has_option("rw,errors=remount-ro,nodiro,roof", "ro"));
  EXPECT_FALSE(has_option("", "ro"));
  MountEntry entry;
  entry.options = "rw,relatime";
  entry.fs_options = "ro";
  EXPECT_FALSE(entry.read_only());
  entry.options = "ro,relatime";
  EXPECT_TRUE(entry.read_only());
}

TEST(MountInfo, TopmostMount_IsTheLastOne) {
  const auto table = parse_mountinfo(kTable);
  EXPECT_EQ(mount_at(table, "/mnt/c")->id, 42u);
  EXPECT_EQ(mount_at(table, "/mnt/none"), nullptr);
}

TEST(MountInfo, OwnTable_HoldsTheRoot) {
  const auto table = read_mountinfo();
  ASSERT_NE(mount_at(table, "/"), nullptr);
  const MountPlace place = find_place(table, "/");
  ASSERT_NE(place.entry, nullptr);
  EXPECT_TRUE(place.is_mount_point);
}

TEST(MountInfo, AnyBytes_AreSkippedOrParsed) {
  EXPECT_TRUE(rc::check("no crash", [](const std::string& text) {
    for (const MountEntry& entry : parse_mountinfo(text)) {
      RC_ASSERT(!entry.mount_point.empty());
      entry.owner();
    }
  }));
  // The table, cut at every byte.
  const std::string whole = kTable;
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_LE(parse_mountinfo(whole.substr(0, size)).size(), 6u);
}

TEST(LexicalPath, DotsAndSlashes_AreResolvedByText) {
  EXPECT_EQ(lexical_path("/a//b/./c/../d/"), "/a/b/d");
  EXPECT_EQ(lexical_path("/../.."), "/");
  EXPECT_EQ(lexical_path("/"), "/");
  char buffer[4096];
  const std::string here = getcwd(buffer, sizeof buffer);
  EXPECT_EQ(lexical_path("x"), here + "/x");
  EXPECT_EQ(lexical_path("."), here);
}

TEST(FindOurMount, MountPoint_IsFoundWithoutLookingIntoIt) {
  const auto table = parse_mountinfo(kTable);
  // None of these directories exists: comparing text must be enough.
  EXPECT_EQ(find_our_mount(table, "/mnt/a b", false)->id, 40u);
  EXPECT_EQ(find_our_mount(table, "/mnt/../mnt/c/", false)->id, 42u);
}

TEST(FindOurMount, PathInside_IsOnlyTakenWhereAsked) {
  const auto table = parse_mountinfo(kTable);
  EXPECT_EQ(find_our_mount(table, "/mnt/a b/deep/down", true)->id, 40u);
  const auto refused = find_our_mount(table, "/mnt/a b/deep/down", false);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().exit_code, 3);
  EXPECT_NE(refused.error().text.find("the mount is /mnt/a b"), std::string::npos);
  EXPECT_FALSE(find_our_mount(table, "/mnt/a bc", true));
}

TEST(FindOurMount, Source_NamesItsMount) {
  const auto table = parse_mountinfo(kTable);
  EXPECT_EQ(find_our_mount(table, "srv2:/", false, 0)->id, 41u);
  EXPECT_FALSE(find_our_mount(table, "srv2:/", false, 1000)) << "not this user's";
  const auto twice =
      parse_mountinfo(std::string(kTable) + "50 27 0:70 / /mnt/d rw - fuse.rpcrdma srv2:/ rw,user_id=0\n");
  const auto refused = find_our_mount(twice, "srv2:/", false, 0);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text.find("more than once"), std::string::npos);
}

// fusermount3 lets every user choose the source and type of their mount.
TEST(FindOurMount, SourceThatLooksLikeAPlace_IsNone) {
  const auto table = parse_mountinfo(std::string(kTable) +
                                     "50 27 0:70 / /media/a/m rw - fuse.rpcrdma /mnt/c rw,user_id=1000\n"
                                     "51 27 0:71 / /media/a/n rw - fuse.rpcrdma /mnt/none rw,user_id=1000\n");
  for (const uid_t user : {0u, 1000u}) {
    EXPECT_EQ(find_our_mount(table, "/mnt/c", false, user)->id, 42u);
    EXPECT_FALSE(find_our_mount(table, "/mnt/none", false, user));
  }
}

TEST(FindOurMount, OtherFileSystem_IsNotOurs) {
  const auto table = parse_mountinfo(kTable);
  const auto other = find_our_mount(table, "/mnt/sshfs", false);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().exit_code, 3);
  EXPECT_NE(other.error().text.find("fuse.sshfs"), std::string::npos);
  EXPECT_EQ(find_our_mount(read_mountinfo(), "/", true).error().exit_code, 3);
  EXPECT_EQ(find_our_mount(table, "/nonexistent/x", true).error().exit_code, 3);
}

TEST(FindPlace, SymbolicLink_LeadsToItsMount) {
  const TempDirectory temp;
  const auto table = read_mountinfo();
  ASSERT_EQ(symlink("/", temp.path("link").c_str()), 0);
  const MountPlace place = find_place(table, temp.path("link"));
  ASSERT_NE(place.entry, nullptr);
  EXPECT_EQ(place.entry->mount_point, "/");
  EXPECT_TRUE(place.is_mount_point);
  const MountPlace inside = find_place(table, temp.path());
  ASSERT_NE(inside.entry, nullptr);
  EXPECT_FALSE(inside.is_mount_point);
}

}  // namespace
}  // namespace nfsrdma::cli
