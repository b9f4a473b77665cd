// SPDX-License-Identifier: Apache-2.0
// HostStore: objects, their identities and attributes.

#include "filer/tree/host_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include <algorithm>
#include <climits>
#include <cstring>

#include "filer/tree/access.h"
#include "filer/tree/host_path.h"
#include "filer/tree/host_status.h"
#include "transport/runtime/log.h"

namespace nfsrdma::filer::tree {

using namespace nfs4;

namespace {

constexpr int64_t kNano = 1'000'000'000;
constexpr size_t kFewestNodes = 256;
constexpr size_t kMostNodes = 32768;

int64_t nanoseconds(const struct statx_timestamp& t) {
  return t.tv_sec * kNano + t.tv_nsec;
}

nfstime4 time_of(const struct statx_timestamp& t) {
  return {t.tv_sec, t.tv_nsec};
}

int64_t wall_clock() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * kNano + now.tv_nsec;
}

nfs_ftype4 type_of(uint16_t mode) {
  switch (mode & S_IFMT) {
    case S_IFDIR: return NF4DIR;
    case S_IFLNK: return NF4LNK;
    case S_IFBLK: return NF4BLK;
    case S_IFCHR: return NF4CHR;
    case S_IFSOCK: return NF4SOCK;
    case S_IFIFO: return NF4FIFO;
    default: return NF4REG;
  }
}

// Limit for objects with descriptors in each of `exports` exports. An object has up to three descriptors.
// There may be twice as many objects while open files cannot give theirs up.
size_t nodes_to_keep(size_t exports) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_cur < files.rlim_max) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    getrlimit(RLIMIT_NOFILE, &files);
  }
  return std::clamp<size_t>(files.rlim_cur / (8 * std::max<size_t>(exports, 2)), kFewestNodes, kMostNodes);
}

