// SPDX-License-Identifier: Apache-2.0
// ReplyRecorder: records what the replies to Nfs4Filesystem's own requests bring (OPEN, CREATE, SETATTR,
// READLINK, and the walk to the export). Answers to a Protocol's questions are recorded by the service that
// asked.
//
// Owned by the Nfs4Filesystem. Any loop.
#pragma once

#include <cstdint>
#include <optional>

#include "client/core/access_service.h"
#include "client/core/attribute_service.h"
#include "client/core/name_service.h"
#include "client/nfs4/ops/reply_attributes.h"

namespace nfsrdma::client::nfs4 {

class ReplyRecorder {
 public:
  ReplyRecorder(ReplyAttributes& replies, AttributeService& attributes, AccessService& access,
                NameService& names)
      : replies_(replies), attributes_(attributes), access_(access), names_(names) {}
  ReplyRecorder(const ReplyRecorder&) = delete;
  ReplyRecorder& operator=(const ReplyRecorder&) = delete;

  // Takes PUTFH's result. After ESTALE it forgets the names that led to `node`, so that they are looked up
  // again (AttributeService::gone()).
  Result<> take_handle(Result<CompoundReply>& reply, const NodeRef& node);
  // What is passed by reference outlives the call.
  //
  // AttributeService::record(), for attributes from the wire.
  Task<bool> apply(NodeRef node, const nfs4::fattr4& from, uint64_t order, Cause cause,
                   std::optional<uint64_t> before = {});
  // The Node of `fh`, after its attributes `from` were recorded.
  Task<Entry> make_entry(const nfs4::nfs_fh4& fh, const nfs4::fattr4& from, uint64_t order, Cause cause);
  // The ACCESS result of `node` that ReplyAttributes::ask_of_made() asked for, if it comes next. `change`:
  // the change attribute before it.
  void take_access_of_made(const RequestContext& ctx, const NodeRef& node, CompoundReply& reply,
                           uint64_t change);
  // NameService::record_own_change() with change_info4 and the attributes after it (an error: none).
  Task<NameBelief> directory_changed(NodeRef directory, nfs4::change_info4 info,
                                     const Result<nfs4::GETATTR4res>& after, uint64_t order);

 private:
  ReplyAttributes& replies_;
  AttributeService& attributes_;
  AccessService& access_;
  NameService& names_;
};

}  // namespace nfsrdma::client::nfs4
