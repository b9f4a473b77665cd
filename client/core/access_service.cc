// SPDX-License-Identifier: Apache-2.0
// Permissions: ACCESS (RFC 8881 section 18.1; RFC 1813 section 3.3.4), and in which directories the kernel
// may cache names. "In general, it is not sufficient for the client to attempt to deduce access permissions
// by inspecting the uid, gid, and mode fields in the file attributes or by attempting to interpret the
// contents of the ACL attribute." (section 18.1.4) So the client reads an ACL only to see whether it lets
// everybody search. For everything else it asks the server for each user.
#include "client/core/access_service.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "transport/runtime/mutex.h"

namespace nfsrdma::client {
namespace {

// The number of uncacheable lookups that make a request for the ACL worthwhile.
constexpr unsigned kNamesWorthAsking = 16;

// RFC 8881 section 18.16.4 leaves it to the server who may open a file. Servers let users with only execute
// permission open for reading, because they cannot see the purpose; the client can see that an open comes
// from execve(2). Some servers also let a user write if that user opened the file for writing before the mode
// changed. So an open also checks the ACCESS bits (suffices()).
constexpr int kOpenedToExecute = 040;  // Linux: __FMODE_EXEC, among the flags of FUSE_OPEN

}  // namespace

Task<Result<uint32_t>> AccessService::access_bits(RequestContext ctx, NodeRef node, uint32_t wanted) {
  {
    MutexLock lock(cached_node(node).mutex);
    if (const auto known = known_access(ctx, cached_node(node))) co_return *known& wanted;
  }
  co_return co_await ask(ctx, node, wanted);
}

Task<Result<uint32_t>> AccessService::ask(RequestContext ctx, NodeRef node, uint32_t wanted, Cause cause,
                                          bool* good) {
  Result<AccessOutcome> answer = co_await protocol_.get_access(ctx, node);
  if (!answer) co_return fail(attributes_.gone(node, std::move(answer.error())));
  const bool with_attributes = answer->after.attributes.has_value();
  answer->after.cause = cause;
  const Result<bool> recorded = co_await attributes_.record_or_fetch(ctx, node, answer->after);
  if (!recorded) co_return fail(recorded.error());
  if (good != nullptr) *good = *recorded;
  AccessBits bits = answer->bits;
  if (!with_attributes) bits.change = AttributeService::known_attributes(node).change;
  co_return note_access(ctx, cached_node(node), bits) & wanted;
}

std::optional<uint32_t> AccessService::known_access(const RequestContext& ctx, const CachedNode& n) const {
  if (!n.attributes.known()) return std::nullopt;
  return n.access.find(*ctx.credential, n.attributes.get().change, attributes_.promised(n), Clock::now());
}

uint32_t AccessService::note_access(const RequestContext& ctx, CachedNode& n, const AccessBits& bits) {
  // Section 18.1.3: `supported` are the bits that the server can check. Bits that it cannot check count as
  // allowed: the operation itself will fail. If the server cannot check EXECUTE, the READ bit decides.
  uint32_t allowed = (bits.allowed & bits.supported) | (kEveryAccess & ~bits.supported);
  if ((bits.supported & nfs4::ACCESS4_EXECUTE) == 0 && (allowed & nfs4::ACCESS4_READ) == 0)
    allowed &= ~nfs4::ACCESS4_EXECUTE;
  MutexLock lock(n.mutex);
  n.access.note(ctx.credential, allowed,
                {bits.change, Clock::now() + attributes_.limits(S_ISDIR(n.attributes.get().mode)).min});
  return allowed;
}

Task<Result<>> AccessService::require_access(RequestContext ctx, NodeRef node, uint32_t wanted,
                                             const char* op) {
  auto bits = co_await access_bits(ctx, node, wanted);
  if (!bits) co_return fail(std::move(bits.error()));
  if (*bits != wanted) co_return fail(system_error(EACCES, op));
  co_return Result<>{};
}

bool AccessService::names_are_free(const CachedNode& directory) const {
  const Attributes& known = directory.attributes.get();
  if (!attributes_.all_may_search(known)) return false;
  if (!options_.many_users || !options_.server_acls) return true;
  return directory.access.everybody_searches(known.change, Clock::now()) == true;
}

Task<Result<>> AccessService::check_search(RequestContext ctx, NodeRef directory) {
  bool worth_asking = false;
  {
    CachedNode& d = cached_node(directory);
    MutexLock lock(d.mutex);
    if (names_are_free(d)) co_return Result<>{};
    worth_asking =
        acl_is_wanted(d) && !d.use.acl_asked && ++d.use.uncacheable_lookups % kNamesWorthAsking == 0;
    d.use.acl_asked = d.use.acl_asked || worth_asking;
  }
  if (worth_asking) Loop::current()->spawn(ask_for_acl(ctx.credential, directory));
  co_return co_await require_access(ctx, directory, nfs4::ACCESS4_LOOKUP, "LOOKUP");
}

Task<> AccessService::ask_for_acl(rpc::CredentialPtr credential, NodeRef directory) {
  RequestContext ctx;
  ctx.credential = std::move(credential);
  const std::optional<AclOutcome> acl = co_await protocol_.get_acl(std::move(ctx), directory);
  if (acl) note_acl(directory, *acl);
  MutexLock lock(cached_node(directory).mutex);
  cached_node(directory).use.acl_asked = false;
}

bool AccessService::acl_is_wanted(const CachedNode& directory) const {
  const Attributes& known = directory.attributes.get();
  return options_.many_users && options_.server_acls && attributes_.all_may_search(known) &&
         !directory.access.everybody_searches(known.change, Clock::now());
}

void AccessService::note_acl(const NodeRef& directory, const AclOutcome& acl) {
  CachedNode& d = cached_node(directory);
  bool had_everybody = false;  // an earlier ACL let everybody search, so the kernel may have names
  {
    MutexLock lock(d.mutex);
    had_everybody =
        d.access.note_everybody(acl.everybody_searches, {acl.change, Clock::now() + options_.acdirmax});
  }
  if (acl.everybody_searches || !had_everybody) return;
  kernel_.invalidate_names(directory, table_.names().names_in(d));
}

bool AccessService::suffices(uint32_t allowed, int flags) {
  const bool reads = (flags & O_ACCMODE) != O_WRONLY, writes = (flags & O_ACCMODE) != O_RDONLY;
  const uint32_t read = (flags & kOpenedToExecute) != 0 ? nfs4::ACCESS4_EXECUTE : nfs4::ACCESS4_READ;
  const uint32_t write = nfs4::ACCESS4_MODIFY | nfs4::ACCESS4_EXTEND;
  return (!reads || (allowed & read) != 0) && (!writes || (allowed & write) != 0);
}

}  // namespace nfsrdma::client
