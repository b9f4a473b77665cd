// SPDX-License-Identifier: Apache-2.0
// The register of delegations: its limit, and which delegations are returned first.
#include "client/nfs4/delegations/delegations.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

namespace nfsrdma::client::nfs4 {
namespace {

DelegationRef delegation(uint32_t number, bool write = false) {
  std::array<std::byte, 8> bytes{};
  std::memcpy(bytes.data(), &number, sizeof number);
  nfs4::open_delegation4 granted;
  granted.delegation_type = write ? nfs4::OPEN_DELEGATE_WRITE : nfs4::OPEN_DELEGATE_READ;
  granted.stateid.seqid = 1;
  std::memcpy(granted.stateid.other.data(), &number, sizeof number);
  return std::make_shared<Delegation>(nfs4::nfs_fh4(bytes), granted, nullptr, 1);
}

TEST(Delegations, MoreThanTheMost_TheOldestGoBack) {
  Delegations held;
  std::vector<DelegationRef> all;
  for (uint32_t i = 0; i < Delegations::kMost; ++i) {
    held.add(all.emplace_back(delegation(i, i % 2 == 0)), Delegations::Came::kGranted);
    ASSERT_TRUE(held.excess().empty());
  }
  held.used(all[0]);
  for (uint32_t i = 1; i <= 3; ++i) {
    held.add(delegation(Delegations::kMost + i), Delegations::Came::kGranted);
    const std::vector<DelegationRef> excess = held.excess();
    ASSERT_EQ(excess.size(), 1u);
    EXPECT_EQ(excess.front(), all[i]) << "the one that was not used for longest";
    EXPECT_TRUE(held.excess().empty()) << "given out once";
    EXPECT_EQ(held.find(all[i]->fh, all[i]->stateid).delegation, all[i])
        << "a recall finds it until it is gone";
    held.remove(all[i], Delegations::Went::kReturned);
    EXPECT_EQ(held.find(all[i]->fh, all[i]->stateid).status, nfs4::NFS4ERR_BADHANDLE);
  }
  const DelegationStatistics s = held.statistics();
  EXPECT_EQ(s.held_read + s.held_write, Delegations::kMost);
  EXPECT_EQ(s.returned, 3u);
}

TEST(Delegations, OfOneTypeOnly_TheOthersStay) {
  Delegations held;
  for (uint32_t i = 0; i < 10; ++i) held.add(delegation(i, i % 2 == 0), Delegations::Came::kGranted);
  const std::vector<DelegationRef> writes = held.oldest_beyond(2, false, true);
  ASSERT_EQ(writes.size(), 3u);
  for (const DelegationRef& d : writes) EXPECT_TRUE(d->write);
  EXPECT_EQ(held.statistics().held_read, 5u);
  EXPECT_EQ(held.all().size(), 7u);
}

}  // namespace
}  // namespace nfsrdma::client::nfs4
