// SPDX-License-Identifier: Apache-2.0
// Parts of a host's export: the keyed hash, directory listings, stable storage.

#include <fcntl.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>

#include "filer/state/stable_storage.h"
#include "filer/tree/host_listing.h"
#include "tests/unit/filer/raw_client.h"

namespace nfsrdma::filer::test {
namespace {

// Test vectors of the SipHash paper: key 00..0f, message 00, 01, 02...
TEST(SipHash, TestVectors) {
  const tree::SipHash hash({0x0706050403020100, 0x0f0e0d0c0b0a0908});
  std::string message;
  EXPECT_EQ(hash(message), 0x726fdb47dd0e0e31u);
  for (char c = 0; c < 15; ++c) message.push_back(c);
  EXPECT_EQ(hash(message), 0xa129ca6149be45e5u);
}

TEST(HostListing, CookiesStay_WhateverHappensToOtherNames) {
  const TempDirectory directory;
  for (int i = 0; i < 300; ++i) std::ofstream(directory.path() + "/n" + std::to_string(i));
  const Fd fd(open(directory.path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const tree::SipHash hash({1, 2});
  const auto read_all = [&] {
    std::map<std::string, uint64_t> cookies;
    const tree::Answer<tree::HostListing> listing = tree::HostListing::read(fd.get(), hash);
    uint64_t at = 0;
    while (const tree::HostListing::Entry* entry = listing->next(at)) {
      EXPECT_GE(entry->cookie, tree::HostListing::kFirstCookie);
      EXPECT_LT(entry->cookie, uint64_t{1} << 63);
      EXPECT_GT(entry->cookie, at);
      cookies.emplace(entry->name, at = entry->cookie);
    }
    return cookies;
  };
  const auto before = read_all();
  ASSERT_EQ(before.size(), 300u);
  for (int i = 0; i < 300; i += 2) std::filesystem::remove(directory.path() + "/n" + std::to_string(i));
  std::ofstream(directory.path() + "/new");
  const auto after = read_all();
  EXPECT_EQ(after.size(), 151u);
  for (const auto& [name, cookie] : after) {
    if (name == "new") continue;
    EXPECT_EQ(cookie, before.at(name)) << name;
  }
}

TEST(StableStorage, RemembersKeyAndClients_AndBelongsToOneServer) {
  const TempDirectory directory;
  const std::string path = directory.path() + "/state";
  tree::HandleKey key{};
  const std::set<std::string> clients{"one", std::string("b\0b\n", 4)};
  {
    auto storage = state::StableStorage::open(path);
    ASSERT_TRUE(storage) << describe(storage.error());
    key = (*storage)->key();
    EXPECT_NE(key, tree::HandleKey{});
    EXPECT_TRUE((*storage)->clients().empty());
    (*storage)->save(clients);
    const auto second = state::StableStorage::open(path);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().errnum, EBUSY);
  }
  const auto again = state::StableStorage::open(path);
  ASSERT_TRUE(again) << describe(again.error());
  EXPECT_EQ((*again)->key(), key);
  EXPECT_EQ((*again)->clients(), clients);
  EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms(0700));
}

// RFC 8881 section 18.16.3: the verifier of an exclusive create belongs in stable storage.
TEST(StableStorage, RemembersTheLatestCreates_AndWritesThemAnewInTime) {
  const TempDirectory directory;
  const auto handle = [](size_t i) { return "handle\n" + std::to_string(i); };
  const auto verifier = [](size_t i) { return std::string("\0ver", 4) + std::to_string(i); };
  constexpr size_t kMade = 2 * state::StableStorage::kCreates + 100;
  const auto expect_latest = [&](const state::StableStorage& storage) {
    for (const size_t i : {kMade - 1, kMade - state::StableStorage::kCreates}) {
      EXPECT_TRUE(storage.was_created_by(handle(i), verifier(i))) << i;
      EXPECT_FALSE(storage.was_created_by(handle(i), verifier(i + 1))) << i;
    }
    EXPECT_FALSE(storage.was_created_by(handle(0), verifier(0)));
  };
  {
    const auto storage = state::StableStorage::open(directory.path());
    ASSERT_TRUE(storage) << describe(storage.error());
    for (size_t i = 0; i < kMade; ++i) (*storage)->note_create(handle(i), verifier(i));
    expect_latest(**storage);
  }
  EXPECT_LT(std::filesystem::file_size(directory.path() + "/creates"),
            2 * state::StableStorage::kCreates * 40);
  std::ofstream(directory.path() + "/creates", std::ios::app) << "0011 22";  // cut short
  const auto again = state::StableStorage::open(directory.path());
  ASSERT_TRUE(again) << describe(again.error());
  expect_latest(**again);
  (*again)->note_create("new", "verifier");
  EXPECT_TRUE((*again)->was_created_by("new", "verifier"));
}

// A full disk may take only a part of a line; lines that are written later must be readable.
TEST(StableStorage, AfterALineThatWasCutShort_IsReadAgain) {
  const TempDirectory directory;
  {
    const auto storage = state::StableStorage::open(directory.path());
    ASSERT_TRUE(storage) << describe(storage.error());
    (*storage)->note_create("first", "verifier1");
    rlimit whole{};
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &whole), 0);
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit full{std::filesystem::file_size(directory.path() + "/creates") + 5, whole.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
    (*storage)->note_create("second", "verifier2");
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &whole), 0);
    std::signal(SIGXFSZ, handler);
    (*storage)->note_create("third", "verifier3");
  }
  const auto again = state::StableStorage::open(directory.path());
  ASSERT_TRUE(again) << describe(again.error());
  for (const auto& [name, verifier] :
       {std::pair("first", "verifier1"), {"second", "verifier2"}, {"third", "verifier3"}})
    EXPECT_TRUE((*again)->was_created_by(name, verifier)) << name;
}

TEST(StableStorage, SaysWhatIsDamaged) {
  for (const char* name : {"clients", "creates"}) {
    const TempDirectory directory;
    std::ofstream(directory.path() + "/" + name) << "xyz\n";
    const auto storage = state::StableStorage::open(directory.path());
    ASSERT_FALSE(storage) << name;
    EXPECT_NE(describe(storage.error()).find("damaged"), std::string::npos) << name;
  }
  const TempDirectory directory;
  EXPECT_FALSE(state::StableStorage::open(directory.path() + "/no/such"));
}

}  // namespace
}  // namespace nfsrdma::filer::test
