// SPDX-License-Identifier: Apache-2.0
// Which operation answers NFS4ERR_WRONGSEC, and what SECINFO says (RFC 8881 sections 2.6.3.1, 18.29, 18.45).
//
// A file system has one policy (FileSystem::flavors), so LINK and RENAME cannot meet two: between two file
// systems they are NFS4ERR_XDEV. Under the server's lock.
#pragma once

#include <cstdint>
#include <vector>

#include "filer/nfs/context.h"
#include "xdr/nfs4/handle_ops.h"

namespace nfsrdma::filer::nfs {

// Whether the object may be used with the security of this call.
inline bool accepts(const Context& c, const tree::Node& node) {
  return node.fs->flavors.accepts(c.who.security);
}

// PUTFH, PUTPUBFH, PUTROOTFH and RESTOREFH, which section 2.6.3.1.1 calls put filehandle operations.
bool puts_filehandle(nfs4::nfs_opnum4 op);
// Whether a put filehandle operation is the one to answer NFS4ERR_WRONGSEC. If not, a later operation is, or
// none. `rest`: the `operations` that follow it, encoded.
bool answers_for_policy(xdr::Decoder rest, uint32_t operations);

// The security triples of a file system, best first.
std::vector<nfs4::secinfo4> security_of(const tree::FileSystem& fs);

}  // namespace nfsrdma::filer::nfs
