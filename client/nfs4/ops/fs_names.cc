// SPDX-License-Identifier: Apache-2.0
// Names: LOOKUP, CREATE, LINK, READLINK and the name cache (RFC 8881 sections 10.8, 18.4, 18.9, 18.13,
// 18.24).
//
// A cached name is valid while its directory's attributes are fresh and the directory has the change
// attribute under which the name was learnt. Our own changes bring the directory's new attributes in the same
// COMPOUND, so the names stay valid. A change by another client shows as another change attribute and ends
// the epoch of the names. An answer belongs to the epoch of the directory's attributes that precede it in its
// COMPOUND.
#include <algorithm>
#include <cerrno>

#include "client/core/names/name_errors.h"
#include "client/core/names/valid_name.h"
#include "client/nfs4/ops/nfs4_filesystem.h"
#include "transport/runtime/log.h"
#include "transport/runtime/mutex.h"
#include "xdr/nfs4/dir_ops.h"
#include "xdr/nfs4/file_ops.h"
#include "xdr/nfs4/handle_ops.h"

namespace nfsrdma::client::nfs4 {
namespace {

// The operations of the longest COMPOUND with ask_of_made(), SEQUENCE included, and one in reserve.
constexpr uint32_t kOperationsWithAccess = 11;

Error name_error(int errnum, const char* op) {
  return system_error(errnum, op);
}

}  // namespace

Task<NameBelief> Nfs4Filesystem::directory_changed(NodeRef directory, nfs4::change_info4 info,
                                                   Result<nfs4::GETATTR4res> after, uint64_t order) {
  std::optional<Attributes> attributes;
  if (after) {
    Task<Attributes> converting =
        as_cached(std::move(after->resok4.obj_attributes), nfs4_node(directory).export_index());
    attributes = co_await std::move(converting);
  }
  co_return co_await names_.record_own_change(directory, info.before, info.after, info.atomic, attributes,
                                              order);
}

Task<Result<Entry>> Nfs4Filesystem::lookup_on_server(RequestContext ctx, NodeRef directory,
                                                     std::string name) {
  const nfs4::nfs_fh4 fh = fh_of(directory);
  const uint64_t order = nodes_.next_start();
  NameBelief belief{Clock::now(), 0, order};
  auto build = [&](CompoundBuilder& b) {
    b.putfh(fh)
        .getattr(kFileAttributes)
        .add(nfs4::LOOKUP4args{name})
        .add(nfs4::GETFH4args{})
        .getattr(kFileAttributes)
        .add(nfs4::ACCESS4args{kEveryAccess});
  };
  const Request request{.op = nfs4::OP_LOOKUP, .credential = ctx.credential, .build = build};
  Result<CompoundReply> reply = co_await session_.run(request);
  if (!reply) co_return fail(std::move(reply.error()));
  if (Result<> put = reply->expect<nfs4::PUTFH4res>(); !put)
    co_return fail(attributes_.gone(directory, std::move(put.error())));
  auto of_directory = reply->take<nfs4::GETATTR4res>();
  if (!of_directory) co_return fail(std::move(of_directory.error()));
  const uint64_t change = of_directory->resok4.obj_attributes.change;
  co_await apply(directory, std::move(of_directory->resok4.obj_attributes), order, Cause::kAsked);
  belief.epoch = NameService::names_epoch(directory, change);

  Result<> looked_up = reply->expect<nfs4::LOOKUP4res>();
  if (!looked_up) {
    if (!looked_up.error().is_status(nfs4::NFS4ERR_NOENT))
      co_return fail(because_of_names(std::move(looked_up.error()), name));
    const NodeRef nobody;
    co_return names_.learnt_entry(directory, name, nobody, belief);
  }
  auto handle = reply->take<nfs4::GETFH4res>();
  if (!handle) co_return fail(std::move(handle.error()));
  auto attributes = reply->take<nfs4::GETATTR4res>();
  if (!attributes) co_return fail(std::move(attributes.error()));
  const uint64_t child_change = attributes->resok4.obj_attributes.change;
  const Entry entry = co_await make_entry(handle->resok4.object, std::move(attributes->resok4.obj_attributes),
                                          order, Cause::kAsked);
  if (auto access = reply->take<nfs4::ACCESS4res>())
    access_.note_access(ctx, nfs4_node(entry.node), access->resok4.supported, access->resok4.access,
                        child_change);
  co_return names_.learnt_entry(directory, name, entry.node, belief);
}

Task<Result<std::string>> Nfs4Filesystem::readlink(RequestContext ctx, NodeRef node) {
  const nfs4::nfs_fh4 fh = fh_of(node);
  auto build = [&](CompoundBuilder& b) { b.putfh(fh).add(nfs4::READLINK4args{}); };
  const Request request{.op = nfs4::OP_READLINK, .credential = ctx.credential, .build = build};
  Result<CompoundReply> reply = co_await session_.run(request);
  if (!reply) co_return fail(std::move(reply.error()));
  if (Result<> put = reply->expect<nfs4::PUTFH4res>(); !put)
    co_return fail(attributes_.gone(node, std::move(put.error())));
  auto res = reply->take<nfs4::READLINK4res>();
  if (!res) co_return fail(std::move(res.error()));
  std::string& text = res->resok4.link;
  // For the kernel a link's target is a C string. A target that cannot be one is an error; it is not
  // truncated.
  if (text.empty() || text.find('\0') != std::string::npos)
    co_return fail(system_error(EIO, "READLINK", "the target is not a path"));
  if (text.size() >= 4096) co_return fail(system_error(ENAMETOOLONG, "READLINK"));
  co_return std::move(text);
}

Task<Result<Entry>> Nfs4Filesystem::mknod(RequestContext ctx, NodeRef directory, std::string name,
                                          uint32_t mode, uint32_t rdev_major, uint32_t rdev_minor) {
  if (S_ISREG(mode)) {
    // OPEN creates a regular file; the descriptor is released at once.
    auto created =
        co_await create(ctx, directory, std::move(name), mode & 07777, O_WRONLY | O_CREAT | O_EXCL);
    if (!created) co_return fail(std::move(created.error()));
    co_await release(ctx, created->open.file);
    co_return std::move(created->entry);
  }
  nfs4::createtype4 type;
  switch (mode & S_IFMT) {
    case S_IFBLK: type.type = nfs4::NF4BLK; break;
    case S_IFCHR: type.type = nfs4::NF4CHR; break;
    case S_IFSOCK: type.type = nfs4::NF4SOCK; break;
    case S_IFIFO: type.type = nfs4::NF4FIFO; break;
    default: co_return fail(system_error(EINVAL, "CREATE", "a file type that does not exist"));
  }
  type.devdata = {rdev_major, rdev_minor};
  co_return co_await create_object(ctx, directory, std::move(name), std::move(type), mode & 07777);
}

Task<Result<Entry>> Nfs4Filesystem::mkdir(RequestContext ctx, NodeRef directory, std::string name,
                                          uint32_t mode) {
  nfs4::createtype4 type;
  type.type = nfs4::NF4DIR;
  co_return co_await create_object(ctx, directory, std::move(name), std::move(type), mode & 07777);
}

Task<Result<Entry>> Nfs4Filesystem::symlink(RequestContext ctx, NodeRef directory, std::string name,
                                            std::string target) {
  nfs4::createtype4 type;
  type.type = nfs4::NF4LNK;
  type.linkdata = std::move(target);
  co_return co_await create_object(ctx, directory, std::move(name), std::move(type), 0777);
}

void Nfs4Filesystem::ask_of_made(CompoundBuilder& b, const nfs4::nfs_fh4& directory) const {
  b.add(nfs4::SAVEFH4args{}).putfh(directory).getattr(kFileAttributes);
  if (session_.fore_channel().operations() < kOperationsWithAccess) return;
  b.add(nfs4::RESTOREFH4args{}).add(nfs4::ACCESS4args{kEveryAccess});
}

Result<nfs4::GETATTR4res> Nfs4Filesystem::take_directory_of_made(CompoundReply& reply) {
  if (Result<> saved = reply.expect<nfs4::SAVEFH4res>(); !saved) return fail(std::move(saved.error()));
  if (Result<> put = reply.expect<nfs4::PUTFH4res>(); !put) return fail(std::move(put.error()));
  return reply.take<nfs4::GETATTR4res>();
}

void Nfs4Filesystem::take_access_of_made(const RequestContext& ctx, const NodeRef& node, CompoundReply& reply,
                                         uint64_t change) {
  if (!reply.expect<nfs4::RESTOREFH4res>()) return;
  if (const auto access = reply.take<nfs4::ACCESS4res>())
    access_.note_access(ctx, nfs4_node(node), access->resok4.supported, access->resok4.access, change);
}

Task<Result<Entry>> Nfs4Filesystem::create_object(RequestContext ctx, NodeRef directory, std::string name,
                                                  nfs4::createtype4 type, uint32_t mode) {
  if (!valid_name(name)) co_return fail(name_error(EINVAL, "CREATE"));
  if (name.size() > limits_of(directory).name_max) co_return fail(name_error(ENAMETOOLONG, "CREATE"));
  const nfs4::nfs_fh4 fh = fh_of(directory);
  const uint64_t order = nodes_.next_start();
  const timespec since = AttributeService::known_attributes(directory).ctime;
  nfs4::CREATE4args args;
  args.objtype = type;
  args.objname = name;
  args.createattrs.attrmask.set(nfs4::FATTR4_MODE);
  args.createattrs.mode = mode;
  auto build = [&](CompoundBuilder& b) {
    b.putfh(fh).add(args).add(nfs4::GETFH4args{}).getattr(kFileAttributes);
    ask_of_made(b, fh);
  };
  NameService::NameToBe to_be(names_, directory, name);
  const Request request{.op = nfs4::OP_CREATE,
                        .credential = ctx.credential,
                        .cache_this = true,
                        .build = build,
                        .cancellation = ctx.cancellation.get()};
  Result<CompoundReply> reply = co_await session_.run(request);
  if (!reply) co_return fail(std::move(reply.error()));
  if (Result<> put = reply->expect<nfs4::PUTFH4res>(); !put)
    co_return fail(attributes_.gone(directory, std::move(put.error())));
  auto created = reply->take<nfs4::CREATE4res>();
  if (!created) {
    to_be.refused(created.error(), reply->maybe_executed_before);
    if (reply->maybe_executed_before && created.error().is_status(nfs4::NFS4ERR_EXIST)) {
      to_be.in_doubt();
      const Wanted wanted{type, mode, since};
      co_return co_await maybe_own_object(ctx, directory, std::move(name), wanted,
                                          std::move(created.error()));
    }
    co_return fail(because_of_names(std::move(created.error()), name, args.objtype.linkdata));
  }
  auto handle = reply->take<nfs4::GETFH4res>();
  if (!handle) co_return fail(std::move(handle.error()));
  auto attributes = reply->take<nfs4::GETATTR4res>();
  if (!attributes) co_return fail(std::move(attributes.error()));
  auto after = take_directory_of_made(*reply);
  const uint64_t change = attributes->resok4.obj_attributes.change;
  const NameBelief belief =
      co_await directory_changed(directory, created->resok4.cinfo, std::move(after), order);
  Entry entry = co_await make_entry(handle->resok4.object, std::move(attributes->resok4.obj_attributes),
                                    order, Cause::kAsked);
  take_access_of_made(ctx, entry.node, *reply, change);
  note_owner(ctx.credential->uid(), entry.attributes.uid);
  to_be.made(*entry.node.get(), belief);
  entry.entry_ttl = names_.entry_ttl(directory, belief);
  co_return entry;
}

void Nfs4Filesystem::note_owner(uint32_t uid, uint32_t owner) {
  MutexLock lock(owners_mutex_);
  if (uid != owner) {
    owners_[uid] = owner;
  } else if (!owners_.empty()) {
    owners_.erase(uid);
  }
}

uint32_t Nfs4Filesystem::owner_of_new(uint32_t uid) const {
  MutexLock lock(owners_mutex_);
  const auto found = owners_.find(uid);
  return found == owners_.end() ? uid : found->second;
}

Task<Result<Entry>> Nfs4Filesystem::maybe_own_object(RequestContext ctx, NodeRef directory, std::string name,
                                                     Wanted wanted, Error error) {
  // The server restarted after it executed CREATE and before it replied. The existing object is ours if three
  // things hold: it is what we asked for; it has the owner that the server gives our objects; it is not older
  // than the request, by the directory's ctime, which comes from the same clock.
  Result<Entry> there = co_await lookup_on_server(ctx, directory, name);
  if (!there || !there->node) co_return fail(std::move(error));
  const Attributes& a = there->attributes;
  const nfs4::createtype4& type = wanted.type;
  bool same =
      (a.mode & S_IFMT) == file_type_bits(type.type) && a.uid == owner_of_new(ctx.credential->uid()) &&
      std::pair(a.ctime.tv_sec, a.ctime.tv_nsec) >= std::pair(wanted.since.tv_sec, wanted.since.tv_nsec);
  if (type.type != nfs4::NF4LNK) same = same && ((a.mode ^ wanted.mode) & 0777) == 0;
  if (type.type == nfs4::NF4BLK || type.type == nfs4::NF4CHR) {
    same = same && a.rdev_major == type.devdata.specdata1 && a.rdev_minor == type.devdata.specdata2;
  }
  if (same && type.type == nfs4::NF4DIR) {
    // Nobody knows our new directory yet, so it must be empty.
    auto opened = co_await opendir(ctx, there->node);
    if (!opened) co_return fail(std::move(error));
    auto page = co_await readdir(ctx, opened->directory, 0, 4096, false);
    co_await releasedir(std::move(opened->directory));
    same = page && std::all_of(page->entries.begin(), page->entries.end(),
                               [](const DirectoryEntry& e) { return e.name == "." || e.name == ".."; });
  }
  if (same && type.type == nfs4::NF4LNK) {
    auto target = co_await readlink(ctx, there->node);
    same = target && *target == type.linkdata;
  }
  if (!same) co_return fail(std::move(error));
  co_return there;
}

Task<Result<Entry>> Nfs4Filesystem::link(RequestContext ctx, NodeRef node, NodeRef directory,
                                         std::string name) {
  if (!valid_name(name)) co_return fail(name_error(EINVAL, "LINK"));
  if (name.size() > limits_of(directory).name_max) co_return fail(name_error(ENAMETOOLONG, "LINK"));
  co_await write_back_.settle_node(node);
  const nfs4::nfs_fh4 fh = fh_of(node);
  const nfs4::nfs_fh4 directory_fh = fh_of(directory);
  const uint64_t order = nodes_.next_start();
  bool asked = false;
  auto build = [&](CompoundBuilder& b) {
    b.putfh(fh);
    ask_change_before(b, node, asked);
    b.add(nfs4::SAVEFH4args{}).putfh(directory_fh).add(nfs4::LINK4args{name}).getattr(kFileAttributes);
    if (session_.fore_channel().operations() >= kOperationsWithAccess)
      b.add(nfs4::RESTOREFH4args{}).getattr(kFileAttributes);
  };
  NameService::NameToBe to_be(names_, directory, name);
  const Request request{.op = nfs4::OP_LINK,
                        .credential = ctx.credential,
                        .cache_this = true,
                        .build = build,
                        .cancellation = ctx.cancellation.get()};
  Result<CompoundReply> reply = co_await session_.run(request);
  if (!reply) {
    attributes_.expire(node);  // the server may have executed it
    co_return fail(std::move(reply.error()));
  }
  Result<> found = reply->expect<nfs4::PUTFH4res>();
  if (!found) co_return fail(attributes_.gone(node, std::move(found.error())));
  const auto before = take_change_before(*reply, asked);
  if (!before) co_return fail(before.error());
  NFSRDMA_CO_TRY(reply->expect<nfs4::SAVEFH4res>());
  found = reply->expect<nfs4::PUTFH4res>();
  if (!found) co_return fail(attributes_.gone(directory, std::move(found.error())));
  auto linked = reply->take<nfs4::LINK4res>();
  if (!linked) {
    to_be.refused(linked.error(), reply->maybe_executed_before);
    if (reply->maybe_executed_before && linked.error().is_status(nfs4::NFS4ERR_EXIST)) {
      to_be.in_doubt();
      Result<Entry> there = co_await lookup_on_server(ctx, directory, name);
      if (there && there->node == node) co_return there;
    }
    co_return fail(because_of_names(std::move(linked.error()), name));
  }
  auto after = reply->take<nfs4::GETATTR4res>();
  const NameBelief belief =
      co_await directory_changed(directory, linked->resok4.cinfo, std::move(after), order);
  to_be.made(*node.get(), belief);
  Result<nfs4::GETATTR4res> attributes = fail(Error{});
  if (reply->expect<nfs4::RESTOREFH4res>()) attributes = reply->take<nfs4::GETATTR4res>();
  if (attributes) {
    co_await apply(node, std::move(attributes->resok4.obj_attributes), order,
                   cause_of_own(node, order, asked), *before);
  } else {
    attributes_.expire(node);
  }
  co_return attributes_.cached_entry(node, names_.entry_ttl(directory, belief));
}

}  // namespace nfsrdma::client::nfs4
