// SPDX-License-Identifier: Apache-2.0
// DirectoryService: open directories and their listings (RFC 8881 section 18.23). One per mount; any loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "client/core/access_service.h"
#include "client/core/attribute_service.h"
#include "client/core/mount_parts.h"
#include "client/core/name_service.h"
#include "client/core/names/listing.h"
#include "client/core/sweeper.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::client {

class DirectoryService {
 public:
  DirectoryService(const MountParts& parts, AttributeService& attributes, AccessService& access,
                   NameService& names, Sweeper& sweeper)
      : options_(parts.options),
        table_(parts.table),
        kernel_(parts.kernel),
        protocol_(parts.protocol),
        attributes_(attributes),
        access_(access),
        names_(names),
        sweeper_(sweeper) {}
  DirectoryService(const DirectoryService&) = delete;
  DirectoryService& operator=(const DirectoryService&) = delete;

  Task<Result<OpenDirectoryReply>> opendir(RequestContext ctx, NodeRef node);
  Task<Result<DirectoryPage>> readdir(RequestContext ctx, OpenDirectoryRef directory, uint64_t offset,
                                      size_t bytes, bool plus);
  Task<> releasedir(OpenDirectoryRef directory);
  // Linux checks the age of its cached listing when a directory is opened, but not at rewinddir(3). So for
  // directories that stay open, this invalidates listings that have expired.
  void take_back_old_listings();

 private:
  void cookies_go_in_a_circle(const NodeRef& node) const;
  // The entries that follow `cookie`.
  Task<Result<>> fill(RequestContext ctx, Listing& listing, uint64_t cookie, bool plus);
  void note_listing_begun(const Listing& listing);
  // As fill(), for a server that does not know the cookie any more. `first`: the cookie to search from.
  Task<Result<>> find_place(RequestContext ctx, Listing& listing, uint64_t cookie, bool plus, uint64_t first);
  // Nothing if we removed the name after the READDIR.
  Task<std::optional<DirectoryEntry>> directory_entry(Listing& listing, size_t index, bool plus);

  const ClientOptions& options_;
  CachedNodeTable& table_;
  const KernelView& kernel_;
  Protocol& protocol_;
  AttributeService& attributes_;
  AccessService& access_;
  NameService& names_;
  Sweeper& sweeper_;
  Mutex listings_mutex_{LockRank::kTable};
  // Open directories; closed ones stay for half a second.
  std::vector<std::weak_ptr<Listing>> listings_ NFSRDMA_GUARDED_BY(listings_mutex_);
};

}  // namespace nfsrdma::client
