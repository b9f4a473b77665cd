// SPDX-License-Identifier: Apache-2.0
// Where the helper finds the credentials of a request, with a real KDC. Each search runs in a child, because
// it gives up rights for good.
#include <grp.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/unit/security/realm.h"
#include "tests/unit/support/in_child.h"
#include "transport/runtime/proc.h"
#include "transport/security/helper_worker.h"

namespace nfsrdma::gss {
namespace {

using nfsrdma::test::in_child;

// Finds credentials for nfs/localhost and makes the first token.
bool makes_a_token(uint32_t user) {
  auto maker = security::find_credentials({.user = user, .host = "localhost"});
  if (!maker) std::fprintf(stderr, "%s\n", describe(maker.error()).c_str());
  if (!maker) return false;
  const auto step = (*maker)->step({});
  if (!step) std::fprintf(stderr, "%s\n", describe(step.error()).c_str());
  return step && !step->token.empty();
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

void write(const char* path, const std::string& text) {
  std::ofstream(path) << text;
}

// As `unshare --map-root-user`, which containers.md recommends. False: this machine does not permit it.
bool enter_user_namespace() {
  const std::string user = std::to_string(::geteuid()), group = std::to_string(::getegid());
  if (::unshare(CLONE_NEWUSER) != 0) return false;
  write("/proc/self/setgroups", "deny");
  write("/proc/self/gid_map", "0 " + group + " 1");
  write("/proc/self/uid_map", "0 " + user + " 1");
  return ::geteuid() == 0 && ::setgroups(0, nullptr) != 0;
}

class FindCredentials : public Realm {};

TEST_F(FindCredentials, OfTheMachine_AreTheDefaultKeytabs) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  std::string account = host_name();
  account.resize(std::min(account.size(), account.find('.')));
  std::ranges::transform(account, account.begin(), [](unsigned char c) { return std::toupper(c); });
  const std::string keytab = kdc().keytab({account + "$"});
  EXPECT_EQ(in_child([&] {
              ::setenv("KRB5_KTNAME", keytab.c_str(), 1);
              return makes_a_token(0);
            }),
            0);
}

TEST_F(FindCredentials, OfAMachineWithoutAKeytab_SayWhichIsMissing) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  EXPECT_EQ(in_child([] {
              const auto maker = security::find_credentials({.user = 0, .host = "localhost"});
              return !maker && failure_of(maker.error()) == Failure::kNoKeytab &&
                     describe(maker.error()).find("no-keytab") != std::string::npos;
            }),
            0);
}

TEST_F(FindCredentials, OfRootInAUserNamespace_AreThoseOfKrb5ccname) {
  const std::string ccache = alice();
  constexpr int kNotPermitted = 77;
  const int ended = in_child([&] {
    if (!enter_user_namespace()) ::_exit(kNotPermitted);
    // The helper has none of the daemon's files, and so not its Proc.
    Proc::ours();
    ::close_range(3, ~0U, 0);
    ::setenv("KRB5CCNAME", ccache.c_str(), 1);
    return security::become(0).has_value() && !security::become(1) && makes_a_token(0);
  });
  if (ended == kNotPermitted) GTEST_SKIP() << "no user namespaces here";
  EXPECT_EQ(ended, 0);
}

}  // namespace
}  // namespace nfsrdma::gss
