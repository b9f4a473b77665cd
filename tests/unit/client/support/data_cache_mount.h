// SPDX-License-Identifier: Apache-2.0
// A mount with a data cache, for the tests of the cache and of read-ahead.
//
// Read-ahead goes to its limit here, whatever is measured, so that the requests do not depend on time.
#pragma once

#include <cstdint>

#include "tests/unit/client/support/test_mount.h"
#include "tests/unit/transport/support/eventually.h"

namespace nfsrdma::test {

inline constexpr uint64_t kMiB = 1u << 20;
inline constexpr size_t kRead = 128u << 10;

// Content that shows its offset and version.
inline std::string content(size_t size, char version = 'a', uint64_t offset = 0) {
  std::string text(size, version);
  for (size_t i = 0; i + 16 <= size; i += 4096) {
    const std::string mark = std::to_string(offset + i);
    std::copy(mark.begin(), mark.end(), text.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return text;
}

inline void keep_data(client::ClientOptions& o) {
  o.cache_bytes = 16 * kMiB;
  o.read_ahead_bytes = kMiB;
  o.read_ahead_measured = false;
}

inline bool is_ahead(const filer::FaultEvent& e) {
  return e.has(nfs4::OP_READ) && e.has(nfs4::OP_GETATTR);
}
inline filer::Trigger read_ahead_request() {
  return filer::on::request_with(nfs4::OP_READ).if_(is_ahead);
}
inline filer::Trigger read_ahead_reply() {
  return filer::on::reply_to(nfs4::OP_READ).if_(is_ahead);
}

class DataCacheLoops : public testing::TestWithParam<unsigned> {
 protected:
  void SetUp() override {
    server = start_filer();
    server->make_file("/export/file", content(4 * kMiB), 0666);
    mount = make_mount(keep_data);
  }
  std::unique_ptr<TestMount> make_mount(std::function<void(client::ClientOptions&)> options) {
    return std::make_unique<TestMount>(
        *server, TestMount::Settings{.loops = GetParam(), .options = std::move(options)});
  }
  client::CacheStatistics numbers() { return mount->fs().statistics().cache; }
  // Waits until a condition on the numbers holds.
  template <class Condition>
  bool wait_for(Condition condition) {
    return eventually([&] { return condition(numbers()); }, std::chrono::microseconds(100));
  }
  static std::string landed(client::ReadReply& reply) {
    std::string text;
    for (BulkData& d : reply.data) {
      EXPECT_TRUE(d.land());
      text += as_string_view(d.slice.bytes);
    }
    return text;
  }
  // As an application that pauses: waits until nothing is in flight but `held` requests that faults hold.
  void wait_for_what_is_on_its_way(uint32_t held = 0) {
    const auto idle = [&] { return mount->fs().statistics().session.slots_in_use == held; };
    do {
      ASSERT_TRUE(wait_for([&](const auto&) { return idle(); }));
      mount->turn_every_loop();
    } while (!idle());
  }
  // Reads the first two parts. When it returns, the megabyte behind them is cached.
  static constexpr uint64_t kKept = 2 * kRead;
  client::OpenFileRef open_with_data_ahead(int flags = O_RDWR) {
    const uint64_t before = numbers().ahead_bytes;
    auto file = mount->open("file", flags);
    EXPECT_EQ(*mount->read(file, 0, kRead), content(kRead));
    EXPECT_EQ(*mount->read(file, kRead, kRead), content(kRead, 'a', kRead));
    EXPECT_TRUE(wait_for([&](const auto& n) { return n.ahead_bytes >= before + 4 * kRead; }));
    return file;
  }
  // Checks that the data at kKept has `version`, and whether the server was asked for it.
  void expect_version(const client::OpenFileRef& file, char version, bool asked) {
    const uint64_t before = numbers().data_hit_bytes;
    const auto text = mount->read(file, kKept, kRead);
    ASSERT_TRUE(text) << describe(text.error());
    EXPECT_EQ(*text, content(kRead, version, kKept)) << "begins with " << text->substr(0, 20);
    if (asked) {
      EXPECT_EQ(numbers().data_hit_bytes, before);
    }
  }
  void mount_with_delegations() {
    server->configure([](filer::nfs::Switches& s) { s.delegations = filer::nfs::Delegations::kReadOrWrite; });
    mount = make_mount(keep_data);
  }
  std::vector<filer::StateFacts> delegations() {
    return live_states(*server, filer::state::StateKind::kDelegation);
  }
  // Waits until earlier requests on every connection are executed.
  void pass_every_connection() {
    for (unsigned i = 0; i < mount->loops().size(); ++i) {
      auto asking = mount->fs().lookup(mount->user(), mount->root(), "absent " + std::to_string(passes_++));
      EXPECT_TRUE(run_on(mount->loops()[i], std::move(asking)));
    }
  }
  bool change_behind_our_back() {
    return server->write_file("/export/file", kKept, content(kRead, 'b', kKept));
  }

  std::unique_ptr<filer::Server> server;
  std::unique_ptr<TestMount> mount;

 private:
  unsigned passes_ = 0;
};

}  // namespace nfsrdma::test
