// SPDX-License-Identifier: Apache-2.0
#include "filer/tree/host_listing.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "filer/tree/host_path.h"
#include "filer/tree/host_status.h"

namespace nfsrdma::filer::tree {

namespace {

// 63 bits, because some clients keep cookies in signed integers.
uint64_t cookie_of(const SipHash& hash, const std::string& name) {
  return std::max(hash(name) >> 1, HostListing::kFirstCookie);
}

}  // namespace

Answer<HostListing> HostListing::read(int directory, const SipHash& hash) {
  // The directory is opened through /proc. Opening "." would need search permission, which a readable
  // directory may lack.
  const int fd = open(host_path(directory).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return refuse(status_of(errno));
  DIR* stream = fdopendir(fd);
  if (stream == nullptr) {
    close(fd);
    return refuse(nfs4::NFS4ERR_DELAY);
  }
  HostListing listing;
  errno = 0;
  while (const dirent* entry = readdir(stream)) {
    std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    const uint64_t cookie = cookie_of(hash, name);
    listing.entries_.push_back({cookie, std::move(name)});
    errno = 0;
  }
  const int error = errno;
  closedir(stream);
  if (error != 0) return refuse(status_of(error));
  auto& entries = listing.entries_;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.cookie != b.cookie ? a.cookie < b.cookie : a.name < b.name;
  });
  for (size_t i = 1; i < entries.size(); ++i)
    entries[i].cookie = std::max(entries[i].cookie, entries[i - 1].cookie + 1);
  return listing;
}

const HostListing::Entry* HostListing::next(uint64_t cookie) const {
  const auto at = std::upper_bound(entries_.begin(), entries_.end(), cookie,
                                   [](uint64_t c, const Entry& entry) { return c < entry.cookie; });
  return at == entries_.end() ? nullptr : &*at;
}

}  // namespace nfsrdma::filer::tree
