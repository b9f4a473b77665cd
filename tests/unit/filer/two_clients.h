// SPDX-License-Identifier: Apache-2.0
// Fixture: a server with two files, and two clients. Only Server::advance_clock() moves the clock.
#pragma once

#include "tests/unit/filer/raw_client.h"

namespace nfsrdma::filer::test {

class TwoClientsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server = start_server({.manual_clock = true});
    server->make_file("/export/f", "content", 0666);
    server->make_file("/export/g", "content", 0666);
    one = std::make_unique<RawClient>(*server, "one");
    two = std::make_unique<RawClient>(*server, "two");
    ASSERT_TRUE(one->establish());
    ASSERT_TRUE(two->establish());
  }

  std::unique_ptr<Server> server;
  std::unique_ptr<RawClient> one;
  std::unique_ptr<RawClient> two;
};

}  // namespace nfsrdma::filer::test
