// SPDX-License-Identifier: Apache-2.0
// Nfs4Protocol: Protocol for NFSv4.1. It asks the server what the services of client/core want to know. Each
// question is one COMPOUND where the protocol allows it. The methods are in protocol_*.cc, by subject.
//
// Owned by the Nfs4Filesystem. Any loop.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/core/mount_parts.h"
#include "client/core/names/listed_entry.h"
#include "client/core/protocol.h"
#include "client/nfs4/ops/delegation_service.h"
#include "client/nfs4/ops/reply_attributes.h"
#include "client/nfs4/ops/server_limits.h"
#include "client/nfs4/protocol_types.h"
#include "client/nfs4/session/session.h"
#include "client/nfs4/state/state_manager.h"

namespace nfsrdma::client::nfs4 {

class Nfs4Protocol final : public Protocol {
 public:
  Nfs4Protocol(const MountParts& parts, NodeTable& nodes, Exports& exports, Session& session,
               StateManager& states, DelegationService& delegating, ServerLimits& limits,
               ReplyAttributes& replies)
      : buffers_(parts.buffers),
        nodes_(nodes),
        exports_(exports),
        session_(session),
        states_(states),
        delegating_(delegating),
        limits_(limits),
        replies_(replies) {}

  FileLimits limits_of(const NodeRef& node) const override { return limits_.file_limits(node); }
  bool promises_hold() const override { return session_.lease().holds(); }
  uint64_t epoch() const override { return session_.epoch(); }
  std::vector<NodeRef> files_in_use() const override { return states_.registry().files(); }
  uint64_t registrable_bytes() const override { return session_.connections().registrable_bytes(); }

  // --- protocol_attributes.cc ---
  Task<Result<AnsweredAttributes>> get_attributes(RequestContext ctx, NodeRef node) override;
  Task<Result<AccessOutcome>> get_access(RequestContext ctx, NodeRef node) override;
  Task<std::optional<AclOutcome>> get_acl(RequestContext ctx, NodeRef directory) override;

  // --- protocol_names.cc, protocol_remove.cc ---
  Task<Result<LookupOutcome>> lookup(RequestContext ctx, NodeRef directory, std::string name) override;
  Task<LinkOutcome> link(RequestContext ctx, NodeRef node, NodeRef directory, std::string name) override;
  Task<RemoveOutcome> remove(RequestContext ctx, NodeRef directory, std::string name, bool is_directory,
                             NodeRef victim) override;
  Task<RenameOutcome> rename(RequestContext ctx, NodeRef from_directory, std::string from,
                             NodeRef to_directory, std::string to, NodeRef victim) override;

  // --- protocol_io.cc ---
  Result<> usable(const CachedOpen& open, const IoAccount& account) const override;
  Task<Result<ReadPiece>> read_piece(OpenFileRef file, const IoAccount& account, uint64_t offset,
                                     Slice destination, ReadFor purpose) override;
  // Decodes READ's result, and after it the change attribute if the data is to be cached.
  static Result<ReadPiece> take_read(CompoundReply& reply, const Slice& destination, bool keeping);
  bool has_change_attributes() const override { return true; }
  bool may_read_ahead(unsigned under_way) const override;
  unsigned most_ahead_on(unsigned loop) const override;
  Task<Result<WriteOutcome>> write(NodeRef node, CachedFileRef file, const IoAccount& account,
                                   uint64_t offset, Slice data, nfs4::stable_how4 stable) override;
  Task<Result<CommitOutcome>> commit(NodeRef node, rpc::CredentialPtr credential, uint64_t offset,
                                     uint64_t end) override;

  // --- protocol_directory.cc ---
  Task<Result<ListOutcome>> list(RequestContext ctx, const Listing& listing, uint64_t cookie,
                                 bool plus) override;
  bool lists_with_access() const override { return true; }
  Task<Result<ListOutcome>> list_with_access(RequestContext ctx, const Listing& listing, bool plus,
                                             bool with_acl) override;

 private:
  // The reply to GETATTR of kDirectoryAcl. Nothing: the server does not return the ACL.
  static std::optional<AclOutcome> take_acl(CompoundReply& reply);

  // The results of LINK and RENAME, and of the operations before them.
  static Result<nfs4::LINK4res> take_link(Result<CompoundReply>& reply, bool asked,
                                          std::optional<uint64_t>& before);
  static Result<nfs4::RENAME4res> take_rename(Result<CompoundReply>& reply);
  // Runs a request that removes `victim`'s name; `operations` is the number of its operations. If nobody here
  // has the file open, it must not stay open on the server (under a delegation, or because its CLOSE is
  // delayed): after the removal the server may reject its handle. So DELEGRETURN and CLOSE come first, in the
  // same COMPOUND if possible.
  Task<Result<CompoundReply>> run_without(NodeRef victim, Request request, uint32_t operations);
  nfs4::READDIR4args readdir_args(const Listing& listing, uint64_t cookie, bool plus) const;
  // The directory's GETATTR that precedes READDIR, of a request that began at `order`.
  Task<Result<ListOutcome>> take_listed(CompoundReply& reply, NodeRef directory, uint64_t order);
  // READDIR's entries.
  Task<> take_entries(CompoundReply& reply, NodeRef directory, bool plus, ListOutcome& answer);
  // Takes the name out of `from`.
  ValueTask<ListedEntry> listed_entry(const NodeRef& directory, nfs4::entry4& from, bool plus);

  BufferPool& buffers_;
  NodeTable& nodes_;
  Exports& exports_;
  Session& session_;
  StateManager& states_;
  DelegationService& delegating_;
  ServerLimits& limits_;
  ReplyAttributes& replies_;
};

}  // namespace nfsrdma::client::nfs4
