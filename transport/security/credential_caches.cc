// SPDX-License-Identifier: Apache-2.0
#include "transport/security/credential_caches.h"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

namespace nfsrdma::security {
namespace {

struct Found {
  timespec changed;
  std::string path;
};

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

bool own(const std::string& path, uint32_t user, mode_t type, struct stat& st) {
  return ::lstat(path.c_str(), &st) == 0 && (st.st_mode & S_IFMT) == type && st.st_uid == user;
}

// The user's files there whose names begin so, the newest first.
std::vector<std::string> files(const std::string& directory, std::string_view prefix, uint32_t user) {
  std::vector<Found> found;
  const std::unique_ptr<DIR, CloseDirectory> open(::opendir(directory.c_str()));
  while (const dirent* entry = open ? ::readdir(open.get()) : nullptr) {
    if (!std::string_view(entry->d_name).starts_with(prefix)) continue;
    struct stat st {};
    std::string path = directory + "/" + entry->d_name;
    if (own(path, user, S_IFREG, st)) found.push_back({st.st_mtim, std::move(path)});
  }
  std::ranges::sort(found, [](const Found& a, const Found& b) {
    return std::pair(a.changed.tv_sec, a.changed.tv_nsec) > std::pair(b.changed.tv_sec, b.changed.tv_nsec);
  });
  std::vector<std::string> paths;
  for (Found& one : found) paths.push_back(std::move(one.path));
  return paths;
}

}  // namespace

std::vector<std::string> credential_caches(uint32_t user, bool own_mount, const CachePlaces& places) {
  std::vector<std::string> names;
  if (own_mount) names.emplace_back();
  struct stat st {};
  const std::string usual = fmt::format("{}/krb5cc_{}", places.temporary, user);
  if (own(usual, user, S_IFREG, st)) names.push_back("FILE:" + usual);
  for (const std::string& path : files(places.temporary, fmt::format("krb5cc_{}_", user), user))
    names.push_back("FILE:" + path);
  const std::string run = fmt::format("{}/{}", places.run, user);
  if (own(run + "/krb5cc", user, S_IFDIR, st)) names.push_back("DIR:" + run + "/krb5cc");
  for (const std::string& path : files(run, "krb5cc", user)) names.push_back("FILE:" + path);
  names.push_back(fmt::format("KEYRING:persistent:{}", user));
  names.emplace_back("KCM:");
  return names;
}

}  // namespace nfsrdma::security
