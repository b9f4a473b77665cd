// SPDX-License-Identifier: Apache-2.0
// Removing and renaming, and the silly rename that keeps a removed file usable while it is open, for servers
// that do not do this themselves (RFC 8881 sections 18.25, 18.26 and OPEN4_RESULT_PRESERVE_UNLINKED in 18.16;
// RFC 1813 section 4.9).
#include "client/core/removals.h"

#include <atomic>
#include <cerrno>

#include "transport/runtime/log.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::client {
namespace {

// ".nfs" and a number: every NFS client uses this form, and cleanup scripts know it.
std::string hidden_name(const CachedNode& node) {
  static std::atomic<uint32_t> count{0};
  const uint64_t unique = static_cast<uint64_t>(Clock::now().time_since_epoch().count());
  return fmt::format(".nfs{:016x}{:08x}", std::hash<std::string_view>{}(node.handle()) ^ unique,
                     count.fetch_add(1));
}

// File names appear in the log from log_level=debug on.
std::string name_for_log(const std::string& name) {
  return log::on(log::Level::kDebug) ? "\"" + name + "\"" : std::string("a file that a failed rename left");
}

}  // namespace

Task<Result<>> Removals::unlink(RequestContext ctx, NodeRef directory, std::string name) {
  auto hidden = co_await hide_open_file(ctx, directory, name, Hide::kMove);
  if (!hidden) co_return fail(std::move(hidden.error()));
  if (*hidden) co_return Result<>{};
  co_return co_await names_.remove_on_server(ctx, directory, std::move(name), false);
}

Task<Result<>> Removals::rmdir(RequestContext ctx, NodeRef directory, std::string name) {
  const uint64_t before = hidden_removals_.count();
  const NodeRef sure = names_.directory_under(directory, name);
  const auto maybe = table_.names().find(*directory.get(), name);
  auto removed = co_await names_.remove_on_server(ctx, directory, name, true);
  if (!removed && removed.error().errnum == ENOTEMPTY) {
    if (!maybe || !maybe->child) co_return removed;
    const bool emptier = co_await hidden_removals_.over_since(before, maybe->child);
    if (!emptier) co_return removed;
    removed = co_await names_.remove_on_server(ctx, directory, std::move(name), true);
  }
  if (removed && !sure && maybe && maybe->child) {
    // The cached name was not valid, so ask the server whether it removed this directory.
    const Result<> there = co_await attributes_.fetch(ctx, maybe->child);
    if (!there && there.error().errnum == ESTALE) NameService::note_removed(maybe->child);
  }
  if (removed) NameService::note_removed(sure);
  co_return removed;
}

HiddenRemovals::Pending Removals::perhaps_last_close(const CachedFile& file) {
  MutexLock lock(file.cached.mutex);
  if (file.hidden_name.empty()) return {};
  return {hidden_removals_, file.hidden_directory};
}

Task<Result<bool>> Removals::hide_open_file(RequestContext ctx, NodeRef directory, std::string name,
                                            Hide how) {
  auto found = table_.names().find(*directory.get(), name);
  if (!found || !found->child) co_return false;
  const NodeRef node = found->child;
  CachedFileRef file;
  {
    MutexLock lock(cached_node(node).mutex);
    file = cached_node(node).cached_file();
    if (!file || !file->opened() || file->preserve_unlinked) co_return false;
    // As the Linux client: `rm -r` finds this name, but the file is still in use.
    if (file->hidden_name == name && file->hidden_directory == directory)
      co_return fail(system_error(EBUSY, "REMOVE", "the file was removed before and is still open"));
    if (!file->hidden_name.empty()) co_return false;
  }
  // close(2) returns before the kernel's RELEASE is processed. Waiting for a CLOSE in progress is cheaper
  // than a RENAME and a second REMOVE.
  auto closing = co_await file->open_mutex.lock();
  closing.unlock();
  {
    MutexLock lock(cached_node(node).mutex);
    if (!file->opened()) co_return false;
  }
  // Check whether another name keeps the file alive: with a silly rename the .nfs* name would count as a
  // link. Ask the server, because another client may have removed that name.
  const auto has_another_name = [&node] {
    MutexLock lock(cached_node(node).mutex);
    return cached_node(node).attributes.get().nlink > 1;
  };
  if (has_another_name()) {
    NFSRDMA_CO_TRY(co_await attributes_.fetch(ctx, node));
  } else {
    NFSRDMA_CO_TRY(co_await sweeper_.revalidate(ctx, node));
  }
  if (has_another_name()) co_return false;
  const std::string hidden = hidden_name(cached_node(node));
  bool moved = how == Hide::kMove;
  if (!moved) {
    Result<Entry> linked = co_await link(ctx, node, directory, hidden);
    if (!linked && linked.error().errnum == EINTR) {
      const bool made = co_await leads_to(ctx, directory, hidden, node);
      if (!made) co_return fail(std::move(linked.error()));
    } else {
      moved = !linked;  // the server has no hard links
    }
  }
  if (moved) {
    Result<> renamed = co_await names_.rename_on_server(ctx, directory, name, directory, hidden);
    bool done = renamed.has_value();
    if (!done && renamed.error().errnum == EINTR) done = co_await leads_to(ctx, directory, hidden, node);
    if (!done) co_return fail(std::move(renamed.error()));
  }
  bool still_open = false;
  {
    MutexLock lock(cached_node(node).mutex);
    still_open = file->opened();
    if (still_open) {
      file->hidden_directory = directory;
      file->hidden_name = hidden;
      file->hidden_by = ctx.credential;
    }
  }
  if (!still_open) co_await remove_hidden(ctx.credential, directory, hidden);
  co_return true;
}

