// SPDX-License-Identifier: Apache-2.0
// Names through the kernel: create, look up, link, rename, remove; attributes and permissions.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <set>

#include "tests/unit/fuse/posix.h"
#include "tests/unit/fuse/test_mount.h"

namespace nfsrdma::fuse::test {
namespace {

// FUSE_NO_EXPORT_SUPPORT came with Linux 6.9.
bool can_deny_export() {
  utsname kernel{};
  int major = 0, minor = 0;
  if (::uname(&kernel) != 0 || std::sscanf(kernel.release, "%d.%d", &major, &minor) != 2) return false;
  return major > 6 || (major == 6 && minor >= 9);
}

class Names : public FuseTest {};
NFSRDMA_FUSE_SUITE(Names);

TEST_P(Names, MkdirCreateUnlinkRmdir_Work) {
  TestMount m(mount_setup());
  m.client([&] {
    EXPECT_POSIX(::mkdir(m.path("d").c_str(), 0755));
    const int fd = ::open(m.path("d/f").c_str(), O_CREAT | O_EXCL | O_RDWR, 0640);
    ASSERT_GE(fd, 0) << std::strerror(errno);
    struct stat st {};
    EXPECT_POSIX(::fstat(fd, &st));
    EXPECT_EQ(st.st_mode, static_cast<mode_t>(S_IFREG | 0640));
    EXPECT_EQ(st.st_size, 0);
    EXPECT_POSIX(::close(fd));
    EXPECT_ERRNO(::open(m.path("d/f").c_str(), O_CREAT | O_EXCL | O_RDWR, 0640), EEXIST);
    EXPECT_ERRNO(::rmdir(m.path("d").c_str()), ENOTEMPTY);
    EXPECT_ERRNO(::unlink(m.path("d").c_str()), EISDIR);
    EXPECT_POSIX(::unlink(m.path("d/f").c_str()));
    EXPECT_ERRNO(::stat(m.path("d/f").c_str(), &st), ENOENT);
    EXPECT_POSIX(::rmdir(m.path("d").c_str()));
  });
}

TEST_P(Names, Mknod_MakesEveryType) {
  TestMount m(mount_setup());
  m.client([&] {
    struct stat st {};
    EXPECT_POSIX(::mknod(m.path("fifo").c_str(), S_IFIFO | 0600, 0));
    EXPECT_POSIX(::stat(m.path("fifo").c_str(), &st));
    EXPECT_TRUE(S_ISFIFO(st.st_mode));
    EXPECT_POSIX(::mknod(m.path("sock").c_str(), S_IFSOCK | 0600, 0));
    EXPECT_POSIX(::mknod(m.path("reg").c_str(), S_IFREG | 0600, 0));
    if (::geteuid() != 0) return;
    EXPECT_POSIX(::mknod(m.path("chr").c_str(), S_IFCHR | 0600, makedev(259, 70000)));
    EXPECT_POSIX(::stat(m.path("chr").c_str(), &st));
    EXPECT_TRUE(S_ISCHR(st.st_mode));
    EXPECT_EQ(major(st.st_rdev), 259u);
    EXPECT_EQ(minor(st.st_rdev), 70000u);
  });
}

// With room for the largest handle of name_to_handle_at(2).
struct FileHandle {
  FileHandle() { handle.handle_bytes = sizeof words; }
  file_handle handle{};
  std::array<uint32_t, 32> words{};
};

// A handle of a node that the kernel has forgotten leads nowhere. From Linux 6.9 on the kernel can be told to
// give out none.
TEST_P(Names, FileHandles_AreNotGivenOutWhereTheKernelCanBeToldSo) {
  if (!can_deny_export()) GTEST_SKIP() << "the kernel does not know FUSE_NO_EXPORT_SUPPORT";
  TestMount m(mount_setup());
  m.client([&] {
    write_file(m.path("f"), "x");
    FileHandle h;
    int mount_id = 0;
    EXPECT_EQ(::name_to_handle_at(AT_FDCWD, m.path("f").c_str(), &h.handle, &mount_id, 0), -1);
    EXPECT_EQ(errno, EOPNOTSUPP);
  });
}

TEST_P(Names, FileHandles_HoldTheGeneration) {
  constexpr int kIdOnly = 0x200;  // AT_HANDLE_FID, Linux 6.5: an identifier only, not for opening
  const int flags = can_deny_export() ? kIdOnly : 0;
  TestMount m(mount_setup());
  std::set<uint32_t> generations;
  m.client([&] {
    for (int i = 0; i < 8; ++i) {
      const std::string name = m.path("f" + std::to_string(i));
      write_file(name, "x");
      // The kernel's format: the node id, high half first, and the generation.
      FileHandle h;
      int mount_id = 0;
      EXPECT_POSIX(::name_to_handle_at(AT_FDCWD, name.c_str(), &h.handle, &mount_id, flags));
      ASSERT_EQ(h.handle.handle_bytes, 3 * sizeof(uint32_t));
      EXPECT_TRUE(generations.insert(h.words[2]).second);
    }
    EXPECT_FALSE(generations.contains(0));
  });
}

TEST_P(Names, SymbolicLinks_AreReadAndFollowed) {
  TestMount m(mount_setup());
  const std::string longest(4095, 'x');
  m.client([&] {
    write_file(m.path("target"), "hello");
    EXPECT_POSIX(::symlink("target", m.path("link").c_str()));
    EXPECT_EQ(read_file(m.path("link")), "hello");
    char buffer[5000];
    EXPECT_EQ(::readlink(m.path("link").c_str(), buffer, sizeof buffer), 6);
    EXPECT_POSIX(::symlink(longest.c_str(), m.path("long").c_str()));
    EXPECT_EQ(::readlink(m.path("long").c_str(), buffer, sizeof buffer), 4095);
    EXPECT_EQ(std::string(buffer, 4095), longest);
  });
}

TEST_P(Names, HardLinks_ShareOneInode) {
  TestMount m(mount_setup());
  m.client([&] {
    write_file(m.path("a"), "one");
    EXPECT_POSIX(::link(m.path("a").c_str(), m.path("b").c_str()));
    struct stat a {
    }, b{};
    EXPECT_POSIX(::stat(m.path("a").c_str(), &a));
    EXPECT_POSIX(::stat(m.path("b").c_str(), &b));
    EXPECT_EQ(a.st_ino, b.st_ino);
    EXPECT_EQ(b.st_nlink, 2u);
    write_file(m.path("b"), "two");
    EXPECT_EQ(read_file(m.path("a")), "two");
    EXPECT_POSIX(::unlink(m.path("a").c_str()));
    EXPECT_EQ(read_file(m.path("b")), "two");
  });
}

TEST_P(Names, UnlinkedButOpen_StaysUsable) {
  TestMount m(mount_setup());
  m.client([&] {
    const int fd = ::open(m.path("f").c_str(), O_CREAT | O_RDWR, 0600);
    ASSERT_GE(fd, 0);
    EXPECT_EQ(::pwrite(fd, "abc", 3, 0), 3);
    EXPECT_POSIX(::unlink(m.path("f").c_str()));
    EXPECT_EQ(::pwrite(fd, "def", 3, 3), 3);
    char buffer[8];
    EXPECT_EQ(::pread(fd, buffer, sizeof buffer, 0), 6);
    EXPECT_EQ(std::string(buffer, 6), "abcdef");
    struct stat st {};
    EXPECT_POSIX(::fstat(fd, &st));
    EXPECT_EQ(st.st_size, 6);
    EXPECT_POSIX(::ftruncate(fd, 1));
    EXPECT_POSIX(::close(fd));
  });
}

TEST_P(Names, Rename_HonoursItsFlags) {
  TestMount m(mount_setup());
  m.client([&] {
    write_file(m.path("a"), "a");
    write_file(m.path("b"), "b");
    EXPECT_POSIX(::mkdir(m.path("d").c_str(), 0700));
    EXPECT_ERRNO(::renameat2(AT_FDCWD, m.path("a").c_str(), AT_FDCWD, m.path("b").c_str(), RENAME_NOREPLACE),
                 EEXIST);
    EXPECT_ERRNO(::renameat2(AT_FDCWD, m.path("a").c_str(), AT_FDCWD, m.path("b").c_str(), RENAME_EXCHANGE),
                 EINVAL);
    EXPECT_POSIX(::renameat2(AT_FDCWD, m.path("a").c_str(), AT_FDCWD, m.path("c").c_str(), RENAME_NOREPLACE));
    EXPECT_POSIX(::rename(m.path("c").c_str(), m.path("b").c_str()));
    EXPECT_EQ(read_file(m.path("b")), "a");
    EXPECT_POSIX(::rename(m.path("b").c_str(), m.path("d/b").c_str()));
    EXPECT_EQ(read_file(m.path("d/b")), "a");
    EXPECT_POSIX(::mkdir(m.path("e").c_str(), 0700));
    EXPECT_ERRNO(::rename(m.path("d/b").c_str(), m.path("e").c_str()), EISDIR);
  });
}

TEST_P(Names, LongNames_UpTo255Bytes) {
  TestMount m(mount_setup());
  m.client([&] {
    const std::string name(255, 'n');
    write_file(m.path(name), "x");
    EXPECT_EQ(read_file(m.path(name)), "x");
    EXPECT_ERRNO(::open(m.path(name + "n").c_str(), O_CREAT | O_RDWR, 0600), ENAMETOOLONG);
    const std::string utf8 = "\xC3\xA4\xE2\x82\xAC\xF0\x9F\x90\x9F";
    write_file(m.path(utf8), "y");
    EXPECT_EQ(read_file(m.path(utf8)), "y");
  });
}

TEST_P(Names, Setattr_SetsModeOwnerSizeAndTimes) {
  TestMount m(mount_setup());
  m.client([&] {
    write_file(m.path("f"), "0123456789");
    const std::string f = m.path("f");
    struct stat st {};
    EXPECT_POSIX(::chmod(f.c_str(), 0604));
    EXPECT_POSIX(::truncate(f.c_str(), 4));
    const timespec times[2] = {{1000000000, 123456789}, {1100000000, 987654321}};
    EXPECT_POSIX(::utimensat(AT_FDCWD, f.c_str(), times, 0));
    EXPECT_POSIX(::stat(f.c_str(), &st));
    EXPECT_EQ(st.st_mode & 07777u, 0604u);
    EXPECT_EQ(st.st_size, 4);
    EXPECT_EQ(st.st_atim.tv_sec, 1000000000);
    EXPECT_EQ(st.st_mtim.tv_nsec, 987654321);
    const timespec now[2] = {{0, UTIME_OMIT}, {0, UTIME_NOW}};
    EXPECT_POSIX(::utimensat(AT_FDCWD, f.c_str(), now, 0));
    EXPECT_POSIX(::stat(f.c_str(), &st));
    EXPECT_EQ(st.st_atim.tv_sec, 1000000000);
    EXPECT_GT(st.st_mtim.tv_sec, 1600000000);
    if (::geteuid() != 0) return;
    EXPECT_POSIX(::chown(f.c_str(), 12, 34));
    EXPECT_POSIX(::stat(f.c_str(), &st));
    EXPECT_EQ(st.st_uid, 12u);
    EXPECT_EQ(st.st_gid, 34u);
  });
}

TEST_P(Names, Umask_IsAppliedByTheKernel) {
  TestMount m(mount_setup());
  m.client([&] {
    ::umask(027);
    EXPECT_POSIX(::mkdir(m.path("d").c_str(), 0777));
    struct stat st {};
    EXPECT_POSIX(::stat(m.path("d").c_str(), &st));
    EXPECT_EQ(st.st_mode & 07777u, 0750u);
  });
}

TEST_P(Names, NegativeEntries_AreRemembered) {
  MountSetup s = mount_setup();
  s.lifetimes.absent = std::chrono::hours(1);
  TestMount m(s);
  m.client([&] {
    struct stat st {};
    for (int i = 0; i < 10; ++i) EXPECT_ERRNO(::stat(m.path("nothing").c_str(), &st), ENOENT);
  });
  EXPECT_EQ(m.fs().calls("lookup"), 1u);
}

TEST_P(Names, WithoutAbsentLifetime_EveryLookupAsks) {
  TestMount m(mount_setup());
  m.client([&] {
    struct stat st {};
    for (int i = 0; i < 5; ++i) EXPECT_ERRNO(::stat(m.path("nothing").c_str(), &st), ENOENT);
  });
  EXPECT_EQ(m.fs().calls("lookup"), 5u);
}

TEST_P(Names, Statfs_ShowsTheServersNumbers) {
  TestMount m(mount_setup());
  m.client([&] {
    struct statvfs st {};
    EXPECT_POSIX(::statvfs(m.path().c_str(), &st));
    EXPECT_EQ(st.f_bsize, 4096u);
    EXPECT_EQ(st.f_blocks * st.f_frsize, 1u << 30);
    EXPECT_EQ(st.f_bavail * st.f_frsize, 1u << 28);
    EXPECT_EQ(st.f_files, 1000u);
    EXPECT_EQ(st.f_namemax, 255u);
  });
}

TEST_P(Names, Access_IsTheFilesystemsDecision) {
  TestMount m(mount_setup());
  m.client([&] {
    write_file(m.path("f"), "x");
    EXPECT_POSIX(::access(m.path("f").c_str(), R_OK | W_OK));
  });
  m.fs().fail_with("access", EACCES);
  m.client([&] { EXPECT_ERRNO(::access(m.path("f").c_str(), R_OK), EACCES); });
}

TEST_P(Names, ExtendedAttributes_AreUnsupportedAndAskedForOnce) {
  TestMount m(mount_setup());
  m.client([&] {
    write_file(m.path("f"), "x");
    char buffer[16];
    for (int i = 0; i < 3; ++i) {
      EXPECT_ERRNO(::getxattr(m.path("f").c_str(), "user.x", buffer, sizeof buffer), EOPNOTSUPP);
      EXPECT_ERRNO(::setxattr(m.path("f").c_str(), "user.x", "1", 1, 0), EOPNOTSUPP);
    }
  });
}

}  // namespace
}  // namespace nfsrdma::fuse::test
