// SPDX-License-Identifier: Apache-2.0
// Removals: unlink, rmdir and rename, and the silly rename of files that are open (RFC 8881 sections 18.25
// and 18.26). One per mount; any loop.
#pragma once

#include <cstdint>
#include <string>

#include "client/core/mount_parts.h"
#include "client/core/name_service.h"
#include "client/core/names/hidden_removals.h"
#include "client/core/sweeper.h"
#include "client/core/write_back.h"

namespace nfsrdma::client {

class Removals {
 public:
  Removals(const MountParts& parts, AttributeService& attributes, NameService& names, WriteBack& write_back,
           Sweeper& sweeper)
      : table_(parts.table),
        kernel_(parts.kernel),
        protocol_(parts.protocol),
        attributes_(attributes),
        names_(names),
        write_back_(write_back),
        sweeper_(sweeper) {}
  Removals(const Removals&) = delete;
  Removals& operator=(const Removals&) = delete;

  Task<Result<>> unlink(RequestContext ctx, NodeRef directory, std::string name);
  Task<Result<>> rmdir(RequestContext ctx, NodeRef directory, std::string name);
  // A second name `name` of `node` in `directory`.
  Task<Result<Entry>> link(RequestContext ctx, NodeRef node, NodeRef directory, std::string name);
  Task<Result<>> rename(RequestContext ctx, NodeRef from_directory, std::string from, NodeRef to_directory,
                        std::string to, unsigned flags);
  // The last descriptor was closed: removes the hidden name, if any.
  Task<> remove_if_hidden(NodeRef node, CachedFileRef file);
  // Hold it while a descriptor of the file is closed: this may be the last close, which removes the hidden
  // name.
  HiddenRemovals::Pending perhaps_last_close(const CachedFile& file);

 private:
  // Silly rename: gives an open file a hidden name. False: `name` does not need that. kMove: the hidden name
  // replaces `name`; kBeside: the file has both names.
  enum class Hide : uint8_t { kMove, kBeside };
  Task<Result<bool>> hide_open_file(RequestContext ctx, NodeRef directory, std::string name, Hide how);
  // Undoes hide_open_file().
  Task<> show_again(RequestContext ctx, NodeRef node, NodeRef directory, std::string name);
  // Whether an interrupted change was executed: true if a LOOKUP of the name returns `node`.
  Task<bool> leads_to(RequestContext ctx, NodeRef directory, std::string name, NodeRef node);
  Task<> remove_hidden(rpc::CredentialPtr credential, NodeRef directory, std::string name);

  CachedNodeTable& table_;
  const KernelView& kernel_;
  Protocol& protocol_;
  AttributeService& attributes_;
  NameService& names_;
  WriteBack& write_back_;
  Sweeper& sweeper_;
  HiddenRemovals hidden_removals_;
};

}  // namespace nfsrdma::client
