// SPDX-License-Identifier: Apache-2.0
#include "cli/mount/helper_args.h"

#include <gtest/gtest.h>

namespace nfsrdma::cli {
namespace {

using Arguments = std::vector<std::string>;

MountRequest mount(const Arguments& arguments) {
  const auto request = parse_mount_arguments(arguments);
  EXPECT_TRUE(request) << request.error().text;
  return request ? *request : MountRequest{};
}

TEST(MountArguments, AsMount8GivesThem) {
  const MountRequest r = mount({"srv:/e", "/mnt", "-v", "-n", "-o", "rw,rsize=4096", "-t", "nfsrdma-fuse"});
  EXPECT_EQ(r.source, "srv:/e");
  EXPECT_EQ(r.directory, "/mnt");
  EXPECT_TRUE(r.verbose);
  EXPECT_FALSE(r.fake);
  EXPECT_EQ(r.options, (std::vector<RawOption>{{"rw", {}}, {"rsize", "4096"}}));
}

TEST(MountArguments, LetterF_IsFakeAndS_IsSloppy) {
  const MountRequest r = mount({"-fs", "s:/e", "/m"});
  EXPECT_TRUE(r.fake);
  EXPECT_TRUE(r.sloppy);
  EXPECT_FALSE(r.foreground);
}

TEST(MountArguments, OptionsAnywhereAndJoined) {
  const MountRequest r = mount({"-rv", "s:/e", "-oac,soft", "/m", "-N", "123", "-w"});
  EXPECT_EQ(r.options, (std::vector<RawOption>{{"ro", {}}, {"ac", {}}, {"soft", {}}, {"rw", {}}}));
  EXPECT_TRUE(r.verbose);
  EXPECT_EQ(r.mount_namespace, "123");
}

TEST(MountArguments, DoubleDash_EndsOptions) {
  EXPECT_EQ(mount({"-r", "--", "s:/e", "-dir"}).directory, "-dir");
}

TEST(MountArguments, SeveralLists_AddUp) {
  EXPECT_EQ(mount({"-o", "ro", "s:/e", "/m", "-o", "rw"}).options,
            (std::vector<RawOption>{{"ro", {}}, {"rw", {}}}));
}

TEST(MountArguments, HelpAndVersion_NeedNothingElse) {
  EXPECT_TRUE(mount({"-h"}).help);
  EXPECT_TRUE(mount({"--help"}).help);
  EXPECT_TRUE(mount({"-V"}).version);
  EXPECT_TRUE(mount({"--version"}).version);
}

TEST(MountArguments, WrongUse_IsRefused) {
  const Arguments wrong[] = {{},
                             {"s:/e"},
                             {"s:/e", "/m", "/n"},
                             {"s:/e", "/m", "-x"},
                             {"s:/e", "/m", "-o"},
                             {"--foo"},
                             {"s:/e", "/m", "-N"},
                             {"s:/e", "/m", "-o", "=x"},
                             {"-t"},
                             {"s:/e", "/m", "--ro"}};
  for (const Arguments& arguments : wrong) {
    const auto request = parse_mount_arguments(arguments);
    ASSERT_FALSE(request);
    EXPECT_EQ(request.error().exit_code, 1);
  }
}

// umount(8), EXTERNAL HELPERS: umount.suffix {directory|device} [-flnrv] [-N namespace] [-t type.subtype]
TEST(UmountArguments, AsUmount8GivesThem) {
  const auto r = parse_umount_arguments({"/mnt", "-v", "-l", "-n", "-t", "fuse.rpcrdma"});
  ASSERT_TRUE(r);
  EXPECT_EQ(r->directory, "/mnt");
  EXPECT_TRUE(r->verbose);
  EXPECT_TRUE(r->lazy);
  EXPECT_FALSE(r->force);
  const auto all = parse_umount_arguments({"-flr", "-N", "/proc/1/ns/mnt", "/mnt"});
  ASSERT_TRUE(all);
  EXPECT_TRUE(all->force && all->lazy && all->read_only);
  EXPECT_EQ(all->mount_namespace, "/proc/1/ns/mnt");
}

TEST(UmountArguments, WrongUse_IsRefused) {
  for (const Arguments& arguments :
       {Arguments{}, Arguments{"/a", "/b"}, Arguments{"/a", "-x"}, Arguments{"/a", "-N"}}) {
    const auto request = parse_umount_arguments(arguments);
    ASSERT_FALSE(request);
    EXPECT_EQ(request.error().exit_code, 1);
  }
}

TEST(Personality, IsDecidedByTheNameAlone) {
  EXPECT_EQ(personality_of("/sbin/mount.nfsrdma-fuse"), Personality::kMountHelper);
  EXPECT_EQ(personality_of("mount.nfsrdma-fuse"), Personality::kMountHelper);
  EXPECT_EQ(personality_of("/sbin/umount.fuse.rpcrdma"), Personality::kUmountHelper);
  EXPECT_EQ(personality_of("/mount.d/nfsrdma-fuse"), Personality::kTool);
  EXPECT_EQ(personality_of(""), Personality::kTool);
  EXPECT_EQ(program_name("/a/b"), "b");
}

// util-linux' mount passes only "-o rw" to the helper for these command lines.
TEST(WordsKeptByMount, DevAndSuid_AreReadFromItsCommandLine) {
  using Words = std::vector<RawOption>;
  const auto words = [](const std::vector<std::string>& parent) {
    return words_kept_by_mount(options_of_mount(parent));
  };
  const Words both{{"dev", {}}, {"suid", {}}};
  EXPECT_EQ(words({"mount", "-t", "nfsrdma-fuse", "-o", "dev,suid", "s:/e", "/m"}), both);
  EXPECT_EQ(words({"/bin/mount", "s:/e", "/m", "-t", "nfsrdma-fuse", "-orw,suid,dev"}), both);
  EXPECT_EQ(words({"mount", "-vo", "dev", "--options", "suid", "/m"}), both);
  EXPECT_EQ(words({"mount", "--options=remount,dev", "/m"}), (Words{{"dev", {}}}));
  EXPECT_EQ(words({"mount", "-o", "dev,nodev,nosuid,suid", "/m"}), (Words{{"suid", {}}}));
  EXPECT_EQ(words({"mount", "-o", "dev,suid,user", "/m"}), Words{});
  EXPECT_EQ(words({"mount", "-t", "nfsrdma-fuse", "s:/dev,suid", "/m"}), Words{});
  EXPECT_EQ(words({"mount", "--", "-o", "dev"}), Words{});
  EXPECT_EQ(words({"sh", "-c", "x", "-o", "dev"}), Words{});
  EXPECT_EQ(words({}), Words{});
}

TEST(WordsKeptByMount, FstabIsAsked_WhereTheCommandLineDoesNotNameBoth) {
  MountRequest request;
  request.source = "s:/e";
  request.directory = "/m/d";
  EXPECT_TRUE(took_from_fstab({"mount", "/m/d"}, request));
  EXPECT_TRUE(took_from_fstab({"mount", "-o", "ro", "s:/e"}, request));
  EXPECT_TRUE(took_from_fstab({"mount", "-a", "-t", "nfsrdma-fuse"}, request));
  EXPECT_TRUE(took_from_fstab({"mount", "--target=/m/d"}, request));
  EXPECT_FALSE(took_from_fstab({"mount", "s:/e", "/m/d"}, request));
  EXPECT_FALSE(took_from_fstab({"mount", "s:/e", "/m/./d", "-o", "ro"}, request));
  EXPECT_FALSE(took_from_fstab({"mount", "--source=s:/e", "--target", "/m/d"}, request));
  EXPECT_FALSE(took_from_fstab({"sh", "/m/d"}, request));
  EXPECT_FALSE(took_from_fstab({}, request));
  EXPECT_EQ(fstab_of_mount({"mount", "-T", "table", "/m/d"}), "table");
  EXPECT_EQ(fstab_of_mount({"mount", "--fstab", "table", "/m/d"}), "table");
  EXPECT_EQ(fstab_of_mount({"mount", "--fstab=table", "/m/d"}), "table");
  EXPECT_EQ(fstab_of_mount({"mount", "/m/d", "-T"}), "");
}

}  // namespace
}  // namespace nfsrdma::cli
