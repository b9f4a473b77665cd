// SPDX-License-Identifier: Apache-2.0
// Nfs3Protocol: Protocol for NFSv3. It asks the server what the services of client/core want to know, and
// converts the replies. The methods are in protocol_*.cc, by subject.
//
// A reply may bring attributes, and the reply to a change also some from before the change (weak cache
// consistency, RFC 1813 section 2.6). They replace NFSv4's change_info4, but the server does not guarantee
// that they are atomic.
//
// Owned by the Nfs3Filesystem. Any loop.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/core/attributes/exports.h"
#include "client/core/nodes/open_files.h"
#include "client/core/protocol.h"
#include "client/nfs3/node.h"
#include "client/nfs3/procedures.h"

namespace nfsrdma::client::nfs3 {

// The caller of a change, with the flag that says that nobody waits for it any more.
inline Procedures::Caller caller_of(const RequestContext& ctx) {
  return {ctx.credential, ctx.cancellation ? &ctx.cancellation->flag() : nullptr};
}

class Nfs3Protocol final : public Protocol {
 public:
  Nfs3Protocol(Nfs3NodeTable& nodes, Procedures& server, OpenFiles<Nfs3Node, Nfs3FileState>& files)
      : nodes_(nodes), server_(server), files_(files) {}

  FileLimits limits_of(const NodeRef&) const override { return limits_; }
  const FileLimits& limits() const { return limits_; }
  // Call it before the first request of an application.
  void set_limits(const FileLimits& limits) { limits_ = limits; }
  uint64_t epoch() const override { return epoch_.load(std::memory_order_acquire); }
  // Call it for a new connection: the server may have restarted in between.
  void begin_epoch() { epoch_.fetch_add(1, std::memory_order_acq_rel); }
  std::vector<NodeRef> files_in_use() const override { return files_.all(); }

  // --- protocol_attributes.cc ---
  // As stored in the attribute cache: with an st_ino that is unique in this mount.
  Attributes as_cached(const nfs3::FileAttributes& from);
  uint32_t export_of(const nfs3::FileAttributes& from);
  // Attributes of a reply to a request that began at `order`, for AttributeService::record().
  AnsweredAttributes answered(const nfs3::PostAttributes& from, uint64_t order, Cause cause = Cause::kAsked);
  // The same after our change of a file, for Cause::kOwn. If wcc.before is the cached change attribute,
  // nobody else has changed the file.
  AnsweredAttributes answered_own(const nfs3::Wcc& wcc, uint64_t order);
  // Our change of a directory.
  DirectoryChange change_of(const nfs3::Wcc& wcc);
  Task<Result<AnsweredAttributes>> get_attributes(RequestContext ctx, NodeRef node) override;
  Task<Result<AccessOutcome>> get_access(RequestContext ctx, NodeRef node) override;

  // --- protocol_names.cc ---
  Task<Result<LookupOutcome>> lookup(RequestContext ctx, NodeRef directory, std::string name) override;
  Task<RemoveOutcome> remove(RequestContext ctx, NodeRef directory, std::string name, bool is_directory,
                             NodeRef victim) override;
  Task<RenameOutcome> rename(RequestContext ctx, NodeRef from_directory, std::string from,
                             NodeRef to_directory, std::string to, NodeRef victim) override;
  Task<LinkOutcome> link(RequestContext ctx, NodeRef node, NodeRef directory, std::string name) override;
  // The Node of a reply's file handle.
  NodeRef object(const nfs3::ObjectAnswer& answer);

  // --- protocol_io.cc ---
  Result<> usable(const CachedOpen&, const IoAccount&) const override { return {}; }
  Task<Result<ReadPiece>> read_piece(OpenFileRef file, const IoAccount& account, uint64_t offset,
                                     Slice destination, ReadFor purpose) override;
  Task<Result<WriteOutcome>> write(NodeRef node, CachedFileRef file, const IoAccount& account,
                                   uint64_t offset, Slice data, nfs4::stable_how4 stable) override;
  Task<Result<CommitOutcome>> commit(NodeRef node, rpc::CredentialPtr credential, uint64_t offset,
                                     uint64_t end) override;
  Task<Result<ListOutcome>> list(RequestContext ctx, const Listing& listing, uint64_t cookie,
                                 bool plus) override;

 private:
  // The change attribute that the directory's cached names belong to; 0: none.
  static uint64_t names_change(const NodeRef& directory);
  // LookupOutcome::names_change. `before`: names_change() before the request.
  static std::optional<uint64_t> names_change(uint64_t before, const nfs3::PostAttributes& after);

  Nfs3NodeTable& nodes_;
  Procedures& server_;
  OpenFiles<Nfs3Node, Nfs3FileState>& files_;
  Exports exports_;
  FileLimits limits_;               // fixed after mount()
  std::atomic<uint64_t> epoch_{1};  // counts connections
};

}  // namespace nfsrdma::client::nfs3
