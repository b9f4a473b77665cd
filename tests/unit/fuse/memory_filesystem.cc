// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/fuse/memory_filesystem.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>

#include "tests/unit/fuse/memory_nodes.h"
#include "transport/runtime/mutex.h"

namespace nfsrdma::fuse::test {

namespace {

struct Yield {
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> h) { Loop::current()->post(h); }
  void await_resume() const noexcept {}
};

}  // namespace

MemoryFilesystem::MemoryFilesystem(BufferPool& pool, Lifetimes lifetimes)
    : pool_(pool), lifetimes_(lifetimes) {
  RequestContext ctx;
  root_ = make(ctx, S_IFDIR | 0755);
  root_->attributes.uid = ::getuid();
  root_->attributes.gid = ::getgid();
  root_->attributes.nlink = 2;
}

MemoryFilesystem::~MemoryFilesystem() {
  assert(nodes_.empty());
}

// --- for tests

Entry MemoryFilesystem::root() {
  MutexLock lock(mutex_);
  return entry_of(root_);
}

void MemoryFilesystem::hold(const std::string& operation) {
  MutexLock lock(mutex_);
  held_.insert(operation);
}

void MemoryFilesystem::let_go(const std::string& operation) {
  MutexLock lock(mutex_);
  held_.erase(operation);
  gate_.notify_all();
}

void MemoryFilesystem::let_everything_go() {
  MutexLock lock(mutex_);
  held_.clear();
  gate_.notify_all();
}

void MemoryFilesystem::fail_with(const std::string& operation, int errnum) {
  MutexLock lock(mutex_);
  failures_[operation] = errnum;
}

// Every caller gets the error set by fail_with(), unless errors_taken_ says that another caller consumed it.
std::optional<Error> MemoryFilesystem::take_error(const OpenFileRef&) {
  MutexLock lock(mutex_);
  ++errors_told;
  if (errors_taken_) return std::nullopt;
  for (const char* operation : {"fsync", "flush"}) {
    if (const int errnum = failures_[operation]; errnum != 0) return refuse(errnum).value();
  }
  return std::nullopt;
}

size_t MemoryFilesystem::held(const std::string& operation) const {
  MutexLock lock(mutex_);
  const auto it = waiting_.find(operation);
  return it == waiting_.end() ? 0 : it->second;
}

size_t MemoryFilesystem::calls(const std::string& operation) const {
  MutexLock lock(mutex_);
  const auto it = calls_.find(operation);
  return it == calls_.end() ? 0 : it->second;
}

size_t MemoryFilesystem::live_nodes() const {
  MutexLock lock(mutex_);
  return nodes_.size();
}

size_t MemoryFilesystem::write_places() const {
  MutexLock lock(mutex_);
  return write_places_.size();
}

size_t MemoryFilesystem::locks(const std::string& path) const {
  MutexLock lock(mutex_);
  const InodePtr inode = find(path);
  return inode->locks.size() + inode->flocks.size();
}

NodeRef MemoryFilesystem::node(const std::string& path) {
  MutexLock lock(mutex_);
  return node_of(find(path));
}

void MemoryFilesystem::external_create(const std::string& name) {
  MutexLock lock(mutex_);
  InodePtr inode = make({}, S_IFREG | 0644);
  inode->parent = root_;
  attach(*root_, name, inode);
}

void MemoryFilesystem::external_write(const std::string& path, const std::string& data) {
  MutexLock lock(mutex_);
  const InodePtr inode = find(path);
  resize(*inode, data.size());
  store(*inode, 0, as_const_bytes(data));
  touch(*inode, true);
}

void MemoryFilesystem::external_remove(const std::string& path) {
  MutexLock lock(mutex_);
  const size_t slash = path.rfind('/');
  detach(*(slash == std::string::npos ? root_ : find(path.substr(0, slash))),
         slash == std::string::npos ? path : path.substr(slash + 1));
}

std::string MemoryFilesystem::contents(const std::string& path) const {
  MutexLock lock(mutex_);
  const InodePtr inode = find(path);
  std::string data(inode->attributes.size, '\0');
  load(*inode, 0, std::as_writable_bytes(std::span(data.data(), data.size())));
  return data;
}

rpc::CredentialPtr MemoryFilesystem::last_credential(const std::string& operation) const {
  MutexLock lock(mutex_);
  const auto it = credentials_.find(operation);
  return it == credentials_.end() ? nullptr : it->second;
}

