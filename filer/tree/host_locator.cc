// SPDX-License-Identifier: Apache-2.0
#include "filer/tree/host_locator.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <climits>
#include <cstring>
#include <utility>

#include "filer/tree/host_path.h"
#include "filer/tree/host_status.h"
#include "filer/tree/store.h"
#include "transport/runtime/log.h"

namespace nfsrdma::filer::tree {

using namespace nfs4;

namespace {

constexpr char kKernel = 'k';
constexpr char kInode = 'i';
constexpr size_t kSealBytes = 8;
// Bytes of a kernel handle that fit into a filehandle beside the other fields.
constexpr size_t kMaxKernelBytes = Store::kMaxHandleBytes - kSealBytes - 1 - sizeof(int);
constexpr unsigned kMaxSearchDepth = 1024;

void append(std::string& to, uint64_t word) {
  for (int shift = 56; shift >= 0; shift -= 8) to.push_back(static_cast<char>(word >> shift & 0xff));
}

uint64_t word_at(std::string_view from, size_t at) {
  uint64_t word = 0;
  for (const char c : from.substr(at, 8)) word = word << 8 | static_cast<uint8_t>(c);
  return word;
}

std::string identity_by_inode(const struct statx& facts) {
  std::string identity(1, kInode);
  append(identity, facts.stx_ino);
  const bool born = (facts.stx_mask & STATX_BTIME) != 0;
  append(identity, born ? static_cast<uint64_t>(facts.stx_btime.tv_sec) << 30 | facts.stx_btime.tv_nsec : 0);
  return identity;
}

// A struct file_handle with space for the handle.
struct KernelHandle {
  KernelHandle() { header()->handle_bytes = kMaxKernelBytes; }
  file_handle* header() { return reinterpret_cast<file_handle*>(bytes); }
  alignas(file_handle) char bytes[sizeof(file_handle) + kMaxKernelBytes]{};
};

// The directory's present path as the kernel knows it, with symbolic links resolved.
std::string directory_of(int fd) {
  std::string name(PATH_MAX, '\0');
  const ssize_t bytes = readlink(host_path(fd).c_str(), name.data(), name.size());
  name.resize(bytes > 0 ? static_cast<size_t>(bytes) : 0);
  return name;
}

bool no_descriptors() {
  return errno == EMFILE || errno == ENFILE;
}

}  // namespace

bool stat_of(int fd, struct statx& to) {
  constexpr unsigned kWanted = STATX_BASIC_STATS | STATX_BTIME | STATX_MNT_ID;
  return statx(fd, "", AT_EMPTY_PATH | AT_STATX_SYNC_AS_STAT, kWanted, &to) == 0;
}

HostLocator::HostLocator(int root, const HandleKey& key, uint32_t file_system, std::string_view export_path)
    : root_(root), hash_(key) {
  append(export_, file_system);
  append(export_, hash_(std::string(export_path) + '\0' + directory_of(root)));
  if (!stat_of(root, root_facts_)) return;
  const std::string identity = identity_by_kernel(root);
  by_kernel_ = !identity.empty() && open_by_kernel(identity);
}

bool HostLocator::in_export(const struct statx& facts) const {
  const bool same_device =
      facts.stx_dev_major == root_facts_.stx_dev_major && facts.stx_dev_minor == root_facts_.stx_dev_minor;
  const bool mounts_known = (facts.stx_mask & root_facts_.stx_mask & STATX_MNT_ID) != 0;
  return same_device && (!mounts_known || facts.stx_mnt_id == root_facts_.stx_mnt_id);
}

std::string HostLocator::identity_by_kernel(int fd) const {
  KernelHandle handle;
  int mount = 0;
  if (name_to_handle_at(fd, "", handle.header(), &mount, AT_EMPTY_PATH) != 0) return {};
  std::string identity(1, kKernel);
  const int type = handle.header()->handle_type;
  identity.append(reinterpret_cast<const char*>(&type), sizeof(type));
  identity.append(reinterpret_cast<const char*>(handle.header()->f_handle), handle.header()->handle_bytes);
  return identity;
}

Answer<std::string> HostLocator::identify(int fd, const struct statx& facts) const {
  if (!in_export(facts)) return refuse(NFS4ERR_ACCESS);  // another file system is mounted there
  if (!by_kernel_) return identity_by_inode(facts);
  std::string identity = identity_by_kernel(fd);
  if (identity.empty()) return refuse(NFS4ERR_STALE);
  return identity;
}

Fd HostLocator::open_by_kernel(const std::string& identity) const {
  KernelHandle handle;
  const size_t bytes = identity.size() - 1 - sizeof(int);
  std::memcpy(&handle.header()->handle_type, identity.data() + 1, sizeof(int));
  handle.header()->handle_bytes = static_cast<unsigned>(bytes);
  std::memcpy(handle.header()->f_handle, identity.data() + 1 + sizeof(int), bytes);
  return Fd(open_by_handle_at(root_, handle.header(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
}

Answer<Fd> HostLocator::open(const std::string& identity) {
  Fd fd = by_kernel_ ? open_by_kernel(identity) : find_inode(identity);
  if (!fd) return refuse(no_descriptors() ? NFS4ERR_DELAY : NFS4ERR_STALE);
  return fd;
}

void HostLocator::saw(uint64_t inode, uint64_t directory, std::string_view name) {
  if (by_kernel_ || inode == root_facts_.stx_ino) return;
  places_[inode] = {directory, std::string(name)};
}

// Opens the inode where it was last seen. Returns an empty Fd if it is not there any more.
Fd HostLocator::open_inode(uint64_t inode, unsigned depth) {
  if (inode == root_facts_.stx_ino) return Fd(openat(root_, ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
  const auto at = places_.find(inode);
  if (at == places_.end() || depth > kMaxSearchDepth) return {};
  const std::string name = at->second.name;
  const Fd directory = open_inode(at->second.directory, depth + 1);
  if (!directory) return {};
  Fd fd(openat(directory.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct statx facts {};
  if (!fd || !stat_of(fd.get(), facts) || facts.stx_ino != inode || !in_export(facts)) return {};
  return fd;
}

bool HostLocator::leads_to(const Fd& fd, const std::string& identity) const {
  struct statx facts {};
  return fd && stat_of(fd.get(), facts) && identity_by_inode(facts) == identity;
}

bool HostLocator::knows_way(const std::string& identity) {
  return by_kernel_ || leads_to(open_inode(word_at(identity, 1), 0), identity);
}

Fd HostLocator::find_inode(const std::string& identity) {
  const uint64_t inode = word_at(identity, 1);
  errno = 0;
  Fd fd = open_inode(inode, 0);
  if (!fd && no_descriptors()) return {};
  if (!leads_to(fd, identity) &&
      (!searched_ || std::chrono::steady_clock::now() - *searched_ >= kSearchInterval)) {
    search();
    fd = open_inode(inode, 0);
  }
  errno = ESTALE;
  return leads_to(fd, identity) ? std::move(fd) : Fd();
}

void HostLocator::search() {
  log::debug("filer: searching an export for a file that was known before");
  auto known = std::exchange(places_, {});
  const Fd root(openat(root_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const bool whole = root && search_directory(root.get(), root_facts_.stx_ino, 0);
  if (!whole) places_.merge(known);
  searched_ = std::chrono::steady_clock::now();
}

bool HostLocator::search_directory(int fd, uint64_t inode, unsigned depth) {
  const int copy = dup(fd);
  DIR* stream = copy >= 0 ? fdopendir(copy) : nullptr;
  if (stream == nullptr) {
    const bool whole = !no_descriptors();
    if (copy >= 0) close(copy);
    return whole;
  }
  bool whole = true;
  while (const dirent* entry = readdir(stream)) {
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    saw(entry->d_ino, inode, name);
    if ((entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN) || depth >= kMaxSearchDepth) continue;
    const Fd below(openat(fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    whole = whole && (below || !no_descriptors());
    struct statx facts {};
    if (!below || !stat_of(below.get(), facts) || !in_export(facts)) continue;
    whole = search_directory(below.get(), facts.stx_ino, depth + 1) && whole;
  }
  closedir(stream);
  return whole;
}

uint64_t HostLocator::seal_of(const std::string& identity) const {
  return hash_(export_ + identity);
}

ByteVector HostLocator::seal(const std::string& identity) const {
  std::string all;
  append(all, seal_of(identity));
  all += identity;
  const ConstBytes bytes = as_const_bytes(all);
  return {bytes.begin(), bytes.end()};
}

Answer<std::string> HostLocator::unseal(ConstBytes handle) const {
  const std::string_view all = as_string_view(handle);
  if (all.size() < kSealBytes + 1) return refuse(NFS4ERR_BADHANDLE);
  std::string identity(all.substr(kSealBytes));
  if (seal_of(identity) != word_at(all, 0)) return refuse(NFS4ERR_BADHANDLE);
  // A handle from an earlier run with other privileges has a valid seal, but the other kind of identity.
  const size_t least = by_kernel_ ? 1 + sizeof(int) : 1 + 2 * sizeof(uint64_t);
  if (identity.front() != (by_kernel_ ? kKernel : kInode) || identity.size() < least)
    return refuse(NFS4ERR_STALE);
  return identity;
}

}  // namespace nfsrdma::filer::tree
