// SPDX-License-Identifier: Apache-2.0
// Sweeper: refreshes attributes, by a GETATTR or by a READDIR that serves many files of a directory at once
// (sweeps.h). One per mount; any loop.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "client/core/access_service.h"
#include "client/core/attribute_service.h"
#include "client/core/mount_parts.h"
#include "client/core/name_service.h"
#include "client/core/names/listing.h"
#include "client/core/names/sweeps.h"

namespace nfsrdma::client {

class Sweeper {
 public:
  Sweeper(const MountParts& parts, AttributeService& attributes, AccessService& access, NameService& names)
      : options_(parts.options),
        table_(parts.table),
        protocol_(parts.protocol),
        attributes_(attributes),
        access_(access),
        names_(names) {}
  Sweeper(const Sweeper&) = delete;
  Sweeper& operator=(const Sweeper&) = delete;

  // Fetches the attributes unless they are fresh.
  Task<Result<>> revalidate(RequestContext ctx, NodeRef node);
  bool sweeps() const;
  // True: opendir() should also fetch the entries with attributes. The attributes that the last such READDIR
  // fetched were used, and have expired.
  bool entries_are_due(const NodeRef& directory);
  // An application asked for a file of the directory, and a sweep brought its attributes or could have
  // brought them.
  SweepRef note_asked(const NodeRef& directory);
  // Keeps the entries without a Node until they are looked up (WaitingEntry).
  void keep_waiting(Listing& listing);
  // Records the entries of `listing`, which was fetched when its directory was opened. The directory's sweep
  // continues behind them.
  Task<> sweep_at_opening(Listing& listing);
  // For a name that is not cached: sends the sweep's next READDIR, if there is a sweep and it has credit.
  // True: the READDIR was sent and may have brought the name.
  Task<bool> sweep_for_names(RequestContext ctx, NodeRef directory);
  // The waiting entry of that name from a READDIR, if it is still valid.
  Task<std::optional<Entry>> waiting_entry(RequestContext ctx, NodeRef directory, const std::string& name);
  // Prefetches the Nodes of all entries, because they are looked up soon.
  void expect(const Listing& listing);
  // Attributes that were answered without asking the server.
  uint64_t attribute_hits() const { return attribute_hits_.load(std::memory_order_relaxed); }

 private:
  // Records the entries whose files have a Node.
  Task<> record_known(const Listing& listing);
  // The sweep's next READDIR.
  Task<> read_on(RequestContext ctx, NodeRef directory, Sweep& sweep);
  // The node's attributes have expired. True: a READDIR has fetched new ones.
  Task<bool> sweep_for(RequestContext ctx, NodeRef node);

  const ClientOptions& options_;
  CachedNodeTable& table_;
  Protocol& protocol_;
  AttributeService& attributes_;
  AccessService& access_;
  NameService& names_;
  std::atomic<uint64_t> attribute_hits_{0};
};

}  // namespace nfsrdma::client
