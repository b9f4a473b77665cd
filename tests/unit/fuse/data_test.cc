// SPDX-License-Identifier: Apache-2.0
// File data through the kernel: reads and writes of all sizes, append, truncation, holes, mmap, O_DIRECT,
// caches.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "tests/unit/fuse/posix.h"
#include "tests/unit/fuse/test_mount.h"

namespace nfsrdma::fuse::test {
namespace {

// DeviceReader::kKeepPayload; its header would need FUSE's.
constexpr size_t kKeepPayload = 32768;

class Data : public FuseTest {};
NFSRDMA_FUSE_SUITE(Data);

TEST_P(Data, WritesOfEverySize_ReadBack) {
  TestMount m(mount_setup());
  // Around the page size, the size from which payloads stay in the buffer they were read into, and the size
  // of the largest request.
  const std::vector<size_t> sizes = {1,     4095,   4096,           4097,     32767,          32768,
                                     32769, 131072, (1u << 20) - 1, 1u << 20, (1u << 20) + 1, 3u << 20};
  m.client([&] {
    for (size_t size : sizes) {
      const std::string data = pattern(size, static_cast<unsigned>(size));
      write_file(m.path("f"), data);
      EXPECT_TRUE(read_file(m.path("f")) == data) << size;
    }
  });
  EXPECT_EQ(m.fs().contents("f"), pattern(3u << 20, 3u << 20));
}

TEST_P(Data, LargeWrites_AreNotCopied) {
  TestMount m(mount_setup());
  m.client([&] { write_file(m.path("f"), pattern(kKeepPayload)); });
  EXPECT_TRUE(m.fs().last_write_in_place());
  m.client([&] { write_file(m.path("f"), pattern(kKeepPayload - 4096)); });
  EXPECT_FALSE(m.fs().last_write_in_place());
}

TEST_P(Data, ManyWritesFromSeveralProcesses_KeepTheirData) {
  TestMount m(mount_setup());
  constexpr int kProcesses = 4;
  constexpr size_t kBlock = 40000;  // stays in the buffer it was read into, and ends inside a page
  constexpr int kBlocks = 100;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    children.push_back(m.start_client([&m, p] {
      const int fd = ::open(m.path("f" + std::to_string(p)).c_str(), O_CREAT | O_RDWR, 0600);
      ASSERT_GE(fd, 0);
      for (int i = 0; i < kBlocks; ++i) {
        const std::string block = pattern(kBlock, static_cast<unsigned>(p * 1000 + i));
        ASSERT_EQ(::pwrite(fd, block.data(), block.size(), i * static_cast<off_t>(kBlock)),
                  static_cast<ssize_t>(kBlock));
      }
    }));
  }
  for (pid_t child : children) EXPECT_EQ(m.wait_client(child), 0);
  for (int p = 0; p < kProcesses; ++p) {
    std::string expected;
    for (int i = 0; i < kBlocks; ++i) expected += pattern(kBlock, static_cast<unsigned>(p * 1000 + i));
    EXPECT_TRUE(m.fs().contents("f" + std::to_string(p)) == expected) << p;
  }
}

TEST_P(Data, Append_GoesToTheEnd) {
  TestMount m(mount_setup());
  m.client([&] {
    write_file(m.path("f"), "head");
    const int fd = ::open(m.path("f").c_str(), O_WRONLY | O_APPEND);
    ASSERT_GE(fd, 0);
    EXPECT_EQ(::pwrite(fd, "-one", 4, 0), 4);
    EXPECT_EQ(::write(fd, "-two", 4), 4);
    ::close(fd);
    EXPECT_EQ(read_file(m.path("f")), "head-one-two");
  });
}

TEST_P(Data, Truncation_ZeroesWhatGrowsAgain) {
  TestMount m(mount_setup());
  m.client([&] {
    write_file(m.path("f"), pattern(10000));
    EXPECT_POSIX(::truncate(m.path("f").c_str(), 100));
    EXPECT_POSIX(::truncate(m.path("f").c_str(), 8000));
    EXPECT_EQ(read_file(m.path("f")), pattern(10000).substr(0, 100) + std::string(7900, '\0'));
    const int fd = ::open(m.path("f").c_str(), O_RDWR | O_TRUNC);
    struct stat st {};
    EXPECT_POSIX(::fstat(fd, &st));
    EXPECT_EQ(st.st_size, 0);
    ::close(fd);
  });
  // O_TRUNC is a SETATTR of its own: see the handshake.
  EXPECT_EQ(m.fs().calls("setattr"), 3u);
}

TEST_P(Data, SparseFilesBeyond4GiB_Work) {
  TestMount m(mount_setup());
  m.client([&] {
    constexpr off_t kFar = (off_t{5} << 30) + 12345;
    const int fd = ::open(m.path("f").c_str(), O_CREAT | O_RDWR, 0600);
    ASSERT_GE(fd, 0);
    EXPECT_EQ(::pwrite(fd, "far", 3, kFar), 3);
    struct stat st {};
    EXPECT_POSIX(::fstat(fd, &st));
    EXPECT_EQ(st.st_size, kFar + 3);
    EXPECT_LT(st.st_blocks * 512, 1 << 20);
    char buffer[4];
    EXPECT_EQ(::pread(fd, buffer, 4, kFar - 1), 4);
    EXPECT_EQ(std::memcmp(buffer, "\0far", 4), 0);
    // The kernel's generic answer: data up to the end of the file, then a hole.
    EXPECT_EQ(::lseek(fd, 10, SEEK_DATA), 10);
    EXPECT_EQ(::lseek(fd, 0, SEEK_HOLE), kFar + 3);
    EXPECT_ERRNO(::lseek(fd, kFar + 3, SEEK_DATA), ENXIO);
    ::close(fd);
  });
}

TEST_P(Data, SharedMapping_ReadsAndWrites) {
  TestMount m(mount_setup());
  const std::string data = pattern(300000);
  m.client([&] {
    write_file(m.path("f"), data);
    const int fd = ::open(m.path("f").c_str(), O_RDWR);
    ASSERT_GE(fd, 0);
    auto* at = static_cast<char*>(::mmap(nullptr, data.size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    ASSERT_NE(at, MAP_FAILED) << std::strerror(errno);
    EXPECT_EQ(std::memcmp(at, data.data(), data.size()), 0);
    std::memcpy(at + 100000, "through the mapping", 19);
    EXPECT_POSIX(::msync(at, data.size(), MS_SYNC));
    char buffer[19];
    EXPECT_EQ(::pread(fd, buffer, 19, 100000), 19);
    EXPECT_EQ(std::memcmp(buffer, "through the mapping", 19), 0);
    std::memcpy(at + 5, "unsynced", 8);
    EXPECT_POSIX(::munmap(at, data.size()));
    ::close(fd);
  });
  // close(2) wrote the rest.
  EXPECT_TRUE(eventually([&] { return m.fs().contents("f").substr(5, 8) == "unsynced"; }));
  EXPECT_EQ(m.fs().contents("f").substr(100000, 19), "through the mapping");
}

TEST_P(Data, PageWriteback_UsesTheOpenersCredential) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root changes identities";
  MountSetup s = mount_setup();
  s.options.allow_other = true;
  s.options.caller_credentials = true;
  TestMount m(s);
  m.client([&] { EXPECT_POSIX(::chmod(m.path().c_str(), 0777)); });
  m.client([&] {
    EXPECT_POSIX(::setresgid(4321, 4321, 4321));
    EXPECT_POSIX(::setresuid(1234, 1234, 1234));
    const int fd = ::open(m.path("f").c_str(), O_CREAT | O_RDWR, 0600);
    ASSERT_GE(fd, 0) << std::strerror(errno);
    EXPECT_POSIX(::ftruncate(fd, 8192));
    auto* at = static_cast<char*>(::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    ASSERT_NE(at, MAP_FAILED);
    at[4096] = 'x';
    EXPECT_POSIX(::msync(at, 8192, MS_SYNC));
  });
  const rpc::CredentialPtr c = m.fs().last_credential("write");
  ASSERT_TRUE(c);
  EXPECT_EQ(c->uid(), 1234u);
  EXPECT_EQ(c->gid(), 4321u);
}

TEST_P(Data, DirectIo_BypassesThePageCache) {
  TestMount m(mount_setup());
  m.client([&] {
    const int fd = ::open(m.path("f").c_str(), O_CREAT | O_RDWR | O_DIRECT, 0600);
    ASSERT_GE(fd, 0) << std::strerror(errno);
    const size_t size = 2u << 20;
    void* memory = nullptr;
    ASSERT_EQ(::posix_memalign(&memory, 4096, size), 0);
    const std::string data = pattern(size);
    std::memcpy(memory, data.data(), size);
    EXPECT_EQ(::pwrite(fd, memory, size, 0), static_cast<ssize_t>(size));
    std::memset(memory, 0, size);
    EXPECT_EQ(::pread(fd, memory, size, 0), static_cast<ssize_t>(size));
    EXPECT_EQ(std::memcmp(memory, data.data(), size), 0);
    EXPECT_EQ(::pread(fd, memory, 4096, static_cast<off_t>(size) - 100), 100);
    ::free(memory);
    ::close(fd);
  });
  const size_t before = m.fs().calls("read");
  m.client([&] {
    const int fd = ::open(m.path("f").c_str(), O_RDONLY | O_DIRECT);
    alignas(4096) static char block[4096];
    for (int i = 0; i < 3; ++i) EXPECT_EQ(::pread(fd, block, sizeof block, 0), 4096);
    ::close(fd);
  });
  EXPECT_EQ(m.fs().calls("read"), before + 3);
}

TEST_P(Data, DirectIo_AsTheDescriptorHasItNow) {
  TestMount m(mount_setup());
  const auto write_with = [&](int flags) {
    m.client([&] {
      const int fd = ::open(m.path("f").c_str(), O_CREAT | O_RDWR, 0600);
      ASSERT_GE(fd, 0) << std::strerror(errno);
      ASSERT_EQ(::fcntl(fd, F_SETFL, flags), 0) << std::strerror(errno);
      alignas(4096) static char block[4096];
      EXPECT_EQ(::pwrite(fd, block, sizeof block, 0), ssize_t{sizeof block});
      ::close(fd);
    });
    return m.fs().last_write_direct();
  };
  EXPECT_TRUE(write_with(O_DIRECT));
  EXPECT_FALSE(write_with(0));
}

// That memory is still in the processor's cache.
TEST_P(Data, WritesOneAfterTheOther_ComeInTheSameMemory) {
  TestMount m(mount_setup());
  m.client([&] {
    const int fd = ::open(m.path("f").c_str(), O_CREAT | O_RDWR | O_DIRECT, 0600);
    ASSERT_GE(fd, 0) << std::strerror(errno);
    alignas(4096) static char block[kKeepPayload];
    for (int i = 0; i < 50; ++i) EXPECT_EQ(::pwrite(fd, block, sizeof block, 0), ssize_t{sizeof block});
    ::close(fd);
  });
  EXPECT_LE(m.fs().write_places(), mount_setup().loops);
}

TEST_P(Data, OpenWithoutKeepCache_ReadsAgain) {
  TestMount m(mount_setup());
  m.client([&] {
    write_file(m.path("f"), "old");
    EXPECT_EQ(read_file(m.path("f")), "old");
  });
  m.fs().external_write("f", "new");
  m.client([&] { EXPECT_EQ(read_file(m.path("f")), "new"); });
}

TEST_P(Data, OpenWithKeepCache_DoesNot) {
  TestMount m(mount_setup());
  m.client([&] {
    write_file(m.path("f"), "same");
    EXPECT_EQ(read_file(m.path("f")), "same");
  });
  m.fs().keep_cache(true);
  const size_t before = m.fs().calls("read");
  m.client([&] {
    for (int i = 0; i < 5; ++i) EXPECT_EQ(read_file(m.path("f")), "same");
  });
  EXPECT_LE(m.fs().calls("read"), before + 1);
}

TEST_P(Data, WriteByAnotherUser_ClearsSetUserIdOnTheServerOnly) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root changes identities";
  MountSetup s = mount_setup();
  s.options.allow_other = true;
  s.options.caller_credentials = true;
  s.options.suid = true;
  s.lifetimes.attributes = {};
  TestMount m(s);
  m.client([&] {
    write_file(m.path("f"), "x");
    EXPECT_POSIX(::chmod(m.path("f").c_str(), 06777));
  });
  const size_t before = m.fs().calls("setattr");
  m.client([&] {
    EXPECT_POSIX(::setresgid(65534, 65534, 65534));
    EXPECT_POSIX(::setresuid(65534, 65534, 65534));
    const int fd = ::open(m.path("f").c_str(), O_WRONLY);
    ASSERT_GE(fd, 0);
    // A kernel that clears the bits itself would send a SETATTR here, which a server refuses to a user who is
    // not the owner.
    EXPECT_EQ(::write(fd, "y", 1), 1) << std::strerror(errno);
    struct stat st {};
    EXPECT_POSIX(::fstat(fd, &st));
    EXPECT_EQ(st.st_mode & 07777u, 0777u);
  });
  EXPECT_EQ(m.fs().calls("setattr"), before);
}

TEST_P(Data, UnsupportedOperations_AnswerLikeTheKernelsClient) {
  TestMount m(mount_setup());
  m.client([&] {
    write_file(m.path("a"), pattern(100000));
    const int a = ::open(m.path("a").c_str(), O_RDWR);
    const int b = ::open(m.path("b").c_str(), O_CREAT | O_RDWR, 0600);
    for (int i = 0; i < 2; ++i)
      EXPECT_ERRNO(::fallocate(a, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), EOPNOTSUPP);
    EXPECT_EQ(::posix_fallocate(b, 0, 10000), 0);
    EXPECT_ERRNO(::ioctl(a, 0x12345678, nullptr), ENOTTY);
    EXPECT_ERRNO(::open(m.path().c_str(), O_TMPFILE | O_RDWR, 0600), EOPNOTSUPP);
    off_t from = 0, to = 0;
    EXPECT_GT(::copy_file_range(a, &from, b, &to, 50000, 0), 0) << std::strerror(errno);
    from = 0;
    EXPECT_GT(::sendfile(b, a, &from, 50000), 0) << std::strerror(errno);
  });
}

TEST_P(Data, FsyncAndCloseErrors_ReachTheApplication) {
  TestMount m(mount_setup());
  m.fs().fail_with("fsync", EIO);
  m.client([&] {
    const int fd = ::open(m.path("f").c_str(), O_CREAT | O_RDWR, 0600);
    EXPECT_ERRNO(::fsync(fd), EIO);
    EXPECT_ERRNO(::fdatasync(fd), EIO);
    EXPECT_POSIX(::close(fd));
  });
  m.fs().errors_taken(true);  // another caller has consumed the error
  m.client([&] {
    const int fd = ::open(m.path("f").c_str(), O_RDWR);
    EXPECT_POSIX(::fsync(fd));
  });
  m.fs().errors_taken(false);
  m.fs().fail_with("fsync", 0);
  m.fs().fail_with("flush", ENOSPC);
  m.client([&] {
    const int fd = ::open(m.path("f").c_str(), O_RDWR);
    EXPECT_ERRNO(::close(fd), ENOSPC);
  });
  m.fs().fail_with("write", EDQUOT);
  m.client([&] {
    const int fd = ::open(m.path("f").c_str(), O_RDWR);
    EXPECT_ERRNO(::write(fd, "x", 1), EDQUOT);
  });
}

TEST_P(Data, EnosysFromTheFilesystem_DoesNotDisableAnOperation) {
  TestMount m(mount_setup());
  m.client([&] { write_file(m.path("f"), "x"); });
  m.fs().fail_with("fsync", ENOSYS);
  m.client([&] {
    const int fd = ::open(m.path("f").c_str(), O_RDWR);
    EXPECT_ERRNO(::fsync(fd), EOPNOTSUPP);
  });
  m.fs().fail_with("fsync", 0);
  const size_t before = m.fs().calls("fsync");
  m.client([&] {
    const int fd = ::open(m.path("f").c_str(), O_RDWR);
    EXPECT_POSIX(::fsync(fd));
  });
  EXPECT_EQ(m.fs().calls("fsync"), before + 1);
}

}  // namespace
}  // namespace nfsrdma::fuse::test
