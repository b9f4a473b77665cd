// SPDX-License-Identifier: Apache-2.0
#include "cli/mount/mount_point.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/cli/temp_directory.h"

namespace nfsrdma::cli {
namespace {

// Runs `f` in a child as user nobody. Returns its exit status.
template <class F>
int as_nobody(F f) {
  const pid_t child = fork();
  if (child == 0) {
    if (setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0) _exit(99);
    _exit(f());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 98;
}

TEST(MountPoint, Directory_IsMadeCanonical) {
  const TempDirectory temp;
  ASSERT_EQ(mkdir(temp.path("d").c_str(), 0700), 0);
  ASSERT_EQ(symlink("d", temp.path("link").c_str()), 0);
  const auto path = check_mount_point(read_mountinfo(), temp.path("link") + "/../d/.", 0);
  ASSERT_TRUE(path) << path.error().failure.text;
  EXPECT_EQ(*path, temp.path("d"));
}

TEST(MountPoint, MissingDirectory_MayComeLater) {
  const auto path = check_mount_point(read_mountinfo(), "/nonexistent/x", 0);
  ASSERT_FALSE(path);
  EXPECT_TRUE(path.error().passing);
  EXPECT_EQ(path.error().failure.exit_code, 32);
  EXPECT_EQ(path.error().failure.text,
            "mount point /nonexistent/x does not exist; run 'mkdir -p /nonexistent/x'");
}

TEST(MountPoint, File_IsNotADirectory) {
  const TempDirectory temp;
  const auto path = check_mount_point(read_mountinfo(), temp.write("f", ""), 0);
  ASSERT_FALSE(path);
  EXPECT_FALSE(path.error().passing);
  EXPECT_EQ(path.error().failure.exit_code, 32);
  EXPECT_NE(path.error().failure.text.find("is not a directory"), std::string::npos);
}

TEST(MountPoint, MountOfOurs_IsBusy) {
  const auto table =
      parse_mountinfo("40 27 0:57 / /nonexistent/m rw - fuse.rpcrdma srv1:/exp rw,user_id=0,group_id=0\n");
  // The directory does not exist, so the function must not access it.
  const auto path = check_mount_point(table, "/nonexistent/./m/", 0);
  ASSERT_FALSE(path);
  EXPECT_EQ(path.error().failure.exit_code, 32);
  EXPECT_EQ(path.error().failure.text,
            "mount point /nonexistent/./m/ is busy: srv1:/exp is mounted there; run 'nfsrdma-fuse umount "
            "/nonexistent/./m/' first");
}

TEST(MountPoint, MountOfOthers_MayBeCovered) {
  const auto path = check_mount_point(read_mountinfo(), "/proc", 0);
  ASSERT_TRUE(path) << path.error().failure.text;
}

TEST(MountPoint, OrdinaryUser_MustOwnIt) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  const TempDirectory temp;
  ASSERT_EQ(chmod(temp.path().c_str(), 0755), 0);
  for (const char* name : {"root", "sticky", "own", "hidden"})
    ASSERT_EQ(mkdir(temp.path(name).c_str(), 0755), 0);
  ASSERT_EQ(chmod(temp.path("sticky").c_str(), 01777), 0);
  ASSERT_EQ(chown(temp.path("own").c_str(), 65534, 65534), 0);
  ASSERT_EQ(mkdir(temp.path("hidden/x").c_str(), 0755), 0);
  ASSERT_EQ(chmod(temp.path("hidden").c_str(), 0700), 0);
  const auto check = [&](const char* name) {
    return as_nobody([&] {
      const auto path = check_mount_point(read_mountinfo(), temp.path(name), 65534);
      return path ? 0 : path.error().failure.exit_code;
    });
  };
  EXPECT_EQ(check("root"), 1);
  EXPECT_EQ(check("sticky"), 1);
  EXPECT_EQ(check("hidden/x"), 1);
  EXPECT_EQ(check("own"), 0);
}

TEST(CheckFuse, MissingDevice_IsASystemError) {
  const auto done = check_fuse(0, "/nonexistent/fuse");
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().exit_code, 2);
  EXPECT_NE(done.error().text.find("modprobe fuse"), std::string::npos);
}

TEST(CheckFuse, MissingFusermount_IsASystemErrorForUsersOnly) {
  const auto done = check_fuse(1000, "/dev/null", {"/nonexistent/fusermount3"});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().exit_code, 2);
  EXPECT_NE(done.error().text.find("package fuse3"), std::string::npos);
  EXPECT_TRUE(check_fuse(0, "/dev/null", {}));
}

TEST(CheckFuse, FusermountWithoutSetUserId_IsNamedWithWhatMendsIt) {
  const TempDirectory temp;
  const std::string helper = temp.write("fusermount3", "");
  chmod(helper.c_str(), 0755);
  const auto done = check_fuse(1000, "/dev/null", {"/nonexistent/fusermount3", helper});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().exit_code, 2);
  EXPECT_EQ(done.error().text, helper +
                                   " is not set-user-ID root, so it cannot mount for you; run 'chmod u+s " +
                                   helper + "' as root");
  if (geteuid() != 0) return;
  chmod(helper.c_str(), 04755);
  struct statvfs fs {};
  const bool nosuid = statvfs(helper.c_str(), &fs) == 0 && (fs.f_flag & ST_NOSUID) != 0;
  const auto now = check_fuse(1000, "/dev/null", {helper});
  EXPECT_EQ(now.has_value(), !nosuid) << (now ? "" : now.error().text);
}

TEST(CheckFuse, DeviceThatMayNotBeOpened_IsNamedWithWhatMendsIt) {
  if (geteuid() == 0) GTEST_SKIP() << "root may open everything";
  const TempDirectory temp;
  const std::string device = temp.write("fuse", "");
  chmod(device.c_str(), 0);
  const auto done = check_fuse(geteuid(), device, {});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().text, device + ": Permission denied; run 'chmod 666 /dev/fuse' as root");
}

}  // namespace
}  // namespace nfsrdma::cli
