// SPDX-License-Identifier: Apache-2.0
#include "fuse/adaptor.h"

#include <fmt/core.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <exception>

#include "fuse/thread_status.h"
#include "transport/runtime/log.h"

namespace nfsrdma::fuse {

using namespace client;

Adaptor::Adaptor(FuseOptions o, Filesystem& fs, LoopPool& loops, BufferPool& p)
    : options(std::move(o)),
      filesystem(fs),
      pool(p),
      repeated_opens(fs),
      credentials(options.machine_name, options.caller_credentials),
      errors(options.source, options.mount_point),
      handshake(options) {
  for (unsigned i = 0; i < loops.size(); ++i) {
    Loop& loop = loops[i];
    sides.push_back(
        {&loop, std::make_shared<LoopRequests>(loop, fs, errors, inspector, tracer, options.soft_limit),
         std::make_unique<DeviceReader>(loop, p, options.max_write, [&fs] { fs.memory_refused(); })});
  }
}

std::unique_ptr<TracedOperation> Adaptor::describe(const About& about, pid_t thread) const {
  auto traced = std::make_unique<TracedOperation>();
  // Read /proc now: the thread's process may be gone when a watcher shows the record.
  if (const auto status = read_thread_status(thread)) {
    traced->process = status->process;
    traced->command = status->name;
  }
  traced->node = inodes.node(about.inode);
  if (about.name != nullptr) traced->name = about.name;
  traced->offset = about.offset;
  traced->size = about.size;
  if (about.other_name != nullptr) {
    traced->other_node = inodes.node(about.other_inode);
    traced->other_name = about.other_name;
  }
  return traced;
}

std::string Adaptor::path_of(NodeRef node, std::string name) const {
  constexpr int kDeepest = 256;  // ends the walk if the server's names lead in a circle
  const NodeRef root = inodes.node(InodeTable::kRootId);
  std::string path = std::move(name);
  for (int depth = 0; node != root; ++depth) {
    Whereabouts at = filesystem.whereabouts(node);
    if (!at.directory || depth == kDeepest)
      return fmt::format("inode {}{}{}", at.ino, path.empty() ? "" : "/", path);
    path = path.empty() ? std::move(at.name) : at.name + '/' + path;
    node = std::move(at.directory);
  }
  return '/' + path;
}

void Adaptor::report_exception(Operation operation) noexcept {
  try {
    throw;
  } catch (const std::exception& e) {
    log::error("fuse: {}: {}", name_of(operation), e.what());
  } catch (...) {
    log::error("fuse: {}: unknown exception", name_of(operation));
  }
}

RequestContext Adaptor::context(const FuseRequest& request) {
  return {credentials.get(request.caller()), nullptr, static_cast<uint32_t>(request.caller().tid)};
}

RequestContext Adaptor::changing(FuseRequest& request) {
  RequestContext ctx = context(request);
  ctx.cancellation = request.make_cancellable(false);
  return ctx;
}

void Adaptor::changed(const FuseRequest& request, const NodeRef& directory, const std::string& name) const {
  if (!request.answered()) return;
  front_end->invalidate_entry(directory, name);
  front_end->invalidate_attributes(directory);
}

void Adaptor::changed(const FuseRequest& request, const NodeRef& node) const {
  if (request.answered()) front_end->invalidate_data(node);
}

struct stat Adaptor::to_stat(const Attributes& a) const {
  struct stat st {};
  st.st_ino = a.ino;
  st.st_mode = a.mode;
  st.st_nlink = a.nlink;
  st.st_uid = ids.inner_user(a.uid);
  st.st_gid = ids.inner_group(a.gid);
  st.st_rdev = makedev(a.rdev_major, a.rdev_minor);
  st.st_size = static_cast<off_t>(a.size);
  st.st_blocks = static_cast<blkcnt_t>((a.used + 511) / 512);
  st.st_blksize = options.block_size;
  st.st_atim = a.atime;
  st.st_mtim = a.mtime;
  st.st_ctim = a.ctime;
  return st;
}

fuse_entry_param Adaptor::entry_param(const Entry& entry) {
  fuse_entry_param e{};
  e.entry_timeout = lifetime(entry.entry_ttl);
  if (!entry.node) return e;  // a negative entry, cached for entry_timeout
  e.ino = inodes.id(entry.node);
  e.generation = inodes.generation(entry.node);
  e.attr = to_stat(entry.attributes);
  e.attr_timeout = lifetime(entry.attributes_ttl);
  return e;
}

void Adaptor::answer_entry(FuseRequest& request, const Result<Entry>& entry) {
  if (!entry) return request.fail(entry.error());
  // If the request was answered early the kernel counts no lookup.
  if (request.answered()) return;
  const fuse_entry_param e = entry_param(*entry);
  if (entry->node) {
    inodes.add_lookup(entry->node);
    inodes.size_doubts().told(*entry->node.get(), request.started());
  }
  if (!request.entry(e) && entry->node) {
    request.counters().undone.add();
    inodes.take_back(entry->node);
  }
}

namespace {

Task<> release_file(Adaptor& a, std::unique_ptr<FileHandle> handle) {
  FileUse use = handle->use();
  handle.reset();
  auto released = a.filesystem.release(Adaptor::context(use.credential), use.file);
  co_await std::move(released);
}

}  // namespace

Task<> Adaptor::release_directory(client::Filesystem& filesystem, std::unique_ptr<DirectoryHandle> handle) {
  client::OpenDirectoryRef directory = handle->directory;
  if (const auto late = handle->late) {
    auto locking = late->mutex.lock();
    const AsyncMutex::Guard guard = co_await std::move(locking);
    directory = late->directory;
  }
  if (!directory) co_return;
  auto released = filesystem.releasedir(std::move(directory));
  co_await std::move(released);
}

void Adaptor::release_everything() {
  Loop& loop = *Loop::current();
  for (auto& handle : files.take_all()) loop.spawn(release_file(*this, std::move(handle)));
  repeated_opens.release_all();
  for (auto& handle : directories.take_all()) loop.spawn(release_directory(filesystem, std::move(handle)));
}

std::optional<bool> Adaptor::root_access_by_mode(const rpc::Credential& who, int mask) const {
  const std::optional<client::AttributesReply> known = root_attributes.known();
  if (!known) return std::nullopt;
  if (who.uid() == 0) return true;
  const client::Attributes& root = known->attributes;
  const auto& groups = who.groups();
  const bool group =
      who.gid() == root.gid || std::find(groups.begin(), groups.end(), root.gid) != groups.end();
  const uint32_t shift = who.uid() == root.uid ? 6 : group ? 3 : 0;
  return (static_cast<uint32_t>(mask) & ~(root.mode >> shift) & 7u) == 0;
}

uint64_t Adaptor::heard() const {
  uint64_t sum = 0;
  for (const rpc::TransportStatus& t : filesystem.statistics().transports)
    sum += t.replies + t.bytes_received;
  return sum;
}

}  // namespace nfsrdma::fuse
