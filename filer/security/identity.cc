// SPDX-License-Identifier: Apache-2.0
#include "filer/security/identity.h"

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/runtime/log.h"

namespace nfsrdma::filer::security {

using tree::Principal;

namespace {

constexpr size_t kMaxPasswdBytes = 1u << 20;  // of one entry of the user database
constexpr int kMaxGroups = 1 << 16;           // NGROUPS_MAX of Linux

constexpr std::chrono::seconds kSlow{1};  // a lookup, during which nobody is served

Error no_answer(const std::string& user, int error) {
  return {.layer = Layer::kSystem,
          .recovery = Recovery::kRetry,
          .errnum = error,
          .op = "look up",
          .cause = "the user " + user + " cannot be looked up: " + std::strerror(error)};
}

Result<std::vector<uint32_t>> groups_of(const std::string& user, gid_t gid) {
  int count = 64;
  std::vector<gid_t> groups(static_cast<size_t>(count));
  while (getgrouplist(user.c_str(), gid, groups.data(), &count) < 0) {
    const int more = std::max(count, static_cast<int>(groups.size()) * 2);
    if (more > kMaxGroups) return fail(no_answer(user, EOVERFLOW));
    groups.resize(static_cast<size_t>(more));
    count = more;
  }
  return std::vector<uint32_t>(groups.begin(), groups.begin() + count);
}

}  // namespace

std::optional<Principal> principal_of(const rpc::opaque_auth& cred) {
  Principal who;
  who.flavor = cred.flavor;
  if (cred.flavor == rpc::AUTH_NONE) return who;
  if (cred.flavor != rpc::AUTH_SYS) return std::nullopt;
  const Result<rpc::authsys_parms> parms = xdr::decode<rpc::authsys_parms>(cred.body, "AUTH_SYS");
  if (!parms) return std::nullopt;
  who.uid = parms->uid;
  who.gid = parms->gid;
  who.groups = parms->gids;
  add_squashed(who);
  return who;
}

void add_squashed(Principal& who) {
  if (who.uid == 0 || !who.in_group(0)) return;
  Principal squashed = who;
  if (squashed.gid == 0) squashed.gid = Principal::kAnonymous;
  std::erase(squashed.groups, 0u);
  who.squashed = std::make_shared<const Principal>(std::move(squashed));
}

Principal without_root(const Principal& who) {
  if (who.squashed) {
    Principal squashed = *who.squashed;
    squashed.security = who.security;
    return squashed;
  }
  Principal same = who;
  if (same.uid == 0) {
    same.uid = same.gid = Principal::kAnonymous;
    same.groups.clear();
  }
  return same;
}

Result<std::optional<Account>> account_of(const std::string& user) {
  std::vector<char> text(1024);
  passwd entry{};
  passwd* found = nullptr;
  int error = 0;
  while ((error = getpwnam_r(user.c_str(), &entry, text.data(), text.size(), &found)) == ERANGE &&
         text.size() < kMaxPasswdBytes) {
    text.resize(text.size() * 2);
  }
  // getpwnam(3): "0 or ENOENT or ESRCH ...: The given name or uid was not found."
  if (error != 0 && error != ENOENT && error != ESRCH) return fail(no_answer(user, error));
  if (found == nullptr) return std::optional<Account>();
  Result<std::vector<uint32_t>> groups = groups_of(user, entry.pw_gid);
  if (!groups) return fail(std::move(groups).error());
  return Account{entry.pw_uid, entry.pw_gid, *std::move(groups)};
}

Result<Identities::Known> Identities::of(const gss::Name& name, TimePoint now) {
  const auto at = known_.find(name.text());
  if (at != known_.end() && now - at->second.looked_up < kKept) return at->second;
  Result<Principal> who = look_up(name);
  if (!who) return fail(std::move(who).error());
  if (known_.size() >= kMostKept) known_.clear();
  return known_[name.text()] = {*std::move(who), now};
}

Result<Principal> Identities::look_up(const gss::Name& name) const {
  Principal who;
  who.flavor = rpc::RPCSEC_GSS;
  who.name = name.text();
  const Result<std::string> user = name.local_user();
  std::optional<Account> account;
  if (user) {
    const TimePoint began = Clock::now();
    Result<std::optional<Account>> found = lookup_(*user);
    if (const Duration took = Clock::now() - began; took > kSlow)
      log::warn("filer: looking up the user {} took {} ms; everybody waits meanwhile", *user,
                std::chrono::duration_cast<std::chrono::milliseconds>(took).count());
    if (!found) return fail(std::move(found).error());
    account = *std::move(found);
  }
  if (!account) {
    log::info("filer: {} is nobody here: {}", who.name,
              user ? "there is no user " + *user : describe(user.error()));
    return who;
  }
  who.uid = account->uid;
  who.gid = account->gid;
  who.groups = std::move(account->groups);
  add_squashed(who);
  return who;
}

}  // namespace nfsrdma::filer::security
