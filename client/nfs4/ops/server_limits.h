// SPDX-License-Identifier: Apache-2.0
// ServerLimits: what one operation may carry on each file system of the server (RFC 8881 section 5.8.2), and
// what the session allows. Owned by the Nfs4Filesystem. Any loop.
#pragma once

#include "client/api/options.h"
#include "client/core/mount_parts.h"
#include "client/core/protocol.h"
#include "client/nfs4/attributes.h"
#include "client/nfs4/protocol_types.h"
#include "client/nfs4/session/session.h"

namespace nfsrdma::client::nfs4 {

class ServerLimits {
 public:
  ServerLimits(const MountParts& parts, Session& session)
      : options_(parts.options), machine_(parts.machine), session_(session) {}
  ServerLimits(const ServerLimits&) = delete;
  ServerLimits& operator=(const ServerLimits&) = delete;

  // Loop 0. Fetches the limits of the mount's file system, and the lease time.
  Task<Result<>> read_root(NodeRef root);
  // The same for a node that was just looked up; once per file system below the mount's.
  Task<> learn(NodeRef node);

  ExportLimits of(const NodeRef& node) const;
  FileLimits file_limits(const NodeRef& node) const;
  // Those of the mount's file system.
  FileLimits root() const { return {root_.rsize, root_.wsize, root_.name_max, root_.file_max}; }

 private:
  Task<Result<ExportLimits>> read(NodeRef node);

  const ClientOptions& options_;
  const rpc::CredentialPtr& machine_;
  Session& session_;
  ExportLimitsTable by_export_;  // of file systems below the mount's
  ExportLimits root_;            // fixed after read_root()
};

}  // namespace nfsrdma::client::nfs4
