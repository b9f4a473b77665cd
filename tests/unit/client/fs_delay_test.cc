// SPDX-License-Identifier: Apache-2.0
// NFS4ERR_DELAY and NFS4ERR_GRACE: whichever operation returns them, the request is repeated after a pause,
// and the application does not notice (RFC 8881 sections 15.1.1.3, 15.1.9.2).
#include "tests/unit/client/support/situations.h"

namespace nfsrdma::test {
namespace {

using namespace nfs4;  // NOLINT: operations
namespace on = filer::on;

class Postponed : public testing::TestWithParam<std::tuple<nfsstat4, Situation>> {
 protected:
  const Situation& situation() const { return std::get<1>(GetParam()); }
};

TEST_P(Postponed, ByTheOperation_IsAskedAgain) {
  auto server = start_filer();
  TestMount mount(*server);
  prepare(*server, situation(), "plain");
  prepare(*server, situation(), "postponed");
  EXPECT_EQ(situation().act(mount, "plain"), 0);
  const auto rule = server->faults().add(on::request_with(situation().op).times(2),
                                         filer::fault::Answer{situation().op, std::get<0>(GetParam())});
  EXPECT_EQ(situation().act(mount, "postponed"), 0);
  EXPECT_EQ(server->faults().fired(rule), 2u);
  EXPECT_EQ(contents(*server, "/export/postponed"), contents(*server, "/export/plain"));
  EXPECT_TRUE(server->states().empty());
}

TEST_P(Postponed, BySequence_IsAskedAgainInTheSameSession) {
  if (std::get<0>(GetParam()) != NFS4ERR_DELAY) GTEST_SKIP() << "SEQUENCE does not answer so";
  auto server = start_filer();
  TestMount mount(*server);
  prepare(*server, situation(), "place");
  const auto rule = server->faults().add(on::request_with(situation().op),
                                         filer::fault::Answer{OP_SEQUENCE, NFS4ERR_DELAY});
  EXPECT_EQ(situation().act(mount, "place"), 0);
  EXPECT_EQ(server->faults().fired(rule), 1u);
  EXPECT_EQ(mount.fs().statistics().session.sessions_created, 1u);
}

INSTANTIATE_TEST_SUITE_P(All, Postponed,
                         testing::Combine(testing::Values(NFS4ERR_DELAY, NFS4ERR_GRACE),
                                          testing::ValuesIn(situations())),
                         [](const auto& param) {
                           return std::string(std::get<1>(param.param).name) +
                                  (std::get<0>(param.param) == NFS4ERR_DELAY ? "Delay" : "Grace");
                         });

}  // namespace
}  // namespace nfsrdma::test