Task<Result<>> MemoryFilesystem::enter(std::string operation, rpc::CredentialPtr credential) {
  {
    MutexLock lock(mutex_);
    ++calls_[operation];
    credentials_[operation] = credential;
  }
  if (asynchronous_) {
    Yield yield;
    co_await yield;
  }
  MutexLock lock(mutex_);
  while (held_.contains(operation)) {
    ++waiting_[operation];
    co_await gate_.wait(lock);
    lock.lock_again();
    --waiting_[operation];
  }
  const auto failure = failures_.find(operation);
  if (failure != failures_.end() && failure->second != 0) co_return refuse(failure->second);
  co_return Result<>{};
}

// --- nodes and names

NodeRef MemoryFilesystem::node_of(const InodePtr& inode) {
  MemoryNode*& node = nodes_[inode->attributes.ino];
  if (node != nullptr && NodeTableAccess::try_acquire(*node)) return NodeRef::adopt(node);
  // A Node whose last reference is just being released is replaced by a new one.
  node = new MemoryNode(*this, inode);
  return NodeRef(node);
}

void MemoryFilesystem::MemoryNode::last_reference() noexcept {
  {
    MutexLock lock(filesystem_.mutex_);
    const auto it = filesystem_.nodes_.find(inode_->attributes.ino);
    if (it != filesystem_.nodes_.end() && it->second == this) filesystem_.nodes_.erase(it);
  }
  delete this;
}

InodePtr MemoryFilesystem::inode_of(const NodeRef& node) {
  return static_cast<MemoryNode*>(node.get())->inode();
}

Entry MemoryFilesystem::entry_of(const InodePtr& inode) {
  return {node_of(inode), inode->attributes, lifetimes_.attributes, lifetimes_.entries};
}

InodePtr MemoryFilesystem::find(const std::string& path) const {
  InodePtr at = root_;
  for (size_t from = 0; from < path.size();) {
    const size_t end = std::min(path.find('/', from), path.size());
    at = at->names.at(path.substr(from, end - from)).inode;
    from = end + 1;
  }
  return at;
}

InodePtr MemoryFilesystem::make(const RequestContext& ctx, uint32_t mode) {
  auto inode = std::make_shared<Inode>();
  Attributes& a = inode->attributes;
  a.ino = next_ino_++;
  a.mode = mode;
  a.nlink = S_ISDIR(mode) ? 2 : 1;
  if (ctx.credential) {
    a.uid = ctx.credential->uid();
    a.gid = ctx.credential->gid();
  }
  a.atime = a.mtime = a.ctime = now();
  return inode;
}

void MemoryFilesystem::touch(Inode& inode, bool data) {
  inode.attributes.ctime = now();
  if (data) inode.attributes.mtime = inode.attributes.ctime;
  ++inode.attributes.change;
}

void MemoryFilesystem::attach(Inode& directory, const std::string& name, InodePtr inode) {
  const uint64_t cookie = directory.next_cookie++;
  directory.by_cookie.emplace(cookie, name);
  if (S_ISDIR(inode->attributes.mode)) ++directory.attributes.nlink;
  directory.names.insert_or_assign(name, Inode::Name{std::move(inode), cookie});
  touch(directory, true);
}

void MemoryFilesystem::detach(Inode& directory, const std::string& name) {
  const auto it = directory.names.find(name);
  Inode& inode = *it->second.inode;
  if (S_ISDIR(inode.attributes.mode)) {
    --directory.attributes.nlink;
    inode.attributes.nlink = 0;
  } else {
    --inode.attributes.nlink;
  }
  touch(inode, false);
  directory.by_cookie.erase(it->second.cookie);
  directory.names.erase(it);
  touch(directory, true);
}

Result<InodePtr> MemoryFilesystem::child(const InodePtr& directory, const std::string& name) const {
  if (!S_ISDIR(directory->attributes.mode)) return refuse(ENOTDIR);
  const auto it = directory->names.find(name);
  if (it == directory->names.end()) return refuse(ENOENT);
  return it->second.inode;
}

Result<> MemoryFilesystem::permit(const RequestContext& ctx, const Inode& inode, int mask) {
  const rpc::Credential& c = *ctx.credential;
  const uint32_t mode = inode.attributes.mode;
  if (c.uid() == 0) return {};
  const auto& groups = c.groups();
  const uint32_t gid = inode.attributes.gid;
  uint32_t bits = mode;
  if (c.uid() == inode.attributes.uid) {
    bits = mode >> 6;
  } else if (c.gid() == gid || std::find(groups.begin(), groups.end(), gid) != groups.end()) {
    bits = mode >> 3;
  }
  if ((bits & static_cast<uint32_t>(mask)) == static_cast<uint32_t>(mask)) return {};
  return refuse(EACCES);
}

Task<Result<Entry>> MemoryFilesystem::mount(FrontEnd*) {
  MutexLock lock(mutex_);
  co_return entry_of(root_);
}

