// SPDX-License-Identifier: Apache-2.0
// Steps on open files: access to contents in all ways that Linux has.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "runner.h"

namespace fsrandom {

namespace {

constexpr size_t kMaxDescriptors = 8;
constexpr size_t kMaxMappings = 3;

int access_of(int flags) {
  return flags & O_ACCMODE;
}
bool writable(int flags) {
  return access_of(flags) != O_RDONLY;
}
bool readable(int flags) {
  return access_of(flags) != O_WRONLY;
}

// Memory for O_DIRECT.
struct Aligned {
  explicit Aligned(size_t size) : data(static_cast<char*>(std::aligned_alloc(kPage, size)), &std::free) {}
  std::unique_ptr<char, void (*)(void*)> data;
};

// Linux since 6.17 does this with every FUSE file system (seen with bindfs on 6.18): when it writes out a
// page that was dirtied through a mapping, it zeroes the page beyond the file's size. A write(2) that extends
// the file puts its bytes into the page before it raises the size, and so does copy_file_range(2), which
// Linux carries out as writes. If the page is written out in between, as a recall causes, the bytes are lost
// in the page, and at the server if the daemon has not read them yet. So the steps avoid a dirty page there.
bool zeroes_beyond_the_end() {
  static const bool since_6_17 = [] {
    utsname system{};
    unsigned major = 0, minor = 0;
    if (uname(&system) != 0 || std::sscanf(system.release, "%u.%u", &major, &minor) != 2) return true;
    return major > 6 || (major == 6 && minor >= 17);
  }();
  return since_6_17;
}

}  // namespace

void Runner::open_file() {
  if (descriptors_.size() >= kMaxDescriptors) close_descriptor(random(descriptors_.size()));
  const std::string path = some_path();
  static constexpr int kAccess[] = {O_RDONLY, O_WRONLY, O_RDWR, O_RDWR, O_RDWR};
  int flags = kAccess[random(std::size(kAccess))];
  if (chance(50)) flags |= O_CREAT;
  if (chance(15)) flags |= O_EXCL | O_CREAT;
  if (writable(flags) && chance(10)) flags |= O_TRUNC;
  if (chance(15)) flags |= O_APPEND;
  if (chance(5)) flags |= O_SYNC;
  if (chance(3)) flags |= O_NOFOLLOW;
  if (!(flags & O_CREAT) && chance(15) && !unsupported_.contains("direct")) flags |= O_DIRECT;
  const Place there = tree_.resolve(path, true);
  // Directories have no direct I/O, and file systems differ in open(2)'s answer.
  if (there.inode && there.inode->type == Type::Directory) flags &= ~O_DIRECT;
  const bool exclusive = (flags & O_EXCL) != 0;
  const Place place = tree_.resolve(path, !exclusive && !(flags & O_NOFOLLOW));
  int expected = place.error;
  if (expected == 0 && place.inode) {
    if (exclusive) {
      expected = EEXIST;
    } else if (place.inode->type == Type::Symlink) {
      expected = ELOOP;
    } else if (place.inode->type == Type::Directory && (flags & (O_CREAT | O_TRUNC) || writable(flags))) {
      expected = EISDIR;
    }
  } else if (expected == 0 && !(flags & O_CREAT)) {
    expected = ENOENT;
  }
  const std::string call = "open " + path + " flags " + std::to_string(flags);
  note(call);
  const int fd = open(at(path).c_str(), flags | O_CLOEXEC, 0644);
  const int error = fd >= 0 ? 0 : errno;
  if (error == EINVAL && expected == 0 && flags & O_DIRECT) {
    unsupported_.insert("direct");
    return;
  }
  expect(call, error, expected);
  if (fd < 0) return check_path(path);
  if (place.inode && place.inode->type == Type::Directory) {
    close(fd);
    return;
  }
  const InodePtr inode = place.inode ? place.inode : tree_.create_file(place, 0644);
  if (flags & O_TRUNC) {
    inode->truncate(0);
    inode->mtime_ns.reset();
  }
  descriptors_.push_back({fd, flags, inode, path});
  check_open(descriptors_.back());
}

void Runner::close_descriptor(size_t index) {
  const Descriptor d = descriptors_[index];
  descriptors_.erase(descriptors_.begin() + static_cast<long>(index));
  note("close " + d.path);
  expect("close " + d.path, close(d.fd) == 0 ? 0 : errno, 0);
}

void Runner::close_file() {
  if (!descriptors_.empty()) close_descriptor(random(descriptors_.size()));
}

void Runner::write_out_page_at_end(const Descriptor& to, uint64_t end, const std::string& call) {
  Inode& inode = *to.inode;
  const bool beyond = end > inode.size && inode.size % kPage != 0;
  if (!beyond || !inode.map_dirty || !writable(to.flags) || !zeroes_beyond_the_end()) return;
  if (fsync(to.fd) != 0) throw Mismatch(call + ": fsync before it: " + std::strerror(errno));
  inode.map_dirty = false;
}

void Runner::write_file() {
  Descriptor* d = some_descriptor();
  if (d == nullptr) return;
  static constexpr uint64_t kLengths[] = {1, 100, 4096, 5000, 70000, 200000};
  uint64_t length = 1 + random(kLengths[random(std::size(kLengths))]);
  uint64_t offset = some_offset(*d->inode);
  const bool direct = (d->flags & O_DIRECT) != 0;
  if (direct) {
    length = (length + kPage - 1) / kPage * kPage;
    offset = offset / kPage * kPage;
    if (d->flags & O_APPEND && d->inode->size % kPage != 0) return;
  }
  const uint64_t place =
      d->flags & O_APPEND ? d->inode->size : offset;  // pwrite(2), BUGS: on Linux O_APPEND takes precedence
  const std::string call = "pwrite " + d->path + " " + std::to_string(length) + " at " +
                           std::to_string(place) + (direct ? " direct" : "") +
                           (d->flags & O_APPEND ? " append" : "");
  note(call);
  write_out_page_at_end(*d, place + length, call);
  const std::string bytes = some_bytes(length);
  Aligned buffer((length + kPage - 1) / kPage * kPage);
  std::memcpy(buffer.data.get(), bytes.data(), length);
  const ssize_t count = pwrite(d->fd, buffer.data.get(), length, static_cast<off_t>(offset));
  expect(call, count >= 0 ? 0 : errno, writable(d->flags) ? 0 : EBADF);
  if (count < 0) return;
  if (static_cast<uint64_t>(count) != length) throw Mismatch(call + ": wrote " + std::to_string(count));
  d->inode->write(place, bytes);
  d->inode->mtime_ns.reset();
  check_open(*d);
  if (readable(d->flags) && !direct) check_region(d->fd, place, length, *d->inode);
}

void Runner::read_file() {
  Descriptor* d = some_descriptor();
  if (d == nullptr) return;
  uint64_t length = 1 + random(chance(20) ? 300000 : 9000);
  uint64_t offset = some_offset(*d->inode);
  if (d->flags & O_DIRECT) {
    length = (length + kPage - 1) / kPage * kPage;
    offset = offset / kPage * kPage;
  }
  const std::string call = "pread " + d->path + " " + std::to_string(length) + " at " +
                           std::to_string(offset) + (d->flags & O_DIRECT ? " direct" : "");
  note(call);
  Aligned buffer((length + kPage - 1) / kPage * kPage);
  const ssize_t count = pread(d->fd, buffer.data.get(), length, static_cast<off_t>(offset));
  expect(call, count >= 0 ? 0 : errno, readable(d->flags) ? 0 : EBADF);
  if (count < 0) return;
  expect_data(call, offset, std::string(buffer.data.get(), static_cast<size_t>(count)),
              d->inode->read(offset, length));
}

void Runner::truncate_open() {
  Descriptor* d = some_descriptor();
  if (d == nullptr) return;
  const uint64_t size = some_offset(*d->inode);
  const std::string call = "ftruncate " + d->path + " to " + std::to_string(size);
  note(call);
  const int error = ftruncate(d->fd, static_cast<off_t>(size)) == 0 ? 0 : errno;
  expect(call, error, writable(d->flags) ? 0 : EINVAL);
  if (error != 0) return;
  d->inode->truncate(size);
  d->inode->mtime_ns.reset();
  check_open(*d);
}

void Runner::truncate_path() {
  const std::string path = some_path();
  const Place place = tree_.resolve(path, true);
  int expected = place.error;
  if (expected == 0 && !place.inode) expected = ENOENT;
  if (expected == 0 && place.inode->type == Type::Directory) expected = EISDIR;
  const uint64_t size = expected == 0 ? some_offset(*place.inode) : 0;
  const std::string call = "truncate " + path + " to " + std::to_string(size);
  note(call);
  expect(call, truncate(at(path).c_str(), static_cast<off_t>(size)) == 0 ? 0 : errno, expected);
  if (expected != 0) return;
  place.inode->truncate(size);
  place.inode->mtime_ns.reset();
  check_path(path);
}

void Runner::map_file() {
  Descriptor* d = some_descriptor();
  if (d == nullptr || access_of(d->flags) != O_RDWR || d->flags & O_DIRECT || d->inode->size == 0) return;
  if (mappings_.size() >= kMaxMappings) unmap_at(random(mappings_.size()));
  const uint64_t pages = (d->inode->size + kPage - 1) / kPage;
  const uint64_t first = chance(50) ? random(pages) : pages - 1 - random(std::min<uint64_t>(pages, 64));
  const uint64_t count = std::min<uint64_t>(1 + random(64), pages - first);
  note("mmap " + d->path + " " + std::to_string(count) + " pages from " + std::to_string(first));
  void* address = mmap(nullptr, count * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, d->fd,
                       static_cast<off_t>(first * kPage));
  expect("mmap " + d->path, address != MAP_FAILED ? 0 : errno, 0);
  mappings_.push_back({static_cast<char*>(address), first * kPage, count * kPage, false, d->inode});
}

namespace {

// The number of bytes of a mapping that are inside the file, from the mapping's start. Access beyond them
// gives SIGBUS.
uint64_t inside(uint64_t offset, uint64_t length, uint64_t size) {
  return offset >= size ? 0 : std::min(length, size - offset);
}

}  // namespace

void Runner::map_read() {
  if (mappings_.empty()) return;
  const Mapping& m = mappings_[random(mappings_.size())];
  const uint64_t usable = inside(m.offset, m.length, m.inode->size);
  if (usable == 0) return;
  const uint64_t from = random(usable);
  const uint64_t length = 1 + random(usable - from);
  note("mread " + std::to_string(length) + " at " + std::to_string(m.offset + from));
  expect_data("read through a mapping", m.offset + from, std::string(m.address + from, length),
              m.inode->read(m.offset + from, length));
}

void Runner::map_write() {
  if (mappings_.empty()) return;
  Mapping& m = mappings_[random(mappings_.size())];
  const uint64_t usable = inside(m.offset, m.length, m.inode->size);
  if (usable == 0) return;
  const uint64_t from = random(usable);
  const uint64_t length = 1 + random(std::min<uint64_t>(usable - from, 20000));
  note("mwrite " + std::to_string(length) + " at " + std::to_string(m.offset + from));
  const std::string bytes = some_bytes(length);
  std::memcpy(m.address + from, bytes.data(), length);
  m.inode->write(m.offset + from, bytes);
  m.inode->mtime_ns.reset();
  m.dirty = true;
  m.inode->map_dirty = true;
  if (chance(30)) {
    note("msync");
    expect("msync", msync(m.address, m.length, MS_SYNC) == 0 ? 0 : errno, 0);
    m.dirty = false;
  }
  expect_data("read through a mapping", m.offset + from, std::string(m.address + from, length), bytes);
}

void Runner::unmap_at(size_t index) {
  const Mapping m = mappings_[index];
  mappings_.erase(mappings_.begin() + static_cast<long>(index));
  note("munmap at " + std::to_string(m.offset));
  // An unlinked file cannot be synced by its path later.
  if (m.dirty && (chance(50) || m.inode->links == 0))
    expect("msync", msync(m.address, m.length, MS_SYNC) == 0 ? 0 : errno, 0);
  expect("munmap", munmap(m.address, m.length) == 0 ? 0 : errno, 0);
}

void Runner::unmap() {
  if (!mappings_.empty()) unmap_at(random(mappings_.size()));
}

void Runner::sync_file() {
  Descriptor* d = some_descriptor();
  if (d == nullptr) return;
  const bool data_only = chance(30);
  note((data_only ? "fdatasync " : "fsync ") + d->path);
  expect("fsync " + d->path, (data_only ? fdatasync(d->fd) : fsync(d->fd)) == 0 ? 0 : errno, 0);
  if (writable(d->flags)) d->inode->map_dirty = false;
  check_open(*d);
}

void Runner::seek_file() {
  Descriptor* d = some_descriptor();
  if (d == nullptr) return;
  const uint64_t size = d->inode->size;
  const uint64_t from = chance(80) && size > 0 ? random(size) : size + random(100);
  const bool data = chance(50);
  const std::string call =
      std::string(data ? "SEEK_DATA " : "SEEK_HOLE ") + d->path + " from " + std::to_string(from);
  note(call);
  const off_t found = lseek(d->fd, static_cast<off_t>(from), data ? SEEK_DATA : SEEK_HOLE);
  const int error = found >= 0 ? 0 : errno;
  if (from >= size) return expect(call, error, ENXIO);
  if (data && error == ENXIO) {
    if (!d->inode->all_zero(from, size)) throw Mismatch(call + ": no data found, but there is some");
    return;
  }
  expect(call, error, 0);
  const uint64_t place = static_cast<uint64_t>(found);
  if (place < from || place > size) throw Mismatch(call + ": answered " + std::to_string(place));
  // A file system need not report holes, but what it reports as a hole must read as zeros.
  if (data && !d->inode->all_zero(from, place))
    throw Mismatch(call + ": skipped data, answered " + std::to_string(place));
  if (!data && place < size && !d->inode->all_zero(place, place + 1)) {
    throw Mismatch(call + ": data at the hole " + std::to_string(place));
  }
}

void Runner::copy_range() {
  Descriptor* from = some_descriptor();
  Descriptor* to = some_descriptor();
  if (from == nullptr || from->inode == to->inode || !readable(from->flags) || !writable(to->flags)) return;
  if ((from->flags | to->flags) & O_DIRECT || to->flags & O_APPEND) return;
  off_t in = static_cast<off_t>(some_offset(*from->inode));
  off_t out = static_cast<off_t>(some_offset(*to->inode));
  const uint64_t source = static_cast<uint64_t>(in);
  const uint64_t target = static_cast<uint64_t>(out);
  const uint64_t length = 1 + random(100000);
  const std::string call = "copy_file_range " + from->path + " at " + std::to_string(in) + " to " + to->path +
                           " at " + std::to_string(out) + ", " + std::to_string(length);
  note(call);
  write_out_page_at_end(*to, target + length, call);
  const ssize_t count = copy_file_range(from->fd, &in, to->fd, &out, length, 0);
  expect(call, count >= 0 ? 0 : errno, 0);
  const std::string available = from->inode->read(source, length);
  if (static_cast<uint64_t>(count) > available.size() || (count == 0 && !available.empty())) {
    throw Mismatch(call + ": copied " + std::to_string(count) + " of " + std::to_string(available.size()));
  }
  if (count == 0) return;
  to->inode->write(target, available.substr(0, static_cast<size_t>(count)));
  to->inode->mtime_ns.reset();
  check_open(*to);
}

void Runner::drop_cache() {
  Descriptor* d = some_descriptor();
  if (d == nullptr || !readable(d->flags) || d->flags & O_DIRECT) return;
  note("fadvise DONTNEED " + d->path);
  posix_fadvise(d->fd, 0, 0, POSIX_FADV_DONTNEED);
  const uint64_t offset = some_offset(*d->inode);
  check_region(d->fd, offset, 1 + random(70000), *d->inode);
}

// Reads long runs, several at once and in each direction, after asking the kernel to drop the file's pages.
void Runner::scan_file() {
  Descriptor* d = some_descriptor();
  if (d == nullptr || !readable(d->flags) || d->flags & O_DIRECT || d->inode->size < 16 * kPage) return;
  struct Stream {
    int64_t at, step;
  };
  const auto size = static_cast<int64_t>(d->inode->size), piece = static_cast<int64_t>(kPage << random(5));
  std::vector<Stream> streams;
  for (uint64_t left = 1 + random(3); left > 0; --left) {
    static constexpr int64_t kSteps[] = {1, 1, -1, 3};
    const int64_t from = chance(40) ? 0 : static_cast<int64_t>(random(d->inode->size));
    const int64_t step = piece * kSteps[random(std::size(kSteps))];
    streams.push_back({step < 0 ? size - piece : from, step});
  }
  note("scan " + d->path + " in " + std::to_string(streams.size()) + " runs of " + std::to_string(piece));
  posix_fadvise(d->fd, 0, 0, POSIX_FADV_DONTNEED);
  check_open(*d);
  for (int turn = 0; turn < 16; ++turn) {
    for (Stream& s : streams) {
      if (s.at >= 0 && s.at < size)
        check_region(d->fd, static_cast<uint64_t>(s.at), static_cast<uint64_t>(piece), *d->inode);
      s.at += s.step;
    }
  }
}

void Runner::allocate() {
  Descriptor* d = some_descriptor();
  if (d == nullptr || !writable(d->flags) || d->inode->size > options_.max_bytes) return;
  const uint64_t offset = random(options_.max_bytes);
  const uint64_t length = 1 + random(50000);
  note("fallocate " + d->path + " " + std::to_string(length) + " at " + std::to_string(offset));
  const int error =
      fallocate(d->fd, 0, static_cast<off_t>(offset), static_cast<off_t>(length)) == 0 ? 0 : errno;
  if (error == EOPNOTSUPP) {
    unsupported_.insert("allocate");
    return;
  }
  expect("fallocate " + d->path, error, 0);
  if (offset + length > d->inode->size) d->inode->truncate(offset + length);
  d->inode->mtime_ns.reset();
  check_open(*d);
}

}  // namespace fsrandom
