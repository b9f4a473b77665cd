// SPDX-License-Identifier: Apache-2.0
// ReplyAttributes: adds GETATTR and ACCESS to the COMPOUNDs of other operations, and converts the attributes
// in their replies (RFC 8881 sections 5, 10.3.1).
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
#include "transport/runtime/value_task.h"

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
  // complete(), answered(), answered_own(), object() and change_of() convert fattr4. They wait only if the
  // name of an owner must be looked up, or object() must learn the limits of a file system.
  //
  // Returns `whole` after put(whole, attributes).
  template <class Whole, class Put>
  ValueTask<Whole> complete(Whole whole, Put put, const nfs4::fattr4& from, uint32_t export_index) {
    const auto uid = ids_.known(IdMap::Kind::kUser, from.owner);
    const auto gid = ids_.known(IdMap::Kind::kGroup, from.owner_group);
    if (!uid || !gid) return look_up(std::move(whole), put, from, export_index);
    put(whole, to_attributes(from, export_index, *uid, *gid));
    return whole;
  }
  // For AttributeService::record().
  ValueTask<AnsweredAttributes> answered(const NodeRef& node, const nfs4::fattr4& from, uint64_t order,
                                         Cause cause = Cause::kAsked, std::optional<uint64_t> before = {});
  // The attributes after an operation of ours that began at `order`; nothing in them if the GETATTR failed.
  // `asked` and `before`: of ask_change_before() and take_change_before().
  ValueTask<AnsweredAttributes> answered_own(const NodeRef& node, const Result<nfs4::GETATTR4res>& after,
                                             uint64_t order, bool asked, std::optional<uint64_t> before);
  // Before an operation of ours: requests the change attribute, unless a delegation guarantees that nobody
  // else changes the file (AttributeCache::promise()). Sets `asked`, which take_change_before() needs. If the
  // GETATTR fails, so does the COMPOUND.
  void ask_change_before(CompoundBuilder& b, const NodeRef& node, bool& asked) const;
  // The Cause for an operation of ours that began at `order`. If the change attribute was not requested, it
  // is kOwn only if a delegation's guarantee covers the whole operation; else another client may have changed
  // the file, too.
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
  ValueTask<Object> object(const nfs4::nfs_fh4& fh, const nfs4::fattr4& from, uint64_t order,
                           Cause cause = Cause::kAsked);
  // After an operation that created the current filehandle's object: requests the directory's attributes, and
  // ACCESS of the object. ACCESS comes last, so its error does no harm. It is left out if the session allows
  // too few operations.
  void ask_of_made(CompoundBuilder& b, const nfs4::nfs_fh4& directory) const;
  static Result<nfs4::GETATTR4res> take_directory_of_made(CompoundReply& reply);
  // change_info4 and the attributes after it (an error: none).
  ValueTask<DirectoryChange> change_of(const NodeRef& directory, const nfs4::change_info4& info,
                                       const Result<nfs4::GETATTR4res>& after);

 private:
  template <class Whole, class Put>
  Task<Whole> look_up(Whole whole, Put put, nfs4::fattr4 from, uint32_t export_index) {
    const uint32_t uid = co_await ids_.resolve(IdMap::Kind::kUser, from.owner);
    const uint32_t gid = co_await ids_.resolve(IdMap::Kind::kGroup, from.owner_group);
    put(whole, to_attributes(from, export_index, uid, gid));
    co_return whole;
  }
  Task<Object> elsewhere(ValueTask<Object> here);
  // AttributeService::promised().
  bool promised(const CachedNode& n) const NFSRDMA_REQUIRES(n.mutex);

  NodeTable& nodes_;
  IdMap& ids_;
  Exports& exports_;
  Session& session_;
  ServerLimits& limits_;
};

}  // namespace nfsrdma::client::nfs4
