// REMOVE and RENAME, and the silly rename that keeps an open file usable where the server would not (RFC 8881
// sections 18.25, 18.26; OPEN4_RESULT_PRESERVE_UNLINKED in 18.16).
#include <atomic>
#include <cerrno>

#include "client/nfs4/nfs4_filesystem.h"
#include "transport/runtime/log.h"
#include "xdr/nfs4/dir_ops.h"
#include "xdr/nfs4/handle_ops.h"

namespace nfsrdma::client {
namespace {

// ".nfs" and a number, as every NFS client names them and cleaning scripts know them.
std::string hidden_name(const Nfs4Node& node) {
  static std::atomic<uint32_t> count{0};
  const uint64_t unique = static_cast<uint64_t>(Clock::now().time_since_epoch().count());
  return fmt::format(".nfs{:016x}{:08x}", std::hash<std::string_view>{}(node.handle()) ^ unique,
                     count.fetch_add(1));
}

}  // namespace

Task<Result<>> Nfs4Filesystem::unlink(RequestContext ctx, NodeRef directory, std::string name) {
  auto hidden = co_await hide_open_file(ctx, directory, name, Hide::kMove);
  if (!hidden) co_return fail(std::move(hidden.error()));
  if (*hidden) co_return Result<>{};
  co_return co_await remove(ctx, directory, std::move(name), false);
}

Task<Result<>> Nfs4Filesystem::rmdir(RequestContext ctx, NodeRef directory, std::string name) {
  co_return co_await remove(ctx, directory, std::move(name), true);
}

Task<Result<>> Nfs4Filesystem::remove(RequestContext ctx, NodeRef directory, std::string name,
                                      bool is_directory) {
  const nfs4::nfs_fh4 fh = fh_of(directory);
  const uint64_t order = nodes_.next_start();
  // The file under the name: its link count changes. Unlinked data need not be written back.
  NodeRef victim;
  if (auto found = nodes_.names().find(*directory.get(), name)) victim = found->child;
  auto build = [&](CompoundBuilder& b) { b.putfh(fh).add(nfs4::REMOVE4args{name}).getattr(kFileAttributes); };
  const Request request{nfs4::OP_REMOVE, ctx.credential, true, build, {}};
  Result<CompoundReply> reply = co_await session_.run(request);
  if (!reply) co_return fail(std::move(reply.error()));
  if (Result<> put = reply->expect<nfs4::PUTFH4res>(); !put)
    co_return fail(gone(directory, std::move(put.error())));
  auto removed = reply->take<nfs4::REMOVE4res>();
  if (!removed) {
    nodes_.names().remove(*directory.get(), name);
    // Executed before the server restarted; its answer was lost with it.
    if (reply->maybe_executed_before && removed.error().is_status(nfs4::NFS4ERR_NOENT)) co_return Result<>{};
    // Section 18.25.4: a directory that is not empty may be reported either way.
    if (is_directory && removed.error().is_status(nfs4::NFS4ERR_EXIST)) removed.error().errnum = ENOTEMPTY;
    co_return fail(std::move(removed.error()));
  }
  auto after = reply->take<nfs4::GETATTR4res>();
  const NameBelief belief =
      co_await directory_changed(directory, removed->resok4.cinfo, std::move(after), order);
  nodes_.names().put(*directory.get(), name, nullptr, belief);
  if (victim) {
    std::lock_guard lock(nfs4_node(victim).mutex);
    nfs4_node(victim).attributes.expire();
  }
  co_return Result<>{};
}

Task<Result<bool>> Nfs4Filesystem::hide_open_file(RequestContext ctx, NodeRef directory, std::string name,
                                                  Hide how) {
  auto found = nodes_.names().find(*directory.get(), name);
  if (!found || !found->child) co_return false;
  const NodeRef node = found->child;
  std::shared_ptr<FileState> file;
  {
    std::lock_guard lock(nfs4_node(node).mutex);
    file = nfs4_node(node).file;
    if (!file || file->opens.empty() || file->preserve_unlinked) co_return false;
    // As the Linux client: what rm -r finds under this name is still in use.
    if (file->hidden_name == name && file->hidden_directory == directory)
      co_return fail(system_error(EBUSY, "REMOVE", "the file was removed before and is still open"));
    if (!file->hidden_name.empty()) co_return false;
  }
  // close(2) returns before its RELEASE is done. A CLOSE that is under way is cheaper to wait for than RENAME
  // and a second REMOVE.
  auto closing = co_await file->open_mutex.lock();
  closing.unlock();
  {
    std::lock_guard lock(nfs4_node(node).mutex);
    if (file->opens.empty()) co_return false;
  }
  // Whether another name keeps the file alive is worth asking: a hidden name would be counted as a link.
  NFSRDMA_CO_TRY(co_await revalidate(ctx, node));
  {
    std::lock_guard lock(nfs4_node(node).mutex);
    const Attributes& a = nfs4_node(node).attributes.get();
    if (a.nlink > 1) co_return false;
  }
  const std::string hidden = hidden_name(nfs4_node(node));
  bool moved = how == Hide::kMove;
  if (!moved) {
    Result<Entry> linked = co_await link(ctx, node, directory, hidden);
    moved = !linked;  // a server without hard links
  }
  if (moved) {
    Result<> renamed = co_await rename_on_server(ctx, directory, name, directory, hidden);
    if (!renamed) co_return fail(std::move(renamed.error()));
  }
  bool still_open = false;
  {
    std::lock_guard lock(nfs4_node(node).mutex);
    still_open = !file->opens.empty();
    if (still_open) {
      file->hidden_directory = directory;
      file->hidden_name = hidden;
      file->hidden_by = ctx.credential;
    }
  }
  if (!still_open) co_await remove_hidden(ctx.credential, directory, hidden);
  co_return true;
}

Task<> Nfs4Filesystem::remove_hidden(rpc::CredentialPtr credential, NodeRef directory, std::string name) {
  const RequestContext ctx{std::move(credential), nullptr};  // named: g++ 12 destroys such temporaries twice
  Result<> removed = co_await remove(ctx, directory, name, false);
  if (!removed && removed.error().errnum != ENOENT) {
    log::warn("\"{}\", a file that was removed while it was open, is still on the server: {}", name,
              describe(removed.error()));
  }
}

Task<Result<>> Nfs4Filesystem::rename(RequestContext ctx, NodeRef from_directory, std::string from,
                                      NodeRef to_directory, std::string to, unsigned flags) {
  // RENAME always replaces (section 18.26.3); looking first and renaming then would be a lie.
  if (flags != 0) co_return fail(system_error(EINVAL, "RENAME", "the protocol has no rename with flags"));
  if (to.size() > name_max_) co_return fail(system_error(ENAMETOOLONG, "RENAME"));
  // A rename onto another name of the same file does nothing (POSIX), so nothing is to be hidden.
  auto source = nodes_.names().find(*from_directory.get(), from);
  auto target = nodes_.names().find(*to_directory.get(), to);
  if (target && target->child && !(source && source->child == target->child)) {
    // Its name must stand until the RENAME replaces it, and for good if that fails.
    const NodeRef replaced = target->child;
    auto hidden = co_await hide_open_file(ctx, to_directory, to, Hide::kBeside);
    if (!hidden) co_return fail(std::move(hidden.error()));
    auto renamed = co_await rename_on_server(ctx, from_directory, std::move(from), to_directory, to);
    if (!renamed && *hidden) co_await show_again(ctx, replaced, to_directory, to);
    co_return renamed;
  }
  co_return co_await rename_on_server(ctx, from_directory, std::move(from), to_directory, std::move(to));
}

Task<> Nfs4Filesystem::show_again(RequestContext ctx, NodeRef node, NodeRef directory, std::string name) {
  std::string hidden;
  {
    std::lock_guard lock(nfs4_node(node).mutex);
    FileState* file = nfs4_node(node).file.get();
    if (file == nullptr || file->hidden_name.empty() || file->hidden_directory != directory) co_return;
    hidden = std::exchange(file->hidden_name, {});
    file->hidden_directory = {};
    file->hidden_by = {};
  }
  auto there = co_await lookup_on_server(ctx, directory, name);
  if (there && there->node == node) co_return co_await remove_hidden(ctx.credential, directory, hidden);
  Result<> back = co_await rename_on_server(ctx, directory, hidden, directory, name);
  if (!back) log::warn("\"{}\" is now called \"{}\": {}", name, hidden, describe(back.error()));
}

Task<Result<>> Nfs4Filesystem::rename_on_server(RequestContext ctx, NodeRef from_directory, std::string from,
                                                NodeRef to_directory, std::string to) {
  const nfs4::nfs_fh4 from_fh = fh_of(from_directory);
  const nfs4::nfs_fh4 to_fh = fh_of(to_directory);
  const bool one_directory = from_directory == to_directory;
  const uint64_t order = nodes_.next_start();
  NodeRef moved, replaced;
  if (auto found = nodes_.names().find(*from_directory.get(), from)) moved = found->child;
  if (auto found = nodes_.names().find(*to_directory.get(), to)) replaced = found->child;
  auto build = [&](CompoundBuilder& b) {
    b.putfh(from_fh)
        .add(nfs4::SAVEFH4args{})
        .putfh(to_fh)
        .add(nfs4::RENAME4args{from, to})
        .getattr(kFileAttributes);
    if (!one_directory) b.add(nfs4::RESTOREFH4args{}).getattr(kFileAttributes);
  };
  const Request request{nfs4::OP_RENAME, ctx.credential, true, build, {}};
  Result<CompoundReply> reply = co_await session_.run(request);
  if (!reply) co_return fail(std::move(reply.error()));
  NFSRDMA_CO_TRY(reply->expect<nfs4::PUTFH4res>());
  NFSRDMA_CO_TRY(reply->expect<nfs4::SAVEFH4res>());
  NFSRDMA_CO_TRY(reply->expect<nfs4::PUTFH4res>());
  auto renamed = reply->take<nfs4::RENAME4res>();
  if (!renamed) {
    nodes_.names().remove(*from_directory.get(), from);
    nodes_.names().remove(*to_directory.get(), to);
    if (reply->maybe_executed_before && moved && renamed.error().is_status(nfs4::NFS4ERR_NOENT)) {
      // Executed before the server restarted if what we renamed now stands under the new name.
      Result<Entry> there = co_await lookup_on_server(ctx, to_directory, to);
      if (there && there->node == moved) co_return Result<>{};
    }
    // Section 18.26.3: a RENAME replaces; what it cannot replace, and calls EXIST, is a directory that is not
    // empty.
    if (renamed.error().is_status(nfs4::NFS4ERR_EXIST)) renamed.error().errnum = ENOTEMPTY;
    co_return fail(std::move(renamed.error()));
  }
  auto target_after = reply->take<nfs4::GETATTR4res>();
  const NameBelief to_belief =
      co_await directory_changed(to_directory, renamed->resok4.target_cinfo, std::move(target_after), order);
  NameBelief from_belief = to_belief;
  if (!one_directory) {
    NFSRDMA_CO_TRY(reply->expect<nfs4::RESTOREFH4res>());
    auto source_after = reply->take<nfs4::GETATTR4res>();
    from_belief = co_await directory_changed(from_directory, renamed->resok4.source_cinfo,
                                             std::move(source_after), order);
  }
  if (moved != replaced || !moved) {
    nodes_.names().put(*from_directory.get(), from, nullptr, from_belief);
    if (moved) {
      nodes_.names().put(*to_directory.get(), to, moved.get(), to_belief);
    } else {
      // To what is not known: as after a change of ours that is forgotten.
      nodes_.names().put(*to_directory.get(), to, nullptr, to_belief);
      nodes_.names().remove(*to_directory.get(), to);
    }
  }
  for (const NodeRef& node : {moved, replaced}) {
    if (!node) continue;
    std::lock_guard lock(nfs4_node(node).mutex);
    nfs4_node(node).attributes.expire();
  }
  co_return Result<>{};
}

}  // namespace nfsrdma::client
