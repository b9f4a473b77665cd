// SPDX-License-Identifier: Apache-2.0
// AttributeService: records attributes from replies in the Nodes, gives them to the kernel, and decides how
// long they are valid (RFC 8881 section 10.4; RFC 1813 section 4.8). One per mount; any loop.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "client/core/attributes/attribute_decision.h"
#include "client/core/mount_parts.h"
#include "client/core/names/listed_entry.h"
#include "client/core/names/name_cache.h"
#include "transport/runtime/mutex.h"
#include "transport/runtime/value_task.h"

namespace nfsrdma::client {

class AttributeService {
 public:
  explicit AttributeService(const MountParts& parts)
      : options_(parts.options),
        machine_(parts.machine),
        table_(parts.table),
        kernel_(parts.kernel),
        protocol_(parts.protocol) {}
  AttributeService(const AttributeService&) = delete;
  AttributeService& operator=(const AttributeService&) = delete;

  // The machine was suspended. Clock and the kernel's timeouts stood still meanwhile, so everything that is
  // valid only because of a timeout expires. Any thread.
  void doubt_ages();
  // True: the file is under a delegation (AttributeCache::promise()), and our lease holds.
  bool promised(const CachedNode& n) const NFSRDMA_REQUIRES(n.mutex) {
    return n.attributes.promised() && protocol_.promises_hold();
  }
  // True: a delegation guarantees that the cached attributes are the server's current ones. (Attributes that
  // are only fresh by the clock may be old.)
  bool vouched_for(const CachedNode& n) const NFSRDMA_REQUIRES(n.mutex) {
    return n.attributes.covered() && protocol_.promises_hold();
  }
  // Records `attributes` of `node`. Returns whether the kernel's pages are still valid (kOpened). `before`:
  // the change attribute before our operation (kOwn), from the same COMPOUND; absent: nobody else can have
  // changed the file, or the server did not return it. `then`: when the request began, for a reply that was
  // buffered. Waits only if the kernel's pages must be dropped before an open is answered.
  ValueTask<bool> record(const NodeRef& node, const Attributes& attributes, uint64_t order, Cause cause,
                         std::optional<uint64_t> before = {}, TimePoint then = Clock::now());
  // As above, for what a Protocol returned. If the answer has no attributes, the cached ones expire.
  ValueTask<bool> record(const NodeRef& node, const AnsweredAttributes& answered);
  // As above; if the answer has no attributes, then also fetches them.
  Task<Result<bool>> record_or_fetch(RequestContext ctx, NodeRef node, AnsweredAttributes answered);
  // Asks the server for the attributes, and records them.
  Task<Result<>> fetch(RequestContext ctx, NodeRef node, Cause cause = Cause::kAsked);
  // Records the attributes of a file from a READDIR.
  ValueTask<bool> record_listed(const NodeRef& node, const ListedEntry& entry, const NameBelief& belief);
  // True: all our operations are answered, and another client's change was between them. Then the caller
  // spawns KernelView::drop_counted().
  static bool others_changed_too(CachedFile& file) NFSRDMA_REQUIRES(file.cached.mutex);
  Entry cached_entry(const NodeRef& node, Duration entry_ttl) const;
  // The attributes for a reply to the kernel. Records that the kernel knows them.
  AttributesReply attributes_reply(const NodeRef& node) const;
  static Attributes known_attributes(const NodeRef& node);
  // OpenReply::size_is_news.
  bool size_is_news(const CachedNode& n) const NFSRDMA_REQUIRES(n.mutex);
  // After ESTALE, forgets the names that led to the file, so that they are looked up again: the kernel
  // repeats the path walk when it gets ESTALE. Returns `error`.
  Error gone(const NodeRef& node, Error error);
  AttributeCache::Limits limits(bool directory) const;
  bool fresh(const CachedNode& node) const;
  // AttributeCache::doubtful(), for regular files only.
  static bool doubtful(const NodeRef& node);
  // Fetches the attributes again while they are doubtful, a limited number of times.
  Task<Result<>> resolve_doubt(RequestContext ctx, NodeRef node);
  // attributes_reply() after resolve_doubt().
  Task<Result<AttributesReply>> sure_attributes(RequestContext ctx, NodeRef node);
  // Whether the mode lets every user of this mount search the directory.
  bool all_may_search(const Attributes& directory) const;
  // Expires the attributes; `node` may be null.
  void expire(const NodeRef& node);

  // How often the server was asked for attributes.
  uint64_t misses() const { return misses_.load(std::memory_order_relaxed); }

 private:
  Task<bool> dropped_before(NodeRef node, bool good);
  // record() in three steps, see attribute_decision.h. `file` is null unless the file is open.
  // `cached_change`: the change attribute that was cached before.
  KnownContents known_contents(const CachedNode& n, const CachedFile* file) const NFSRDMA_REQUIRES(n.mutex);
  ArrivedAttributes arrived_attributes(const CachedNode& n, const Attributes& attributes, Cause cause,
                                       std::optional<uint64_t> before) const NFSRDMA_REQUIRES(n.mutex);
  void carry_out(const Decision& d, CachedNode& n, CachedFile* file, uint64_t cached_change, TimePoint then)
      NFSRDMA_REQUIRES(n.mutex);
  // Another client changed the file: begins to drop the kernel's pages and attributes. The caller runs
  // drop_counted(), as above. `file` is null unless the file is open.
  static void note_drop(CachedNode& n, CachedFile* file) NFSRDMA_REQUIRES(n.mutex);

  const ClientOptions& options_;
  const rpc::CredentialPtr& machine_;
  CachedNodeTable& table_;
  const KernelView& kernel_;
  Protocol& protocol_;
  std::atomic<uint64_t> misses_{0};
};

}  // namespace nfsrdma::client
