// SPDX-License-Identifier: Apache-2.0
// What the answer to an OPEN_DOWNGRADE leaves of an open.
#include "client/nfs4/state/open_closer.h"

#include <gtest/gtest.h>

namespace nfsrdma::client::nfs4 {
namespace {

constexpr uint32_t kRead = nfs4::OPEN4_SHARE_ACCESS_READ, kBoth = nfs4::OPEN4_SHARE_ACCESS_BOTH;

nfs4::stateid4 stateid(uint32_t seqid) {
  nfs4::stateid4 id;
  id.seqid = seqid;
  id.other.fill(std::byte{7});
  return id;
}

// One descriptor reads; the one that opened for both has closed.
struct Downgrade : testing::Test {
  Downgrade() {
    state.stateid = stateid(2);
    state.established = true;
    state.openers[kRead] = 1;
    state.held_access = kBoth;
    state.opened = 1u << kRead | 1u << kBoth;
  }
  static Result<nfs4::OPEN_DOWNGRADE4res> answer(uint32_t seqid) {
    nfs4::OPEN_DOWNGRADE4res res;
    res.resok4.open_stateid = stateid(seqid);
    return res;
  }
  OpenState state;
};

TEST_F(Downgrade, WhenDone_LeavesTheAccessThatItNamed) {
  OpenCloser::note_downgraded(state, kRead, answer(3));
  EXPECT_EQ(state.held_access, kRead);
  EXPECT_EQ(state.opened, 1u << kRead);
  EXPECT_EQ(state.stateid, stateid(3));
  EXPECT_TRUE(state.established);
}

TEST_F(Downgrade, OvertakenByAnOpen_LeavesWhatThatOpened) {
  state.openers[kBoth] = 1;
  state.stateid = stateid(4);
  OpenCloser::note_downgraded(state, kRead, answer(3));
  EXPECT_EQ(state.held_access, kBoth);
  EXPECT_EQ(state.opened, 1u << kRead | 1u << kBoth);
  EXPECT_EQ(state.stateid, stateid(4));
}

// Section 8.2.2: a seqid of zero stands for the current one.
TEST_F(Downgrade, WithoutAnAnswer_LeavesTheSeqidOpen) {
  OpenCloser::note_downgraded(state, kRead, fail(Error{}));
  EXPECT_EQ(state.stateid, stateid(0));
  EXPECT_EQ(state.held_access, kBoth);
  EXPECT_EQ(state.opened, 1u << kRead | 1u << kBoth);
}

}  // namespace
}  // namespace nfsrdma::client::nfs4
