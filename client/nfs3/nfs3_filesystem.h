// SPDX-License-Identifier: Apache-2.0
// make_nfs3_filesystem: NFSv3 over TCP (RFC 1813) behind client::Filesystem, for servers without NFSv4.1.
//
// The RPC is libnfs's (raw_connection.h); everything above the wire is CachingFilesystem's. One connection
// per loop. What the version lacks, and what is answered then, is in docs/conformance/nfsv3.md; locks above
// all: byte-range locks and flock(2) are the front end's (fuse::FuseOptions::local_*), getlk(), setlk() and
// flock() say ENOLCK.
#pragma once

#include <memory>

#include "client/filesystem.h"
#include "client/options.h"

namespace nfsrdma::client {

// One per mount, as Nfs4Filesystem: the loops and the buffer pool are the caller's and outlive it.
std::unique_ptr<Filesystem> make_nfs3_filesystem(LoopPool& loops, BufferPool& buffers, ClientOptions options);

}  // namespace nfsrdma::client
