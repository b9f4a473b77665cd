// SPDX-License-Identifier: Apache-2.0
// ExportFinder: explains a failed mount by what the server exports and which security flavors it wants (RFC
// 8881 sections 2.6.3.1, 7.3). One per mount; loop 0.
#pragma once

#include <string>
#include <vector>

#include "client/api/options.h"
#include "client/core/mount_parts.h"
#include "client/nfs4/protocol_types.h"
#include "client/nfs4/session/session.h"

namespace nfsrdma::client::nfs4 {

class ExportFinder {
 public:
  ExportFinder(const MountParts& parts, Session& session)
      : options_(parts.options), machine_(parts.machine), session_(session) {}
  ExportFinder(const ExportFinder&) = delete;
  ExportFinder& operator=(const ExportFinder&) = delete;

  // Adds to `error` what would help the user: the exports or the security flavors of the server. `error`
  // belongs to the last of `names` on the path from `from` (null: the root of the server's name space).
  // Without names it belongs to `from` itself.
  Task<Error> explain(Error error, const nfs4::nfs_fh4* from, std::vector<std::string> names);

 private:
  Task<std::string> wanted_flavors(const nfs4::nfs_fh4* from, std::vector<std::string> names);
  Task<std::vector<std::string>> find_exports();
  struct Listed {
    nfs4::fattr4 own;                   // the directory's own type and file system
    std::vector<nfs4::entry4> entries;  // with the attributes `wanted`; empty if no attribute is wanted
  };
  // `names`: the directory's path from the root of the server's name space.
  Task<Result<Listed>> list_directory(std::vector<std::string> names, nfs4::bitmap4 wanted);

  const ClientOptions& options_;
  const rpc::CredentialPtr& machine_;
  Session& session_;
};

}  // namespace nfsrdma::client::nfs4
