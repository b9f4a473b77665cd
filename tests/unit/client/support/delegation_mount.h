// SPDX-License-Identifier: Apache-2.0
// A mount, and a server that grants delegations, for the tests of delegations.
#pragma once

#include <cstdint>

#include "tests/unit/client/support/test_mount.h"
#include "tests/unit/transport/support/eventually.h"

namespace nfsrdma::test {

class DelegationLoops : public testing::TestWithParam<unsigned> {
 protected:
  void SetUp() override {
    server = start_filer();
    server->configure([](filer::nfs::Switches& s) { s.delegations = filer::nfs::Delegations::kReadOrWrite; });
    server->make_file("/export/file", "content", 0666);
    mount = std::make_unique<TestMount>(*server, TestMount::Settings{.loops = GetParam()});
  }

  std::vector<filer::StateFacts> live(filer::state::StateKind kind) { return live_states(*server, kind); }
  client::DelegationStatistics numbers() { return mount->fs().statistics().delegations; }
  uint64_t executed(nfs4::nfs_opnum4 op) { return server->executed(op).executed; }
  // `believed`: how long attributes are valid without a promise.
  void mount_with(std::chrono::seconds believed) {
    mount.reset();
    mount = std::make_unique<TestMount>(
        *server, TestMount::Settings{.loops = GetParam(), .options = [believed](client::ClientOptions& o) {
                                       o.acregmin = o.acregmax = o.acdirmin = o.acdirmax = believed;
                                     }});
  }
  // A lease of one second. By default attributes are valid only by a promise.
  void start_with_a_short_lease(std::chrono::seconds believed = std::chrono::seconds(0)) {
    mount.reset();
    server = start_filer({.lease = std::chrono::seconds(1), .manual_clock = true});
    server->configure([](filer::nfs::Switches& s) { s.delegations = filer::nfs::Delegations::kReadOrWrite; });
    server->make_file("/export/file", "content", 0666);
    mount_with(believed);
  }
  void revoke_delegations() {
    server->with_core([](filer::nfs::Core& core) {
      core.states.each([&](filer::state::State& s) {
        if (s.kind == filer::state::StateKind::kDelegation)
          core.states.revoke(s, filer::state::Revoked::kRecall);
      });
    });
  }
  void cut_off_for_longer_than_the_lease() {
    server->pause_reading(true);
    EXPECT_TRUE(eventually([this] { return !mount->fs().statistics().session.lease_holds; }));
  }
  // Waits until the mount has returned every delegation.
  bool returned() {
    return server->wait_until([](filer::nfs::Core& core) {
      bool any = false;
      core.states.each([&](const filer::state::State& s) {
        any = any || (s.kind == filer::state::StateKind::kDelegation && s.live());
      });
      return !any;
    });
  }
  // As returned(), and the server has no revoked delegation either.
  bool none_left() {
    return server->wait_until([](filer::nfs::Core& core) {
      bool any = false;
      core.states.each(
          [&](const filer::state::State& s) { any = any || s.kind == filer::state::StateKind::kDelegation; });
      return !any;
    });
  }

  std::unique_ptr<filer::Server> server;
  std::unique_ptr<TestMount> mount;
};

}  // namespace nfsrdma::test
