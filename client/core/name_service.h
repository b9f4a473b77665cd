// SPDX-License-Identifier: Apache-2.0
// NameService: decides which cached names are valid, and what our own changes do to them (RFC 8881 section
// 10.8). One per mount; any loop.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "client/core/access_service.h"
#include "client/core/attribute_service.h"
#include "client/core/mount_parts.h"
#include "client/core/names/name_decision.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::client {

class NameService {
 public:
  NameService(const MountParts& parts, AttributeService& attributes, AccessService& access)
      : options_(parts.options),
        table_(parts.table),
        protocol_(parts.protocol),
        attributes_(attributes),
        access_(access) {}
  NameService(const NameService&) = delete;
  NameService& operator=(const NameService&) = delete;

  // --- name_requests.cc: asks the server, and records what it answers ---
  Task<Result<Entry>> lookup_on_server(RequestContext ctx, NodeRef directory, std::string name);
  Task<Result<>> remove_on_server(RequestContext ctx, NodeRef directory, std::string name, bool is_directory);
  Task<Result<>> rename_on_server(RequestContext ctx, NodeRef from_directory, std::string from,
                                  NodeRef to_directory, std::string to);
  // A second name `name` of `node` in `directory`.
  Task<Result<Entry>> link_on_server(RequestContext ctx, NodeRef node, NodeRef directory, std::string name);
  // One READDIR from `cookie` into the listing.
  Task<Result<>> read_entries(RequestContext ctx, Listing& listing, uint64_t cookie, bool plus);
  // AccessService::ask() for a directory that will be listed. It shares one request with the first READDIR,
  // if the protocol allows that; Listing::filled says whether the READDIR succeeded.
  Task<Result<uint32_t>> ask_access_and_list(RequestContext ctx, Listing& listing, uint32_t wanted,
                                             bool plus);

  // Records our change to `directory`, and the attributes from the same COMPOUND, if any. The returned belief
  // is for the changed names. It is valid if no other client changed the directory before `change.after`.
  Task<NameBelief> record_own_change(NodeRef directory, DirectoryChange change, uint64_t order);
  // Names with this belief are still valid in the directory.
  bool believed(const NodeRef& directory, const NameBelief& belief) const;
  // The epoch for names from a reply that carried this change attribute before them. The reply's attributes
  // are already recorded. 0: the names are not valid.
  static uint64_t names_epoch(const NodeRef& directory, uint64_t change);
  // How long the kernel may cache a name with this belief.
  Duration entry_ttl(const NodeRef& directory, const NameBelief& belief) const;
  // `found` leads to a file, and the file's delegation guarantees the name.
  bool name_is_promised(const NameCache::Found& found) const;
  // Records the result of a LOOKUP and returns it; `node` null: no such name.
  Entry learnt_entry(const NodeRef& directory, const std::string& name, const NodeRef& node,
                     const NameBelief& belief);
  // The cached names of a RENAME before it is sent.
  struct Moving {
    NameBelief belief;  // of `moved`
    NodeRef moved, replaced;
  };
  Moving moving(const NodeRef& from_directory, const std::string& from, const NodeRef& to_directory,
                const std::string& to);
  // Expires the attributes of both files: the RENAME was executed, or may have been.
  void expire_moved(const Moving& m);
  // The RENAME succeeded: stores the resulting names.
  void names_moved(const Moving& m, const NodeRef& from_directory, const std::string& from,
                   const NameBelief& from_belief, const NodeRef& to_directory, const std::string& to,
                   const NameBelief& to_belief);
  // The state of the name on the server is not known: invalidates the name and the directory's attributes.
  void name_in_doubt(const NodeRef& directory, const std::string& name);
  // A name that a request is about to create. If the result of the request remains unknown, the destructor
  // invalidates the name.
  class NameToBe {
   public:
    NameToBe(NameService& service, NodeRef directory, std::string name)
        : service_(service), directory_(std::move(directory)), name_(std::move(name)) {}
    NameToBe(const NameToBe&) = delete;
    NameToBe& operator=(const NameToBe&) = delete;
    ~NameToBe() {
      if (!settled_) in_doubt();
    }
    void made(Node& child, const NameBelief& belief) {
      service_.table_.names().put(*directory_.get(), name_, &child, belief);
      settled_ = true;
    }
    void refused(const Error& error, bool maybe_executed) { settled_ = !leaves_doubt(error, maybe_executed); }
    void in_doubt() {
      service_.name_in_doubt(directory_, name_);
      settled_ = true;
    }

   private:
    NameService& service_;
    const NodeRef directory_;
    const std::string name_;
    bool settled_ = false;
  };
  // A LOOKUP was answered from the cache, or by the server.
  void count_lookup(bool from_cache) {
    (from_cache ? hits_ : misses_).fetch_add(1, std::memory_order_relaxed);
  }
  uint64_t hits() const { return hits_.load(std::memory_order_relaxed); }
  uint64_t misses() const { return misses_.load(std::memory_order_relaxed); }
  // The directory that the name leads to, if the cached name is valid; else null.
  NodeRef directory_under(const NodeRef& directory, const std::string& name);
  // The directory was removed or replaced: sets its link count to 0 in the cached attributes, because the
  // server cannot return them any more. `directory` may be null.
  static void note_removed(const NodeRef& directory);

 private:
  // Records the directory's attributes from a list(), and takes its entries into the listing.
  Task<Result<>> take_list(Listing& listing, ListOutcome answer, uint64_t cookie, TimePoint since);
  // See name_decision.h.
  DirectoryKnowledge directory_knowledge(const CachedNode& d, uint64_t epoch, TimePoint now) const
      NFSRDMA_REQUIRES(d.mutex);

  const ClientOptions& options_;
  CachedNodeTable& table_;
  Protocol& protocol_;
  AttributeService& attributes_;
  AccessService& access_;
  std::atomic<uint64_t> hits_{0}, misses_{0};
};

}  // namespace nfsrdma::client
