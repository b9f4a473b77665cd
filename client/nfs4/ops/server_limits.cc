// SPDX-License-Identifier: Apache-2.0
#include "client/nfs4/ops/server_limits.h"

#include <algorithm>
#include <chrono>

#include "client/core/io_limits.h"
#include "client/nfs4/attributes.h"
#include "client/nfs4/state/node.h"
#include "transport/runtime/log.h"
#include "xdr/nfs4/file_ops.h"
#include "xdr/nfs4/handle_ops.h"

namespace nfsrdma::client::nfs4 {
namespace {

// The RPC and COMPOUND part of a READ or WRITE, with reserve for a long credential.
constexpr uint32_t kMessageOverhead = 1024;

}  // namespace

Task<Result<>> ServerLimits::read_root(NodeRef root) {
  const Result<ExportLimits> limits = co_await read(root);
  if (!limits) co_return fail(limits.error());
  root_ = *limits;
  co_return Result<>{};
}

Task<Result<ExportLimits>> ServerLimits::read(NodeRef node) {
  const nfs4::nfs_fh4 fh = fh_of(node);
  auto build = [&](CompoundBuilder& b) { b.putfh(fh).getattr(kLimitAttributes); };
  const Request request{.op = nfs4::OP_GETATTR, .credential = machine_, .build = build};
  Result<CompoundReply> reply = co_await session_.run(request);
  auto res = take_behind_putfh<nfs4::GETATTR4res>(reply);
  if (!res) co_return fail(std::move(res.error()));
  const nfs4::fattr4& a = res->resok4.obj_attributes;
  // The lease belongs to the server, not to the file system. The request for the mount's root runs on loop 0.
  if (nfs4_node(node).export_index() == 0 && a.has(nfs4::FATTR4_LEASE_TIME))
    session_.set_lease(std::chrono::seconds(a.fs->lease_time));
  ExportLimits limits;
  if (a.has(nfs4::FATTR4_MAXNAME) && a.fs->maxname != 0) limits.name_max = std::min(a.fs->maxname, 255U);
  if (a.has(nfs4::FATTR4_MAXFILESIZE)) limits.file_max = file_size_limit(a.fs->maxfilesize);
  if (a.has(nfs4::FATTR4_SUPPATTR_EXCLCREAT)) limits.exclusive_create_attributes = a.fs->suppattr_exclcreat;
  limits.rsize = io_size(options_.rsize, a.has(nfs4::FATTR4_MAXREAD) ? a.fs->maxread : 0,
                         session_.fore_channel().response_bytes() - kMessageOverhead);
  limits.wsize = io_size(options_.wsize, a.has(nfs4::FATTR4_MAXWRITE) ? a.fs->maxwrite : 0,
                         session_.fore_channel().request_bytes() - kMessageOverhead);
  co_return limits;
}

Task<> ServerLimits::learn(NodeRef node) {
  const uint32_t index = nfs4_node(node).export_index();
  if (index == 0 || by_export_.get(index)) co_return;
  const Result<ExportLimits> limits = co_await read(node);
  if (!limits)
    log::info(
        "server {}: a file system below the mount's does not tell its limits ({}); taken to be the mount's",
        options_.host, describe(limits.error()));
  by_export_.set(index, limits ? *limits : root_);
}

ExportLimits ServerLimits::of(const NodeRef& node) const {
  const uint32_t index = nfs4_node(node).export_index();
  if (index == 0) return root_;
  if (const auto own = by_export_.get(index)) return *own;
  return root_;
}

FileLimits ServerLimits::file_limits(const NodeRef& node) const {
  FileLimits limits = root();
  if (nfs4_node(node).export_index() != 0) {
    const ExportLimits own = of(node);
    limits = {own.rsize, own.wsize, own.name_max, own.file_max};
  }
  // A session that was created after the mount may have smaller limits.
  limits.rsize = std::min(limits.rsize, session_.fore_channel().response_bytes() - kMessageOverhead);
  limits.wsize = std::min(limits.wsize, session_.fore_channel().request_bytes() - kMessageOverhead);
  return limits;
}

}  // namespace nfsrdma::client::nfs4
