// SPDX-License-Identifier: Apache-2.0
// MountParts: what all services of a mount share. The objects that it refers to outlive their use. `protocol`
// and `table` may be constructed after the services and destroyed before them, so no service's constructor or
// destructor uses them.
#pragma once

#include <atomic>

#include "client/api/options.h"
#include "client/core/nodes/cached_node.h"
#include "client/core/nodes/kernel_view.h"
#include "client/core/protocol.h"
#include "transport/memory/buffer.h"
#include "transport/rpc/credential.h"
#include "transport/runtime/loop.h"

namespace nfsrdma::client {

struct MountParts {
  LoopPool& loops;
  BufferPool& buffers;
  const ClientOptions& options;
  const rpc::CredentialPtr& machine;  // this process' user
  CachedNodeTable& table;
  const KernelView& kernel;
  Protocol& protocol;
  const std::atomic<bool>& stopping;  // unmount() has begun
};

}  // namespace nfsrdma::client