Task<bool> MemoryFilesystem::unmount(Duration) {
  co_return true;
}

Task<Result<Entry>> MemoryFilesystem::lookup(RequestContext ctx, NodeRef directory, std::string name) {
  auto entered = enter("lookup", ctx.credential);
  NFSRDMA_CO_TRY(co_await std::move(entered));
  MutexLock lock(mutex_);
  const InodePtr parent = inode_of(directory);
  if (name.size() > 255) co_return refuse(ENAMETOOLONG);
  NFSRDMA_CO_TRY(permit(ctx, *parent, X_OK));
  auto inode = child(parent, name);
  if (inode) co_return entry_of(*inode);
  if (inode.error().errnum != ENOENT || lifetimes_.absent == Duration{}) co_return fail(inode.error());
  Entry absent;
  absent.entry_ttl = lifetimes_.absent;
  co_return absent;
}

Result<Entry> MemoryFilesystem::add(const RequestContext& ctx, const InodePtr& directory,
                                    const std::string& name, InodePtr inode) {
  if (name.size() > 255) return refuse(ENAMETOOLONG);
  NFSRDMA_TRY(permit(ctx, *directory, W_OK | X_OK));
  if (directory->names.contains(name)) return refuse(EEXIST);
  if (directory->attributes.nlink == 0) return refuse(ENOENT);
  inode->parent = directory;
  attach(*directory, name, inode);
  return entry_of(inode);
}

Task<Result<Entry>> MemoryFilesystem::mknod(RequestContext ctx, NodeRef directory, std::string name,
                                            uint32_t mode, uint32_t rdev_major, uint32_t rdev_minor) {
  auto entered = enter("mknod", ctx.credential);
  NFSRDMA_CO_TRY(co_await std::move(entered));
  MutexLock lock(mutex_);
  InodePtr inode = make(ctx, mode);
  inode->attributes.rdev_major = rdev_major;
  inode->attributes.rdev_minor = rdev_minor;
  co_return add(ctx, inode_of(directory), name, inode);
}

Task<Result<Entry>> MemoryFilesystem::mkdir(RequestContext ctx, NodeRef directory, std::string name,
                                            uint32_t mode) {
  auto entered = enter("mkdir", ctx.credential);
  NFSRDMA_CO_TRY(co_await std::move(entered));
  MutexLock lock(mutex_);
  co_return add(ctx, inode_of(directory), name, make(ctx, S_IFDIR | (mode & 07777)));
}

Task<Result<Entry>> MemoryFilesystem::symlink(RequestContext ctx, NodeRef directory, std::string name,
                                              std::string target) {
  auto entered = enter("symlink", ctx.credential);
  NFSRDMA_CO_TRY(co_await std::move(entered));
  MutexLock lock(mutex_);
  InodePtr inode = make(ctx, S_IFLNK | 0777);
  inode->attributes.size = target.size();
  inode->target = std::move(target);
  co_return add(ctx, inode_of(directory), name, inode);
}

Task<Result<Entry>> MemoryFilesystem::link(RequestContext ctx, NodeRef node, NodeRef directory,
                                           std::string name) {
  auto entered = enter("link", ctx.credential);
  NFSRDMA_CO_TRY(co_await std::move(entered));
  MutexLock lock(mutex_);
  const InodePtr inode = inode_of(node);
  auto entry = add(ctx, inode_of(directory), name, inode);
  if (!entry) co_return entry;
  ++inode->attributes.nlink;
  touch(*inode, false);
  co_return entry_of(inode);
}

Result<> MemoryFilesystem::remove(const RequestContext& ctx, const InodePtr& directory,
                                  const std::string& name, bool is_directory) {
  NFSRDMA_TRY(permit(ctx, *directory, W_OK | X_OK));
  auto inode = child(directory, name);
  if (!inode) return fail(inode.error());
  if (S_ISDIR((*inode)->attributes.mode) != is_directory) return refuse(is_directory ? ENOTDIR : EISDIR);
  if (!(*inode)->names.empty()) return refuse(ENOTEMPTY);
  detach(*directory, name);
  return {};
}

Task<Result<>> MemoryFilesystem::unlink(RequestContext ctx, NodeRef directory, std::string name) {
  auto entered = enter("unlink", ctx.credential);
  NFSRDMA_CO_TRY(co_await std::move(entered));
  MutexLock lock(mutex_);
  co_return remove(ctx, inode_of(directory), name, false);
}

Task<Result<>> MemoryFilesystem::rmdir(RequestContext ctx, NodeRef directory, std::string name) {
  auto entered = enter("rmdir", ctx.credential);
  NFSRDMA_CO_TRY(co_await std::move(entered));
  MutexLock lock(mutex_);
  co_return remove(ctx, inode_of(directory), name, true);
}

