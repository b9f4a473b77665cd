// SPDX-License-Identifier: Apache-2.0
// Directories through the kernel: listings of all sizes, positions, READDIRPLUS accounting.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <set>
#include <vector>

#include "tests/unit/fuse/posix.h"
#include "tests/unit/fuse/test_mount.h"

namespace nfsrdma::fuse::test {
namespace {

class Directories : public FuseTest {};
NFSRDMA_FUSE_SUITE(Directories);

std::multiset<std::string> list(const std::string& path) {
  std::multiset<std::string> names;
  DIR* d = ::opendir(path.c_str());
  EXPECT_NE(d, nullptr) << std::strerror(errno);
  while (const dirent* e = ::readdir(d)) names.insert(e->d_name);
  ::closedir(d);
  return names;
}

void fill(const std::string& path, int count) {
  for (int i = 0; i < count; ++i) {
    const int fd = ::open((path + "/file-" + std::to_string(i)).c_str(), O_CREAT | O_WRONLY, 0600);
    ASSERT_GE(fd, 0) << std::strerror(errno);
    ::close(fd);
  }
}

TEST_P(Directories, TenThousandEntries_AreListedOnce) {
  TestMount m(mount_setup());
  m.client([&] {
    EXPECT_POSIX(::mkdir(m.path("d").c_str(), 0700));
    fill(m.path("d"), 10000);
    const auto names = list(m.path("d"));
    EXPECT_EQ(names.size(), 10002u);
    EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), 10002u);
    EXPECT_TRUE(names.contains("."));
    EXPECT_TRUE(names.contains(".."));
    EXPECT_TRUE(names.contains("file-9999"));
  });
}

TEST_P(Directories, SeekdirReturnsToTelldirsPosition) {
  TestMount m(mount_setup());
  m.client([&] {
    fill(m.path(), 2000);
    DIR* d = ::opendir(m.path().c_str());
    ASSERT_NE(d, nullptr);
    std::vector<std::pair<long, std::string>> seen;
    for (;;) {
      const long position = ::telldir(d);
      const dirent* e = ::readdir(d);
      if (e == nullptr) break;
      seen.emplace_back(position, e->d_name);
    }
    ASSERT_EQ(seen.size(), 2002u);
    for (size_t i = 0; i < seen.size(); i += 97) {
      ::seekdir(d, seen[seen.size() - 1 - i].first);
      const dirent* e = ::readdir(d);
      ASSERT_NE(e, nullptr);
      EXPECT_EQ(seen[seen.size() - 1 - i].second, e->d_name);
    }
    ::rewinddir(d);
    EXPECT_STREQ(::readdir(d)->d_name, seen[0].second.c_str());
    ::closedir(d);
  });
}

TEST_P(Directories, RemovingWhileListing_LosesNothing) {
  TestMount m(mount_setup());
  m.client([&] {
    fill(m.path(), 3000);
    DIR* d = ::opendir(m.path().c_str());
    int removed = 0;
    while (const dirent* e = ::readdir(d)) {
      if (e->d_name[0] == '.') continue;
      EXPECT_POSIX(::unlink(m.path(e->d_name).c_str()));
      ++removed;
    }
    ::closedir(d);
    EXPECT_EQ(removed, 3000);
    EXPECT_EQ(list(m.path()).size(), 2u);
  });
}

TEST_P(Directories, TypesAndInodeNumbers_AreInTheListing) {
  TestMount m(mount_setup());
  m.client([&] {
    EXPECT_POSIX(::mkdir(m.path("dir").c_str(), 0700));
    EXPECT_POSIX(::symlink("x", m.path("link").c_str()));
    write_file(m.path("file"), "x");
    DIR* d = ::opendir(m.path().c_str());
    while (const dirent* e = ::readdir(d)) {
      const std::string name = e->d_name;
      if (name == "..") continue;
      struct stat st {};
      EXPECT_POSIX(::lstat(m.path(name).c_str(), &st));
      EXPECT_EQ(e->d_ino, st.st_ino) << name;
      EXPECT_EQ(e->d_type, IFTODT(st.st_mode)) << name;
    }
    ::closedir(d);
  });
}

