// GETATTR, SETATTR, ACCESS, and the booking of attributes that come with other answers (RFC 8881 sections
// 5, 10.4, 18.1, 18.7, 18.30).
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "client/nfs4/nfs4_filesystem.h"
#include "xdr/nfs4/file_ops.h"

namespace nfsrdma::client {
namespace {

bool is_directory(const Attributes& a) {
  return S_ISDIR(a.mode);
}

// The kernel's pages of a file that we are writing change together with its change attribute.
bool writing(const FileState* file) {
  return file != nullptr && (file->dirty_bytes != 0 || file->writes_under_way != 0);
}

bool equal_times(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

}  // namespace

AttributeCache::Limits Nfs4Filesystem::limits(bool directory) const {
  if (options_.noac) return {};
  return directory ? AttributeCache::Limits{options_.acdirmin, options_.acdirmax}
                   : AttributeCache::Limits{options_.acregmin, options_.acregmax};
}

Task<bool> Nfs4Filesystem::apply(NodeRef node, nfs4::fattr4 from, uint64_t order, Cause cause) {
  Nfs4Node& n = nfs4_node(node);
  auto uid = ids_.known(IdMap::Kind::kUser, from.owner);
  auto gid = ids_.known(IdMap::Kind::kGroup, from.owner_group);
  if (!uid) uid = co_await ids_.resolve(IdMap::Kind::kUser, from.owner);
  if (!gid) gid = co_await ids_.resolve(IdMap::Kind::kGroup, from.owner_group);
  const Attributes attributes = to_attributes(from, n.export_index(), *uid, *gid);

  const bool opened = cause == Cause::kOpened || cause == Cause::kCreated;
  bool outdated = false, good = true, closed = false;
  {
    std::lock_guard lock(n.mutex);
    const bool directory = is_directory(attributes);
    const Attributes before = n.attributes.get();
    const bool was_searchable = directory && all_may_search(before);
    const bool kernel_is_current = n.kernel_knows && n.kernel_change == before.change;
    const auto update =
        n.attributes.update(attributes, order, nodes_.next_start(), Clock::now(), limits(directory));
    if (update == AttributeCache::Update::kIgnored) {
      good = n.contents_known;
    } else {
      const bool own = cause == Cause::kOwn || writing(n.file.get());
      const bool same = n.contents_known && n.contents_change == attributes.change;
      good = same || (own && n.contents_known);
      // Our changes are the kernel's: it booked them itself.
      if (own && kernel_is_current) n.kernel_change = attributes.change;
      if (own && !same && n.contents_known) n.contents_mixed = true;
      const bool drops_itself =
          options_.attributes_before_reads &&
          (n.kernel_size != attributes.size || !equal_times(n.kernel_mtime, attributes.mtime));
      outdated = !good && n.contents_known && !directory && !drops_itself;
      // Pages enter the kernel only through an open: before the first one there are none to be known.
      if (opened || directory || n.contents_known) {
        n.contents_change = attributes.change;
        n.contents_known = true;
      }
      if (!good && directory) {
        n.names_uncertain = false;
        ++n.names_epoch;
      }
    }
    closed = was_searchable && !all_may_search(n.attributes.get());
    // fstat(2) after open(2) must not show what was before.
    if (opened && n.kernel_knows && n.kernel_change != n.attributes.get().change) outdated = true;
    if (outdated) {
      n.kernel_knows = false;
      ++n.drops_under_way;
    }
    good = good && n.drops_under_way == 0;
  }
  // chmod(2) of the directory holds its lock in the kernel, so the names are dropped beside it.
  if (closed) {
    for (std::string& name : nodes_.names().names_in(n)) front_end_->invalidate_entry(node, std::move(name));
  }
  if (outdated && cause == Cause::kOpened) {
    co_await drop_kernel_data(node);
  } else if (outdated) {
    Loop::current()->spawn(drop_kernel_data(node));
  }
  co_return good;
}

Task<> Nfs4Filesystem::drop_kernel_data(NodeRef node) {
  co_await front_end_->drop_data(node);
  std::lock_guard lock(nfs4_node(node).mutex);
  --nfs4_node(node).drops_under_way;
}

Task<Entry> Nfs4Filesystem::make_entry(nfs4::nfs_fh4 fh, nfs4::fattr4 from, uint64_t order, Cause cause) {
  const NodeRef node = nodes_.get(fh, exports_.index_of(from.fsid));
  co_await apply(node, std::move(from), order, cause);
  co_return cached_entry(node, Duration::zero());
}

Entry Nfs4Filesystem::cached_entry(const NodeRef& node, Duration ttl) const {
  const AttributesReply reply = attributes_reply(node);
  return {node, reply.attributes, reply.ttl, ttl};
}

AttributesReply Nfs4Filesystem::attributes_reply(const NodeRef& node) const {
  Nfs4Node& n = nfs4_node(node);
  std::lock_guard lock(n.mutex);
  Attributes attributes = n.attributes.get();
  // Written here and not on the server's disk: it may not know of it yet, or no longer after a restart.
  if (n.file) attributes.size = std::max(attributes.size, n.file->written_end(session_.epoch()));
  const Duration ttl = n.attributes.remaining(Clock::now());
  n.kernel_knows = ttl > Duration::zero();
  n.kernel_change = attributes.change;
  n.kernel_size = attributes.size;
  n.kernel_mtime = attributes.mtime;
  return {attributes, ttl};
}

Attributes Nfs4Filesystem::known_attributes(const NodeRef& node) {
  std::lock_guard lock(nfs4_node(node).mutex);
  return nfs4_node(node).attributes.get();
}

Error Nfs4Filesystem::gone(const NodeRef& node, Error error) {
  if (!error.is_status(nfs4::NFS4ERR_STALE)) return error;
  nodes_.names().forget(*node.get());
  std::lock_guard lock(nfs4_node(node).mutex);
  nfs4_node(node).attributes.expire();
  return error;
}

bool Nfs4Filesystem::fresh(const Nfs4Node& n) const {
  std::lock_guard lock(n.mutex);
  return n.attributes.fresh(Clock::now());
}

Task<Result<>> Nfs4Filesystem::fetch_attributes(RequestContext ctx, NodeRef node, Cause cause) {
  attribute_misses_.fetch_add(1, std::memory_order_relaxed);
  const nfs4::nfs_fh4 fh = fh_of(node);
  const uint64_t order = nodes_.next_start();
  auto build = [&](CompoundBuilder& b) { b.putfh(fh).getattr(kFileAttributes); };
  const Request request{nfs4::OP_GETATTR, ctx.credential, false, build, {}};
  Result<CompoundReply> reply = co_await session_.run(request);
  if (!reply) co_return fail(std::move(reply.error()));
  if (Result<> put = reply->expect<nfs4::PUTFH4res>(); !put)
    co_return fail(gone(node, std::move(put.error())));
  auto res = reply->take<nfs4::GETATTR4res>();
  if (!res) co_return fail(gone(node, std::move(res.error())));
  co_await apply(node, std::move(res->resok4.obj_attributes), order, cause);
  co_return Result<>{};
}

Task<Result<>> Nfs4Filesystem::revalidate(RequestContext ctx, NodeRef node) {
  if (fresh(nfs4_node(node))) {
    attribute_hits_.fetch_add(1, std::memory_order_relaxed);
    co_return Result<>{};
  }
  co_return co_await fetch_attributes(ctx, node, Cause::kAsked);
}

Task<Result<AttributesReply>> Nfs4Filesystem::getattr(RequestContext ctx, NodeRef node, OpenFileRef) {
  // What was written here must be in size, mtime and change attribute: the server has to have it first.
  co_await settle_node(node);
  NFSRDMA_CO_TRY(co_await revalidate(ctx, node));
  bool pages_are_old = false;
  {
    std::lock_guard lock(nfs4_node(node).mutex);
    pages_are_old = nfs4_node(node).drops_under_way != 0;
  }
  // read(2) after fstat(2) must show what fstat(2) has seen.
  if (pages_are_old) co_await front_end_->drop_data(node);
  co_return attributes_reply(node);
}

Task<Result<AttributesReply>> Nfs4Filesystem::setattr(RequestContext ctx, NodeRef node, SetAttributes set,
                                                      OpenFileRef open) {
  Nfs4Node& n = nfs4_node(node);
  // Servers let the owner change the size whatever the mode says, for the sake of those who have it open for
  // writing. truncate(2) and open(2) with O_TRUNC are about the mode.
  const bool opened_to_write = open && (nfs4_file(open).access & nfs4::OPEN4_SHARE_ACCESS_WRITE) != 0;
  if (set.size && !opened_to_write)
    NFSRDMA_CO_TRY(
        co_await require_access(ctx, node, nfs4::ACCESS4_MODIFY | nfs4::ACCESS4_EXTEND, "SETATTR"));
  std::shared_ptr<FileState> file;
  OpenStateRef state;
  {
    std::lock_guard lock(n.mutex);
    file = n.file;
    if (open) state = nfs4_file(open).state;
    // truncate(2) of a file the user has open for writing goes under that open.
    for (size_t i = 0; file && !state && i < file->opens.size(); ++i) {
      const OpenState& o = *file->opens[i];
      if (o.uid == ctx.credential->uid() && (o.held_access & nfs4::OPEN4_SHARE_ACCESS_WRITE) != 0)
        state = file->opens[i];
    }
    if (state && (state->held_access & nfs4::OPEN4_SHARE_ACCESS_WRITE) == 0) state.reset();
  }
  if (file && set.size) {
    // A write that is sent again after a restart must not undo the truncation.
    co_await write_back(node, file);
  } else {
    co_await settle_node(node);
  }
  std::string owner, group;
  if (set.uid) owner = co_await ids_.name_of(IdMap::Kind::kUser, *set.uid);
  if (set.gid) group = co_await ids_.name_of(IdMap::Kind::kGroup, *set.gid);

  const nfs4::nfs_fh4 fh = n.fh();
  nfs4::SETATTR4args args;
  args.obj_attributes = to_fattr(set, owner, group);
  const uint64_t order = nodes_.next_start();
  bool under_open = set.size.has_value() && state != nullptr;
  const bool locked = open && nfs4_file(open).lock_used.load(std::memory_order_relaxed);
  auto build = [&](CompoundBuilder& b) {
    if (under_open) {
      auto stateid = StateManager::io_stateid(*file, *state, locked);
      if (!stateid) return b.refuse(std::move(stateid.error()));
      args.stateid = *stateid;
    }
    b.putfh(fh).add(args).getattr(kFileAttributes);
  };
  const Request request{nfs4::OP_SETATTR, ctx.credential, true, build, {}};
  // Two statements: g++ 12 destroys the result of `c ? co_await a : co_await b` twice.
  Result<CompoundReply> reply = fail(Error{});
  if (under_open) {
    reply = co_await states_.run(request, node, file, state);
    // truncate(2) beside the last close(2): without an open then.
    if (!reply && !open && reply.error().errnum == EBADF) under_open = false;
  }
  if (!under_open) {
    args.stateid = {};
    reply = co_await session_.run(request);
  }
  if (!reply) co_return fail(std::move(reply.error()));
  if (Result<> put = reply->expect<nfs4::PUTFH4res>(); !put)
    co_return fail(gone(node, std::move(put.error())));
  NFSRDMA_CO_TRY(reply->expect<nfs4::SETATTR4res>());
  auto res = reply->take<nfs4::GETATTR4res>();
  if (!res) co_return fail(std::move(res.error()));
  co_await apply(node, std::move(res->resok4.obj_attributes), order, Cause::kOwn);
  co_return attributes_reply(node);
}

Task<Result<uint32_t>> Nfs4Filesystem::access_bits(RequestContext ctx, NodeRef node, uint32_t wanted) {
  Nfs4Node& n = nfs4_node(node);
  {
    std::lock_guard lock(n.mutex);
    const auto& a = n.access;
    if (a.uid == ctx.credential->uid() && a.gid == ctx.credential->gid() &&
        a.groups == ctx.credential->groups() && a.change == n.attributes.get().change &&
        Clock::now() < a.expires && n.attributes.known()) {
      co_return a.allowed& wanted;
    }
  }
  co_return co_await ask_access(ctx, node, wanted);
}

Task<Result<uint32_t>> Nfs4Filesystem::ask_access(RequestContext ctx, NodeRef node, uint32_t wanted) {
  Nfs4Node& n = nfs4_node(node);
  const nfs4::nfs_fh4 fh = n.fh();
  const uint64_t order = nodes_.next_start();
  auto build = [&](CompoundBuilder& b) {
    b.putfh(fh).add(nfs4::ACCESS4args{kEveryAccess}).getattr(kFileAttributes);
  };
  const Request request{nfs4::OP_ACCESS, ctx.credential, false, build, {}};
  Result<CompoundReply> reply = co_await session_.run(request);
  if (!reply) co_return fail(std::move(reply.error()));
  if (Result<> put = reply->expect<nfs4::PUTFH4res>(); !put)
    co_return fail(gone(node, std::move(put.error())));
  auto answer = reply->take<nfs4::ACCESS4res>();
  if (!answer) co_return fail(std::move(answer.error()));
  auto res = reply->take<nfs4::GETATTR4res>();
  if (!res) co_return fail(std::move(res.error()));
  const uint64_t change = res->resok4.obj_attributes.change;
  co_await apply(node, std::move(res->resok4.obj_attributes), order, Cause::kAsked);
  co_return note_access(ctx, n, *answer, change) & wanted;
}

uint32_t Nfs4Filesystem::note_access(const RequestContext& ctx, Nfs4Node& n, const nfs4::ACCESS4res& answer,
                                     uint64_t change) {
  // Section 18.1.3: `supported` is what the server can tell. What it cannot, the operation itself will show;
  // a server that has no execute permission is asked for READ.
  const uint32_t supported = answer.resok4.supported;
  uint32_t allowed = (answer.resok4.access & supported) | (kEveryAccess & ~supported);
  if ((supported & nfs4::ACCESS4_EXECUTE) == 0 && (allowed & nfs4::ACCESS4_READ) == 0)
    allowed &= ~nfs4::ACCESS4_EXECUTE;
  std::lock_guard lock(n.mutex);
  n.access = {.uid = ctx.credential->uid(),
              .gid = ctx.credential->gid(),
              .groups = ctx.credential->groups(),
              .allowed = allowed,
              .change = change,
              .expires = Clock::now() + limits(S_ISDIR(n.attributes.get().mode)).min};
  return n.access.allowed;
}

Task<Result<>> Nfs4Filesystem::access(RequestContext ctx, NodeRef node, int mask) {
  NFSRDMA_CO_TRY(co_await revalidate(ctx, node));
  const Attributes attributes = known_attributes(node);
  const bool directory = is_directory(attributes);
  uint32_t wanted = 0;
  if ((mask & R_OK) != 0) wanted |= nfs4::ACCESS4_READ;
  if ((mask & W_OK) != 0) wanted |= nfs4::ACCESS4_MODIFY | nfs4::ACCESS4_EXTEND;
  if ((mask & X_OK) != 0) wanted |= directory ? nfs4::ACCESS4_LOOKUP : nfs4::ACCESS4_EXECUTE;
  if (wanted == 0) co_return Result<>{};  // F_OK: it exists
  co_return co_await require_access(ctx, node, wanted, "ACCESS");
}

Task<Result<>> Nfs4Filesystem::require_access(RequestContext ctx, NodeRef node, uint32_t wanted,
                                              const char* op) {
  auto bits = co_await access_bits(ctx, node, wanted);
  if (!bits) co_return fail(std::move(bits.error()));
  if (*bits != wanted) co_return fail(system_error(EACCES, op));
  co_return Result<>{};
}

bool Nfs4Filesystem::all_may_search(const Attributes& directory) const {
  constexpr uint32_t kEverybody = S_IXUSR | S_IXGRP | S_IXOTH;
  uint32_t needed = kEverybody;
  if (!options_.many_users) {
    const auto& groups = machine_->groups();
    const bool member = directory.gid == machine_->gid() ||
                        std::find(groups.begin(), groups.end(), directory.gid) != groups.end();
    needed = directory.uid == machine_->uid() ? S_IXUSR : member ? S_IXGRP : S_IXOTH;
  }
  return (directory.mode & needed) == needed;
}

Task<Result<>> Nfs4Filesystem::check_search(RequestContext ctx, NodeRef directory) {
  if (all_may_search(known_attributes(directory))) co_return Result<>{};
  co_return co_await require_access(ctx, directory, nfs4::ACCESS4_LOOKUP, "LOOKUP");
}

}  // namespace nfsrdma::client
