// SPDX-License-Identifier: Apache-2.0
// CREATE and READLINK (RFC 8881 sections 18.4, 18.24).
#include <algorithm>
#include <cerrno>

#include "client/core/names/name_errors.h"
#include "client/core/names/valid_name.h"
#include "client/nfs4/ops/nfs4_filesystem.h"
#include "transport/runtime/mutex.h"
#include "xdr/nfs4/dir_ops.h"
#include "xdr/nfs4/file_ops.h"
#include "xdr/nfs4/handle_ops.h"

namespace nfsrdma::client::nfs4 {

Task<Result<std::string>> Nfs4Filesystem::readlink(RequestContext ctx, NodeRef node) {
  const nfs4::nfs_fh4 fh = fh_of(node);
  auto build = [&](CompoundBuilder& b) { b.putfh(fh).add(nfs4::READLINK4args{}); };
  const Request request{.op = nfs4::OP_READLINK, .credential = ctx.credential, .build = build};
  Result<CompoundReply> reply = co_await session_.run(request);
  NFSRDMA_CO_TRY(recorder_.take_handle(reply, node));
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

Task<Result<Entry>> Nfs4Filesystem::create_object(RequestContext ctx, NodeRef directory, std::string name,
                                                  nfs4::createtype4 type, uint32_t mode) {
  NFSRDMA_CO_TRY(check_new_name(name, protocol_.limits_of(directory).name_max, "CREATE"));
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
    replies_.ask_of_made(b, fh);
  };
  NameService::NameToBe to_be(names_, directory, name);
  const Request request = change_request(nfs4::OP_CREATE, ctx, build);
  Result<CompoundReply> reply = co_await session_.run(request);
  NFSRDMA_CO_TRY(recorder_.take_handle(reply, directory));
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
  auto after = ReplyAttributes::take_directory_of_made(*reply);
  const uint64_t change = attributes->resok4.obj_attributes.change;
  const NameBelief belief =
      co_await recorder_.directory_changed(directory, created->resok4.cinfo, after, order);
  Entry entry = co_await recorder_.make_entry(handle->resok4.object, attributes->resok4.obj_attributes, order,
                                              Cause::kAsked);
  recorder_.take_access_of_made(ctx, entry.node, *reply, change);
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
  // The server may have restarted after it executed CREATE and before it replied. The existing object is ours
  // if three things hold: it is what we asked for; it has the owner that the server gives our objects; and it
  // is not older than the request. Its age is compared with the directory's ctime, which comes from the same
  // clock.
  Result<Entry> there = co_await names_.lookup_on_server(ctx, directory, name);
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

}  // namespace nfsrdma::client::nfs4