TEST_P(Directories, ReaddirPlus_SavesTheLookups) {
  MountSetup s = mount_setup();
  s.lifetimes.attributes = s.lifetimes.entries = std::chrono::hours(1);
  TestMount m(s);
  for (int i = 0; i < 50; ++i) m.fs().external_create("file-" + std::to_string(i));  // the kernel knows none
  const size_t before = m.fs().calls("lookup");
  m.client([&] {
    DIR* d = ::opendir(m.path().c_str());
    while (const dirent* e = ::readdir(d)) {
      struct stat st {};
      EXPECT_POSIX(::fstatat(::dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW));
    }
    ::closedir(d);
  });
  EXPECT_GT(m.count("READDIRPLUS"), 0u);
  // The kernel may look up some names that READDIRPLUS did not return before it decides to use READDIRPLUS.
  EXPECT_LT(m.fs().calls("lookup"), before + 25);
}

TEST_P(Directories, WithoutReaddirPlus_OnlyReaddirIsUsed) {
  MountSetup s = mount_setup();
  s.options.readdirplus = false;
  TestMount m(s);
  m.client([&] {
    fill(m.path(), 50);
    EXPECT_EQ(list(m.path()).size(), 52u);
  });
  EXPECT_EQ(m.count("READDIRPLUS"), 0u);
  EXPECT_GT(m.count("READDIR"), 0u);
}

TEST_P(Directories, KeepCache_ListsWithoutAsking) {
  TestMount m(mount_setup());
  m.client([&] {
    fill(m.path(), 20);
    EXPECT_EQ(list(m.path()).size(), 22u);
  });
  m.fs().keep_cache(true);
  const size_t before = m.fs().calls("readdir");
  m.client([&] {
    for (int i = 0; i < 5; ++i) EXPECT_EQ(list(m.path()).size(), 22u);
  });
  EXPECT_EQ(m.fs().calls("readdir"), before);
  // After our own changes the kernel asks again.
  m.client([&] {
    write_file(m.path("another"), "x");
    EXPECT_EQ(list(m.path()).size(), 23u);
  });
}

TEST_P(Directories, WithoutKeepCache_SeesTheServersChange) {
  TestMount m(mount_setup());
  m.client([&] {
    fill(m.path(), 20);
    EXPECT_EQ(list(m.path()).size(), 22u);
  });
  m.fs().external_remove("file-3");
  m.client([&] { EXPECT_EQ(list(m.path()).size(), 21u); });
}

TEST_P(Directories, FsyncOfADirectory_Works) {
  TestMount m(mount_setup());
  m.client([&] {
    const int fd = ::open(m.path().c_str(), O_RDONLY | O_DIRECTORY);
    ASSERT_GE(fd, 0);
    EXPECT_POSIX(::fsync(fd));
    ::close(fd);
  });
  EXPECT_EQ(m.fs().calls("fsyncdir"), 1u);
}

TEST_P(Directories, LookupsInOneDirectory_DoNotWaitForEachOther) {
  // Two processes look up different names of one directory while lookups are held. Without
  // FUSE_PARALLEL_DIROPS the second request would not even be sent.
  TestMount fresh(mount_setup());
  fresh.fs().hold("lookup");
  const pid_t one =
      fresh.start_client([&] { EXPECT_ERRNO(::access(fresh.path("one").c_str(), F_OK), ENOENT); });
  const pid_t two =
      fresh.start_client([&] { EXPECT_ERRNO(::access(fresh.path("two").c_str(), F_OK), ENOENT); });
  EXPECT_TRUE(eventually([&] { return fresh.fs().held("lookup") == 2; }));
  fresh.fs().let_go("lookup");
  EXPECT_EQ(fresh.wait_client(one), 0);
  EXPECT_EQ(fresh.wait_client(two), 0);
}

}  // namespace
}  // namespace nfsrdma::fuse::test
