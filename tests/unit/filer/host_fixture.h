// SPDX-License-Identifier: Apache-2.0
// Fixture: a server that exports one directory of the host, and a client.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>

#include "filer/tree/host_store.h"
#include "tests/unit/filer/raw_client.h"
#include "tests/unit/transport/support/eventually.h"

namespace nfsrdma::filer::test {

// The number of next fsync(2) calls in this program that fail, including the server's.
extern std::atomic<int> failing_fsyncs;
// If not 0, getxattr(2) fails with this errno.
extern std::atomic<int> failing_getxattr;
// The user that this program last wrote file data as (pwrite(2), ftruncate(2)). `overrides`: whether the
// writer could exceed that user's quotas and use the host's reserved blocks.
struct LastWriter {
  std::atomic<uint32_t> user{UINT32_MAX};
  std::atomic<bool> overrides{false};
};
extern LastWriter last_writer;

namespace fs = std::filesystem;

class HostTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(outside());
    fs::create_directory(inside());
    fs::permissions(inside(), fs::perms(0777));
    std::ofstream(outside() + "/secret") << "secret";
    begin();
  }
  void begin() { begin(inside()); }
  void begin(const std::string& of) {
    client.reset();
    server.reset();
    nfs::Options options{.exports = {}, .state_directory = directory.path() + "/state"};
    options.directories = {{.path = "/export",
                            .directory = of,
                            .squash = tree::Squash::kNone,
                            .sync = sync,
                            .most_with_descriptors = most_with_descriptors}};
    server = start_server(std::move(options));
    connect();
  }
  void connect() {
    client = std::make_unique<RawClient>(*server, "client", User{.uid = geteuid(), .gid = getegid()});
    ASSERT_TRUE(client->establish());
  }
  std::string inside() const { return directory.path() + "/inside"; }
  std::string outside() const { return directory.path() + "/outside"; }
  // Waits until a later change of the file has a later ctime.
  static void pass_tick(const std::string& path) {
    struct stat facts {};
    ASSERT_EQ(stat(path.c_str(), &facts), 0);
    const auto changed =
        std::chrono::seconds(facts.st_ctim.tv_sec) + std::chrono::nanoseconds(facts.st_ctim.tv_nsec);
    EXPECT_TRUE(nfsrdma::test::eventually([&] {
      return std::chrono::system_clock::now().time_since_epoch() - changed >= tree::HostStore::kTick;
    }));
  }
  nfs4::changeid4 change() { return client->attributes("/export/f", bitmap4::of({FATTR4_CHANGE})).change; }
  nfsstat4 put(const nfs_fh4& handle) {
    return client->run(ops(PUTFH4args{handle}, GETATTR4args{bitmap4::of({FATTR4_SIZE})})).status;
  }

  TempDirectory directory;
  bool sync = false;
  size_t most_with_descriptors = 0;
  std::unique_ptr<Server> server;
  std::unique_ptr<RawClient> client;
};

class HostAsRootTest : public HostTest {
 protected:
  void SetUp() override {
    if (!may_act_as_callers()) GTEST_SKIP() << "needs root";
    fs::permissions(directory.path(), fs::perms(0755));
    HostTest::SetUp();
    user = std::make_unique<RawClient>(*server, "user", User{.uid = 1000, .gid = 1000, .groups = {500}});
    ASSERT_TRUE(user->establish());
  }
  std::unique_ptr<RawClient> user;
};

}  // namespace nfsrdma::filer::test
