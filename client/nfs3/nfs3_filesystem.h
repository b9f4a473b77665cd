// SPDX-License-Identifier: Apache-2.0
// make_nfs3_filesystem: NFSv3 over TCP (RFC 1813) behind client::Filesystem, for servers without NFSv4.1.
//
// libnfs provides the RPC (raw_connection.h); CachingFilesystem provides everything above the protocol. One
// connection per loop. docs/conformance/nfsv3.md says what NFSv3 lacks and what applications get then. Above
// all locks: the front end keeps byte-range locks and flock(2) (fuse::FuseOptions::local_*); getlk(), setlk()
// and flock() fail with ENOLCK.
#pragma once

#include <memory>

#include "client/filesystem.h"
#include "client/options.h"

namespace nfsrdma::client {

// One per mount. The caller owns the loops and the buffer pool, which outlive it, as for Nfs4Filesystem.
std::unique_ptr<Filesystem> make_nfs3_filesystem(LoopPool& loops, BufferPool& buffers, ClientOptions options);

}  // namespace nfsrdma::client
