// SPDX-License-Identifier: Apache-2.0
// AccessService: what the server lets a user do (ACCESS), and in which directories the kernel may cache
// names. One per mount; any loop.
#pragma once

#include <cstdint>
#include <optional>

#include "client/core/attribute_service.h"
#include "client/core/mount_parts.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::client {

class AccessService {
 public:
  AccessService(const MountParts& parts, AttributeService& attributes)
      : options_(parts.options),
        table_(parts.table),
        kernel_(parts.kernel),
        protocol_(parts.protocol),
        attributes_(attributes) {}
  AccessService(const AccessService&) = delete;
  AccessService& operator=(const AccessService&) = delete;

  // EACCES unless the caller has every bit of `wanted`. `op`: the operation to name in the error.
  Task<Result<>> require_access(RequestContext ctx, NodeRef node, uint32_t wanted, const char* op);
  // all_may_search(), and no ACL forbids it to anybody. Then the kernel may cache the directory's names: it
  // does not check permissions before it follows a cached name.
  bool names_are_free(const CachedNode& directory) const NFSRDMA_REQUIRES(directory.mutex);
  // The ACL arrived.
  void note_acl(const NodeRef& directory, const AclOutcome& acl);
  Task<Result<>> check_search(RequestContext ctx, NodeRef directory);
  // The allowed bits of `wanted`, from the cache or by ask().
  Task<Result<uint32_t>> access_bits(RequestContext ctx, NodeRef node, uint32_t wanted);
  // Asks the server. `good`: as AttributeService::record() returns it.
  Task<Result<uint32_t>> ask(RequestContext ctx, NodeRef node, uint32_t wanted, Cause cause = Cause::kAsked,
                             bool* good = nullptr);
  // The allowed bits, if a cached answer is valid.
  std::optional<uint32_t> known_access(const RequestContext& ctx, const CachedNode& n) const
      NFSRDMA_REQUIRES(n.mutex);
  // Records an ACCESS answer. Returns the allowed bits.
  uint32_t note_access(const RequestContext& ctx, CachedNode& n, const AccessBits& bits);
  // Whether the ACCESS bits `allowed` permit open(2) with `flags`.
  static bool suffices(uint32_t allowed, int flags);

 private:
  // names_are_free() depends on the ACL, and the ACL is not known.
  bool acl_is_wanted(const CachedNode& directory) const NFSRDMA_REQUIRES(directory.mutex);
  Task<> ask_for_acl(rpc::CredentialPtr credential, NodeRef directory);

  const ClientOptions& options_;
  CachedNodeTable& table_;
  const KernelView& kernel_;
  Protocol& protocol_;
  AttributeService& attributes_;
};

}  // namespace nfsrdma::client
