// SPDX-License-Identifier: Apache-2.0
// ReplyAttributes: the attributes that requests ask for besides their operation, and that replies bring: how
// a COMPOUND asks for them, and how they are converted (RFC 8881 sections 5, 10.3.1).
//
// Owned by the Nfs4Filesystem. Any loop.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "client/core/answers.h"
#include "client/core/attributes/exports.h"
#include "client/nfs4/attributes.h"
#include "client/nfs4/id_map.h"
#include "client/nfs4/ops/server_limits.h"
#include "client/nfs4/protocol_types.h"
#include "client/nfs4/session/session.h"
#include "client/nfs4/state/node.h"

namespace nfsrdma::client::nfs4 {

class ReplyAttributes {
 public:
  // The operations of the longest COMPOUND with ask_of_made(), SEQUENCE included, and one in reserve.
  static constexpr uint32_t kOperationsWithAccess = 11;

  ReplyAttributes(NodeTable& nodes, IdMap& ids, Exports& exports, Session& session, ServerLimits& limits)
      : nodes_(nodes), ids_(ids), exports_(exports), session_(session), limits_(limits) {}
  ReplyAttributes(const ReplyAttributes&) = delete;
  ReplyAttributes& operator=(const ReplyAttributes&) = delete;

  // Takes PUTFH's result. Fails with the reply's error, or with PUTFH's.
  static Result<> take_handle(Result<CompoundReply>& reply);
  // Converts fattr4 and maps the owners.
  Task<Attributes> as_cached(nfs4::fattr4 from, uint32_t export_index);
  // The same at once. Nothing: an owner must be looked up.
  std::optional<Attributes> as_known(const nfs4::fattr4& from, uint32_t export_index);
  // For AttributeService::record().
  Task<AnsweredAttributes> answered(NodeRef node, nfs4::fattr4 from, uint64_t order,
                                    Cause cause = Cause::kAsked, std::optional<uint64_t> before = {});
  // The attributes after an operation of ours that began at `order`; nothing in them if the GETATTR failed.
  // `asked` and `before`: of ask_change_before() and take_change_before().
  Task<AnsweredAttributes> answered_own(NodeRef node, Result<nfs4::GETATTR4res> after, uint64_t order,
                                        bool asked, std::optional<uint64_t> before);
  // Before an operation of ours: requests the change attribute, unless a promise says that nobody else
  // changes the file. Sets `asked`, which take_change_before() needs. If the GETATTR fails, so does the
  // COMPOUND.
  void ask_change_before(CompoundBuilder& b, const NodeRef& node, bool& asked) const;
  // The Cause for an operation of ours that began at `order`. If the change attribute was not requested, it
  // is kOwn only if a promise covers the whole operation; else another client may have changed the file, too.
  Cause cause_of_own(const NodeRef& node, uint64_t order, bool asked) const;
  static Result<std::optional<uint64_t>> take_change_before(CompoundReply& reply, bool asked);
  // For a COMPOUND of PUTFH, ask_change_before() and one operation: the operation's result, or the first
  // error.
  template <class Res>
  static Result<Res> take_own(Result<CompoundReply>& reply, bool asked, std::optional<uint64_t>& before) {
    if (!reply) return fail(std::move(reply.error()));
    NFSRDMA_TRY(reply->expect<nfs4::PUTFH4res>());
    auto change = take_change_before(*reply, asked);
    if (!change) return fail(std::move(change.error()));
    before = *change;
    return reply->take<Res>();
  }
  // An object of a reply: its Node, whose file system's limits are known, and its attributes.
  struct Object {
    NodeRef node;
    AnsweredAttributes attributes;
  };
  Task<Object> object(nfs4::nfs_fh4 fh, nfs4::fattr4 from, uint64_t order, Cause cause = Cause::kAsked);
  // After an operation that created the current filehandle's object: requests the directory's attributes, and
  // ACCESS of the object. ACCESS comes last, so its error does no harm. It is left out if the session allows
  // too few operations.
  void ask_of_made(CompoundBuilder& b, const nfs4::nfs_fh4& directory) const;
  static Result<nfs4::GETATTR4res> take_directory_of_made(CompoundReply& reply);
  // change_info4 and the attributes after it (an error: none).
  Task<DirectoryChange> change_of(NodeRef directory, nfs4::change_info4 info,
                                  Result<nfs4::GETATTR4res> after);

 private:
  // AttributeService::promised().
  bool promised(const CachedNode& n) const NFSRDMA_REQUIRES(n.mutex);

  NodeTable& nodes_;
  IdMap& ids_;
  Exports& exports_;
  Session& session_;
  ServerLimits& limits_;
};

}  // namespace nfsrdma::client::nfs4