// Opens a regular file in the directory: an unnamed temporary file, else any existing file.
Fd some_file(int directory) {
  Fd file(openat(directory, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file) return file;
  constexpr int kMostLookedAt = 1000;
  DIR* listing = fdopendir(openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (listing == nullptr) return {};
  for (int i = 0; i < kMostLookedAt && !file; ++i) {
    const dirent* entry = readdir(listing);
    if (entry == nullptr) break;
    if (entry->d_type != DT_REG) continue;
    file = Fd(openat(directory, entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  }
  closedir(listing);
  return file;
}

// The largest file size that the host's file system supports (s_maxbytes). No call returns it, but lseek(2)
// fails with EINVAL beyond it, so it is found by bisection.
uint64_t largest_file(int directory) {
  const Fd file = some_file(directory);
  if (!file) return INT64_MAX;
  const auto possible = [&](int64_t size) { return lseek(file.get(), size, SEEK_SET) == size; };
  if (possible(INT64_MAX)) return INT64_MAX;
  int64_t yes = 0, no = INT64_MAX;
  while (no - yes > 1) {
    const int64_t middle = yes + (no - yes) / 2;
    (possible(middle) ? yes : no) = middle;
  }
  return yes == 0 ? INT64_MAX : static_cast<uint64_t>(yes);
}

// Whether the file system decides by mode and ACL alone. Others (FUSE, NFS, /proc) may refuse what the mode
// allows. There the server asks the host with the caller's identity before it reads anything for the caller.
bool decides_by_modes(int fd) {
  struct statfs facts {};
  if (fstatfs(fd, &facts) != 0) return false;
  switch (static_cast<uint32_t>(facts.f_type)) {
    case EXT4_SUPER_MAGIC:
    case XFS_SUPER_MAGIC:
    case BTRFS_SUPER_MAGIC:
    case F2FS_SUPER_MAGIC:
    case TMPFS_MAGIC:
    case RAMFS_MAGIC:
    case OVERLAYFS_SUPER_MAGIC: return true;
    default: return false;
  }
}

// True also if the host does not say. acl_permissions() then asks the host, which is right in both cases.
bool may_have_acl(int fd) {
  if (getxattr(host_path(fd).c_str(), "system.posix_acl_access", nullptr, 0) >= 0) return true;
  return errno != ENODATA && errno != EOPNOTSUPP;
}

Principal own_principal() {
  Principal self{rpc::AUTH_SYS, geteuid(), getegid(), {}};
  const int count = getgroups(0, nullptr);
  std::vector<gid_t> groups(count > 0 ? static_cast<size_t>(count) : 0);
  if (!groups.empty() && getgroups(count, groups.data()) >= 0)
    self.groups.assign(groups.begin(), groups.end());
  return self;
}

}  // namespace

Result<std::unique_ptr<HostStore>> HostStore::open(const HostExport& what, const HandleKey& key,
                                                   FileSystem& fs, std::shared_ptr<NodeId> next_id) {
  const int flags = O_DIRECTORY | O_CLOEXEC;
  Fd root(::open(what.directory.c_str(), O_RDONLY | flags));
  if (!root) root = Fd(::open(what.directory.c_str(), O_PATH | flags));
  if (!root) return fail(system_error(errno, "export", what.directory));
  std::unique_ptr<HostStore> store(new HostStore(what, key, fs, std::move(root), std::move(next_id)));
  Answer<HostNodePtr> node =
      store->adopt(Fd(openat(store->root_fd_.get(), ".", O_PATH | O_DIRECTORY | O_CLOEXEC)), Seen::kLooking);
  if (!node) return fail(system_error(EIO, "export", what.directory + " has no attributes or filehandles"));
  store->root_ = *node;
  log::info("filer: exports {} as {}; files are found again by {}; {}", what.directory, what.path,
            store->locator_.by_kernel() ? "the kernel's filehandles"
                                        : "inode number, which may take a search of the export",
            fs.everybody ? "every caller is the user of this process" : "callers are who they say they are");
  return store;
}

HostStore::HostStore(const HostExport& what, const HandleKey& key, FileSystem& fs, Fd root,
                     std::shared_ptr<NodeId> next_id)
    : fs_(fs),
      root_fd_(std::move(root)),
      sync_(what.sync),
      modes_say_all_(decides_by_modes(root_fd_.get())),
      cookie_hash_(key),
      locator_(root_fd_.get(), key, fs.number, what.path),
      next_id_(std::move(next_id)),
      most_nodes_(what.most_with_descriptors != 0 ? what.most_with_descriptors
                                                  : nodes_to_keep(what.exports)) {
  fs.read_only = what.read_only;
  fs.atomic_changes = false;
  fs.keeps_unlinked = false;
  fs.max_file_bytes = largest_file(root_fd_.get());
  fs.max_links = UINT32_MAX;
  if (!callers_.can_impersonate()) {
    fs.everybody = own_principal();
  } else if (what.squash == Squash::kRoot) {
    fs.root_becomes = Principal{rpc::AUTH_SYS, Principal::kAnonymous, Principal::kAnonymous, {}};
  }
  measure(fs);
}

void HostStore::measure(FileSystem& fs) {
  struct statvfs facts {};
  if (fstatvfs(root_fd_.get(), &facts) != 0) return;
  fs.bytes_total = uint64_t{facts.f_blocks} * facts.f_frsize;
  // statfs(2): f_bfree includes the blocks reserved for root, f_bavail does not.
  fs.bytes_used = fs.bytes_total - std::min(fs.bytes_total, uint64_t{facts.f_bfree} * facts.f_frsize);
  fs.bytes_kept = uint64_t{facts.f_bfree - std::min(facts.f_bfree, facts.f_bavail)} * facts.f_frsize;
  fs.files_total = facts.f_files;
  fs.files_used = fs.files_total - std::min<uint64_t>(fs.files_total, facts.f_ffree);
  fs.files_kept = facts.f_ffree - std::min<uint64_t>(facts.f_ffree, facts.f_favail);
  fs.max_name = facts.f_namemax;
}

// --- objects

ByteVector HostStore::handle(const Node& node) const {
  return locator_.seal(of_host(node).identity);
}

Answer<NodePtr> HostStore::find(const FileSystem&, ConstBytes handle) {
  const Answer<std::string> identity = locator_.unseal(handle);
  if (!identity) return refuse(identity.error());
  if (const auto at = nodes_.find(*identity); at != nodes_.end()) {
    const HostNodePtr node = at->second;
    if (const nfsstat4 status = look(*node, Seen::kLooking); status != NFS4_OK) return refuse(status);
    return node;
  }
  Answer<Fd> fd = locator_.open(*identity);
  if (!fd) return refuse(fd.error());
  return adopt(*std::move(fd), Seen::kLooking);
}

Answer<HostStore::HostNodePtr> HostStore::adopt(Fd fd, Seen how) {
  struct statx facts {};
  if (!fd || !stat_of(fd.get(), facts)) return refuse(status_of(errno));
  Answer<std::string> identity = locator_.identify(fd.get(), facts);
  if (!identity) return refuse(identity.error());
  const auto at = nodes_.find(*identity);
  HostNodePtr node = at != nodes_.end() ? at->second : nullptr;
  if (node == nullptr) {
    if (facts.stx_nlink == 0) return refuse(NFS4ERR_STALE);
    make_room();
    node = std::make_shared<HostNode>();
    node->id = (*next_id_)++;
    node->fs = &fs_;
    node->identity = *identity;
    node->used = order_.insert(order_.end(), *identity);
    nodes_.emplace(*std::move(identity), node);
  } else if (!node->path) {
    make_room();
  }
  if (!node->path) node->path = std::move(fd);
  use(*node);
  take(*node, facts, how);
  return node;
}

nfsstat4 HostStore::refresh(Node& node) {
  return look(of_host(node), Seen::kLooking);
}

nfsstat4 HostStore::look(HostNode& node, Seen how) {
  if (node.forgotten) return NFS4ERR_STALE;
  const Answer<int> fd = path_of(node);
  struct statx facts {};
  if (!fd) return fd.error();
  if (!stat_of(*fd, facts)) return status_of(errno);
  take(node, facts, how);
  if (node.links != 0 || node.holds != 0) return NFS4_OK;
  forget(node);  // open descriptors would keep its disk space
  return NFS4ERR_STALE;
}

void HostStore::take(HostNode& node, const struct statx& facts, Seen how) {
  const int64_t ctime = nanoseconds(facts.stx_ctime);
  const bool first = node.ctime == 0;
  const bool fresh = wall_clock() - ctime < kTick.count();
  const auto mode = static_cast<uint32_t>(facts.stx_mode & 07777);
  const bool moved = ctime != node.ctime || facts.stx_size != node.size || facts.stx_nlink != node.links ||
                     mode != node.mode;
  // While the ctime is recent, the value is the ctime plus 1, because another change may get the same ctime.
  // When the tick is over, the value changes once more (`settled`).
  const auto value = static_cast<uint64_t>(ctime) + (fresh ? 1 : 0);
  const bool settled = node.doubtful && !fresh;
  if (first) {
    node.change = value;
  } else if (moved || settled || how == Seen::kOwnChange) {
    node.change = std::max(node.change + 1, value);
    node.listing.reset();
  }
  if (first || moved || settled || how == Seen::kOwnChange) node.doubtful = fresh && how == Seen::kLooking;
  node.ctime = ctime;
  node.fileid = facts.stx_ino;
  node.type = type_of(facts.stx_mode);
  node.mode = mode;
  node.uid = facts.stx_uid;
  node.gid = facts.stx_gid;
  node.links = facts.stx_nlink;
  node.size = facts.stx_size;
  node.allocated = facts.stx_blocks * 512;
  node.device = {facts.stx_rdev_major, facts.stx_rdev_minor};
  node.accessed = time_of(facts.stx_atime);
  node.modified = time_of(facts.stx_mtime);
  node.changed = time_of(facts.stx_ctime);
  node.created = (facts.stx_mask & STATX_BTIME) != 0 ? time_of(facts.stx_btime) : node.changed;
  if ((first || moved || settled) && node.type != NF4LNK && node.path)
    node.has_acl = !modes_say_all_ || may_have_acl(node.path.get());
}

uint32_t HostStore::acl_permissions(const Node& node, const Principal& who) {
  const Answer<int> fd = path_of(const_cast<HostNode&>(of_host(node)));
  if (!fd) return 0;
  uint32_t permissions = 0;
  (void)callers_.act_as(who, [&] {
    const auto allowed = [&](int how) {
      return syscall(SYS_faccessat2, *fd, "", how, AT_EACCESS | AT_EMPTY_PATH) == 0;
    };
    permissions = (allowed(R_OK) ? uint32_t{kMayRead} : 0) | (allowed(W_OK) ? uint32_t{kMayWrite} : 0) |
                  (allowed(X_OK) ? uint32_t{kMayExecute} : 0);
  });
  return permissions;
}

nfsstat4 HostStore::set(Node& node, const NewAttributes& a, const Principal& who) {
  const Answer<int> fd = path_of(of_host(node));
  if (!fd) return fd.error();
  const std::string path = host_path(*fd);
  int error = 0;
  const bool done = callers_.act_as(who, [&] {
    const uid_t uid = a.uid.value_or(static_cast<uid_t>(-1));
    const gid_t gid = a.gid.value_or(static_cast<gid_t>(-1));
    if ((a.uid || a.gid) && fchownat(*fd, "", uid, gid, AT_EMPTY_PATH) != 0) error = errno;
    if (error == 0 && a.mode && chmod(path.c_str(), *a.mode) != 0) error = errno;
    if (error == 0 && (a.accessed || a.modified)) {
      const auto time = [](const std::optional<settime4>& t) -> timespec {
        if (!t) return {0, UTIME_OMIT};
        if (t->set_it == SET_TO_SERVER_TIME4) return {0, UTIME_NOW};
        return {static_cast<time_t>(t->time.seconds), static_cast<long>(t->time.nseconds)};
      };
      const timespec times[] = {time(a.accessed), time(a.modified)};
      if (utimensat(AT_FDCWD, path.c_str(), times, 0) != 0) error = errno;
    }
  });
  if (!done) return NFS4ERR_SERVERFAULT;
  changed(node);
  if (error == 0) settle(of_host(node));
  return status_of(error);
}

}  // namespace nfsrdma::filer::tree