Task<Result<Entry>> Removals::link(RequestContext ctx, NodeRef node, NodeRef directory, std::string name) {
  // The attributes of the answer must include our writes.
  co_await write_back_.settle_node(node);
  co_return co_await names_.link_on_server(std::move(ctx), std::move(node), std::move(directory),
                                           std::move(name));
}

Task<bool> Removals::leads_to(RequestContext ctx, NodeRef directory, std::string name, NodeRef node) {
  const Result<Entry> there = co_await names_.lookup_on_server(std::move(ctx), directory, std::move(name));
  co_return there && there->node == node;
}

Task<> Removals::remove_hidden(rpc::CredentialPtr credential, NodeRef directory, std::string name) {
  const RequestContext ctx{std::move(credential), nullptr};  // named: g++ 12 destroys such temporaries twice
  Result<> removed = co_await names_.remove_on_server(ctx, directory, name, false);
  if (!removed && removed.error().errnum != ENOENT) {
    // The name is our own, so the log may show it.
    log::warn("a file that was removed while it was open is still on the server, as \"{}\": {}", name,
              describe(removed.error()));
  }
  // The kernel did not ask for this removal and does not know about it.
  kernel_.invalidate_name(directory, std::move(name));
  kernel_.invalidate_attributes(directory);
}

Task<Result<>> Removals::rename(RequestContext ctx, NodeRef from_directory, std::string from,
                                NodeRef to_directory, std::string to, unsigned flags) {
  // RENAME always replaces (section 18.26.3). A LOOKUP before it would not be atomic.
  if (flags != 0) co_return fail(system_error(EINVAL, "RENAME", "the protocol has no rename with flags"));
  if (to.size() > protocol_.limits_of(to_directory).name_max)
    co_return fail(system_error(ENAMETOOLONG, "RENAME"));
  // A rename onto another name of the same file does nothing (POSIX), so there is nothing to hide.
  auto source = table_.names().find(*from_directory.get(), from);
  auto target = table_.names().find(*to_directory.get(), to);
  if (target && target->child && !(source && source->child == target->child)) {
    // The target's name must stay until the RENAME replaces it, and also if the RENAME fails.
    const NodeRef replaced = target->child;
    const NodeRef directory = names_.directory_under(to_directory, to);
    auto hidden = co_await hide_open_file(ctx, to_directory, to, Hide::kBeside);
    if (!hidden) co_return fail(std::move(hidden.error()));
    const uint64_t before = hidden_removals_.count();
    auto renamed = co_await names_.rename_on_server(ctx, from_directory, from, to_directory, to);
    if (!renamed && renamed.error().errnum == ENOTEMPTY) {
      const bool emptier = co_await hidden_removals_.over_since(before, replaced);
      if (emptier) renamed = co_await names_.rename_on_server(ctx, from_directory, from, to_directory, to);
    }
    if (!renamed && *hidden) co_await show_again(ctx, replaced, to_directory, to);
    if (renamed) NameService::note_removed(directory);
    co_return renamed;
  }
  co_return co_await names_.rename_on_server(ctx, from_directory, std::move(from), to_directory,
                                             std::move(to));
}

Task<> Removals::show_again(RequestContext ctx, NodeRef node, NodeRef directory, std::string name) {
  ctx.cancellation.reset();  // the silly rename must be undone even if nobody waits any more
  auto there = co_await names_.lookup_on_server(ctx, directory, name);
  if (there && there->node && there->node != node)
    co_return;  // the RENAME succeeded and its reply was lost: the file stays hidden
  std::string hidden;
  {
    MutexLock lock(cached_node(node).mutex);
    const CachedFileRef file = cached_node(node).cached_file();
    if (!file || file->hidden_name.empty() || file->hidden_directory != directory) co_return;
    hidden = std::exchange(file->hidden_name, {});
    file->hidden_directory = {};
    file->hidden_by = {};
  }
  if (there && there->node == node) co_return co_await remove_hidden(ctx.credential, directory, hidden);
  if (!there && there.error().errnum != ENOENT) {
    // A rename back could replace another file that has the name now.
    log::warn("{} may now be called \"{}\": {}", name_for_log(name), hidden, describe(there.error()));
    co_return;
  }
  Result<> back = co_await names_.rename_on_server(ctx, directory, hidden, directory, name);
  if (!back) log::warn("{} is now called \"{}\": {}", name_for_log(name), hidden, describe(back.error()));
}

Task<> Removals::remove_if_hidden(NodeRef node, CachedFileRef file) {
  NodeRef hidden_directory;
  std::string hidden;
  rpc::CredentialPtr hidden_by;
  {
    MutexLock lock(cached_node(node).mutex);
    if (!file->opened()) {
      if (!file->hidden_name.empty()) {
        hidden_directory = std::move(file->hidden_directory);
        hidden = std::exchange(file->hidden_name, {});
        hidden_by = std::move(file->hidden_by);
      }
    }
  }
  if (!hidden.empty()) co_await remove_hidden(hidden_by, hidden_directory, hidden);
}

}  // namespace nfsrdma::client
