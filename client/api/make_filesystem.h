// SPDX-License-Identifier: Apache-2.0
// Makes the Filesystem of a mount. With client/api and transport/ a program can mount, open, read into its
// own registered memory and close; it needs no other header of the client.
#pragma once

#include <memory>

#include "client/api/filesystem.h"
#include "client/api/options.h"
#include "transport/memory/buffer.h"
#include "transport/rpc/rpc_transport.h"
#include "transport/runtime/loop.h"

namespace nfsrdma::client {

// NFSv4.1 (RFC 8881) over the transport in the options. One per mount. The caller owns the loops and the
// buffer pool, which outlive it; the loops run from before mount() until unmount() has returned.
std::unique_ptr<Filesystem> make_nfs4_filesystem(LoopPool& loops, BufferPool& buffers, ClientOptions options);

// NFSv3 over TCP (RFC 1813), for servers without NFSv4.1. The rules above apply. docs/conformance/nfsv3.md
// says what NFSv3 lacks and what applications get then. Above all, it lacks locks: the front end keeps
// byte-range locks and flock(2) (fuse::FuseOptions::local_*); getlk(), setlk() and flock() fail with ENOLCK.
std::unique_ptr<Filesystem> make_nfs3_filesystem(LoopPool& loops, BufferPool& buffers, ClientOptions options);

// Makes one RPC-over-RDMA transport without a mount, as a mount with these options would. For probes.
std::unique_ptr<rpc::RpcTransport> make_rdma_transport(Loop& loop, BufferPool& buffers,
                                                       const ClientOptions& options);

}  // namespace nfsrdma::client