Task<Result<>> MemoryFilesystem::rename(RequestContext ctx, NodeRef from_directory, std::string from,
                                        NodeRef to_directory, std::string to, unsigned flags) {
  auto entered = enter("rename", ctx.credential);
  NFSRDMA_CO_TRY(co_await std::move(entered));
  MutexLock lock(mutex_);
  if ((flags & ~static_cast<unsigned>(RENAME_NOREPLACE)) != 0) co_return refuse(EINVAL);
  const InodePtr source = inode_of(from_directory);
  const InodePtr target = inode_of(to_directory);
  NFSRDMA_CO_TRY(permit(ctx, *source, W_OK | X_OK));
  NFSRDMA_CO_TRY(permit(ctx, *target, W_OK | X_OK));
  auto moved = child(source, from);
  if (!moved) co_return fail(moved.error());
  const bool is_directory = S_ISDIR((*moved)->attributes.mode);
  auto old = child(target, to);
  if (old) {
    if ((flags & RENAME_NOREPLACE) != 0) co_return refuse(EEXIST);
    if (*old == *moved) co_return Result<>{};
    NFSRDMA_CO_TRY(remove(ctx, target, to, is_directory));
  }
  const InodePtr inode = *moved;
  const uint32_t links = inode->attributes.nlink;
  detach(*source, from);
  attach(*target, to, inode);
  inode->attributes.nlink = links;
  inode->parent = target;
  co_return Result<>{};
}

// --- directories

Task<Result<OpenDirectoryReply>> MemoryFilesystem::opendir(RequestContext ctx, NodeRef node) {
  auto entered = enter("opendir", ctx.credential);
  NFSRDMA_CO_TRY(co_await std::move(entered));
  MutexLock lock(mutex_);
  const InodePtr inode = inode_of(node);
  NFSRDMA_CO_TRY(permit(ctx, *inode, R_OK));
  ++open_directories_;
  OpenDirectoryReply reply;
  reply.directory = std::make_shared<OpenMemoryDirectory>(inode);
  reply.keep_cache = keep_cache_;
  co_return reply;
}

Task<Result<DirectoryPage>> MemoryFilesystem::readdir(RequestContext ctx, OpenDirectoryRef directory,
                                                      uint64_t offset, size_t bytes, bool plus) {
  auto entered = enter("readdir", ctx.credential);
  NFSRDMA_CO_TRY(co_await std::move(entered));
  MutexLock lock(mutex_);
  const InodePtr inode = static_cast<OpenMemoryDirectory*>(directory.get())->inode;
  DirectoryPage page;
  if (offset < 1) page.entries.push_back({".", inode->attributes.ino, S_IFDIR, 1, std::nullopt});
  if (offset < 2) {
    const InodePtr parent = inode->parent.lock();
    page.entries.push_back({"..", (parent ? parent : inode)->attributes.ino, S_IFDIR, 2, std::nullopt});
  }
  size_t used = 0;
  for (auto it = inode->by_cookie.upper_bound(std::max<uint64_t>(offset, 2)); it != inode->by_cookie.end();
       ++it) {
    used += 24 + it->second.size();
    if (used > bytes) break;
    const InodePtr& entry = inode->names.at(it->second).inode;
    DirectoryEntry e{it->second, entry->attributes.ino, entry->attributes.mode & S_IFMT, it->first,
                     std::nullopt};
    if (plus) e.entry = entry_of(entry);
    page.entries.push_back(std::move(e));
  }
  co_return page;
}

Task<> MemoryFilesystem::releasedir(OpenDirectoryRef) {
  auto entered = enter("releasedir", nullptr);
  const Result<> ok = co_await std::move(entered);
  if (ok) --open_directories_;
}

Task<Result<>> MemoryFilesystem::fsyncdir(RequestContext ctx, OpenDirectoryRef) {
  auto entered = enter("fsyncdir", ctx.credential);
  NFSRDMA_CO_TRY(co_await std::move(entered));
  co_return Result<>{};
}

Task<Result<FilesystemStatus>> MemoryFilesystem::statfs(RequestContext ctx, NodeRef) {
  auto entered = enter("statfs", ctx.credential);
  NFSRDMA_CO_TRY(co_await std::move(entered));
  FilesystemStatus status;
  status.total_bytes = 1u << 30;
  status.free_bytes = 1u << 29;
  status.available_bytes = 1u << 28;
  status.total_files = 1000;
  status.free_files = 500;
  status.available_files = 400;
  co_return status;
}

}  // namespace nfsrdma::fuse::test
