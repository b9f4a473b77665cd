// SPDX-License-Identifier: Apache-2.0
#include "runner.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace fsrandom {

namespace {
constexpr size_t kHistory = 40;
constexpr size_t kMaxDepth = 3;
constexpr uint64_t kFar[] = {uint64_t{1} << 31, (uint64_t{1} << 32) - 2000, uint64_t{5} << 30,
                             uint64_t{1} << 40};
}  // namespace

const std::vector<Runner::Kind>& Runner::kinds() {
  static const std::vector<Kind> all{
      {"open", 12, &Runner::open_file},         {"close", 8, &Runner::close_file},
      {"write", 16, &Runner::write_file},       {"read", 12, &Runner::read_file},
      {"ftruncate", 4, &Runner::truncate_open}, {"truncate", 3, &Runner::truncate_path},
      {"mmap", 6, &Runner::map_file},           {"mread", 6, &Runner::map_read},
      {"mwrite", 8, &Runner::map_write},        {"munmap", 4, &Runner::unmap},
      {"fsync", 3, &Runner::sync_file},         {"seek", 2, &Runner::seek_file},
      {"copy", 20, &Runner::copy_range},        {"drop", 2, &Runner::drop_cache},
      {"allocate", 1, &Runner::allocate},       {"mkdir", 2, &Runner::make_directory},
      {"rmdir", 3, &Runner::remove_directory},  {"unlink", 3, &Runner::unlink_name},
      {"rename", 6, &Runner::rename_name},      {"link", 2, &Runner::link_name},
      {"symlink", 1, &Runner::make_symlink},    {"readlink", 1, &Runner::read_symlink},
      {"readdir", 3, &Runner::list_directory},  {"stat", 5, &Runner::stat_path},
      {"chmod", 1, &Runner::change_mode},       {"utimens", 1, &Runner::set_times},
  };
  return all;
}

Runner::Runner(const Options& options) : options_(options), generator_(options.seed) {
  for (const std::string& name : options.without) unsupported_.insert(name);
}

Runner::~Runner() {
  for (const Mapping& m : mappings_) munmap(m.address, m.length);
  for (const Descriptor& d : descriptors_) close(d.fd);
}

void Runner::run() {
  std::vector<Kind> all = kinds();
  all.push_back(
      {"scan", options_.scans, &Runner::scan_file});  // last, so that without it a seed gives the same steps
  unsigned total = 0;
  for (const Kind& kind : all) total += kind.weight;
  while (step_ < options_.steps) {
    ++step_;
    uint64_t pick = random(total);
    const Kind* chosen = nullptr;
    for (const Kind& kind : all) {
      if (pick < kind.weight) {
        chosen = &kind;
        break;
      }
      pick -= kind.weight;
    }
    if (unsupported_.contains(chosen->name)) continue;
    alarm(options_.step_timeout_s);
    acted_ = false;
    (this->*chosen->step)();
    if (!acted_) {  // it found nothing to work on, so it does not count
      --step_;
      continue;
    }
    ++counts_[chosen->name];
    if (step_ % options_.check_every == 0) check_all();
  }
  while (!mappings_.empty()) unmap_at(mappings_.size() - 1);
  check_all();
  while (!descriptors_.empty()) close_descriptor(descriptors_.size() - 1);
  check_all();
  alarm(0);
}

void Runner::note(const std::string& what) {
  acted_ = true;
  static const std::string many =
      "\xc3\xb6\xc3\xb6\xc3\xb6\xc3\xb6";  // shortens the long name, which is known
  std::string line = std::to_string(step_) + " ";
  for (size_t i = 0; i < what.size();) {
    if (what.compare(i, many.size(), many) != 0) {
      line += what[i++];
      continue;
    }
    while (what.compare(i, 2, many, 0, 2) == 0) i += 2;
    line += "LONG";
  }
  history_.push_back(line);
  if (history_.size() > kHistory) history_.pop_front();
}

void Runner::expect(const std::string& call, int result_errno, int expected_errno) {
  if (result_errno == expected_errno) return;
  throw Mismatch(call + ": got " + (result_errno == 0 ? "success" : std::strerror(result_errno)) +
                 ", expected " + (expected_errno == 0 ? "success" : std::strerror(expected_errno)));
}

void Runner::expect_data(const std::string& call, uint64_t offset, const std::string& got,
                         const std::string& expected) {
  if (got != expected) throw Mismatch(call + ": " + describe_difference(offset, got, expected));
}

std::string describe_difference(uint64_t offset, const std::string& got, const std::string& expected) {
  const size_t common = std::min(got.size(), expected.size());
  size_t first = 0;
  while (first < common && got[first] == expected[first]) ++first;
  if (first == common) {
    return std::to_string(got.size()) + " bytes at offset " + std::to_string(offset) + ", expected " +
           std::to_string(expected.size());
  }
  size_t wrong = 0;
  size_t last = first;
  for (size_t i = first; i < common; ++i) {
    if (got[i] != expected[i]) {
      ++wrong;
      last = i;
    }
  }
  const auto hex = [&](const std::string& bytes) {
    std::string out;
    char buffer[4];
    for (size_t i = first; i < std::min(common, first + 16); ++i) {
      std::snprintf(buffer, sizeof(buffer), "%02x ", static_cast<unsigned char>(bytes[i]));
      out += buffer;
    }
    return out;
  };
  return std::to_string(wrong) + " wrong bytes from offset " + std::to_string(offset + first) + " to " +
         std::to_string(offset + last) + "; there: " + hex(got) + "expected: " + hex(expected);
}

// ---- random choices

std::string Runner::fresh_path() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> pool{
        "a", "b", "c", "d", "e", "f", "name with spaces", "x.txt", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x90\xa7"};
    std::string longest;  // 255 bytes of two-byte characters and one ASCII
    while (longest.size() < 254) longest += "\xc3\xb6";
    pool.push_back(longest + "z");
    return pool;
  }();
  std::string directory;
  if (chance(75)) directory = existing_path(Type::Directory);
  if (static_cast<size_t>(std::count(directory.begin(), directory.end(), '/')) >= kMaxDepth)
    directory.clear();
  const std::string& name = names[random(names.size())];
  return directory.empty() ? name : directory + "/" + name;
}

std::string Runner::existing_path(Type type) {
  std::vector<std::string> found;
  for (const std::string& path : tree_.paths()) {
    if (path.empty()) continue;
    if (tree_.resolve(path, false).inode->type == type) found.push_back(path);
  }
  return found.empty() ? "" : found[random(found.size())];
}

std::string Runner::some_path() {
  if (chance(25)) return fresh_path();
  if (chance(3)) return fresh_path() + "/below";  // ENOENT, ENOTDIR, or a path through a symbolic link
  const uint64_t which = random(10);
  const std::string path = existing_path(which < 7   ? Type::File
                                         : which < 9 ? Type::Directory
                                                     : Type::Symlink);
  return path.empty() ? fresh_path() : path;
}

uint64_t Runner::some_offset(const Inode& inode) {
  if (chance(2)) return kFar[random(std::size(kFar))] + random(10000);
  if (chance(20)) return inode.size;
  if (inode.size > 2 * options_.max_bytes && chance(50)) return inode.size - random(options_.max_bytes);
  return random(std::min(inode.size + 5000, options_.max_bytes));
}

std::string Runner::some_bytes(uint64_t length) {
  // Every word contains the step that wrote it, so a wrong byte shows its origin.
  std::string bytes(length, '\0');
  const uint64_t stamp = (options_.seed << 40) + (step_ << 8) + 1;
  for (uint64_t i = 0; i < length; i += sizeof(stamp)) {
    const uint64_t word = stamp + (i << 20);
    std::memcpy(bytes.data() + i, &word, std::min<uint64_t>(sizeof(word), length - i));
  }
  return bytes;
}

Runner::Descriptor* Runner::some_descriptor() {
  return descriptors_.empty() ? nullptr : &descriptors_[random(descriptors_.size())];
}

// ---- checks

void Runner::check_stat(const std::string& what, const struct stat& st, Inode& inode) {
  const auto differ = [&](const std::string& field, uint64_t got, uint64_t expected) {
    throw Mismatch(what + ": " + field + " is " + std::to_string(got) + ", expected " +
                   std::to_string(expected));
  };
  const unsigned format = inode.type == Type::File        ? S_IFREG
                          : inode.type == Type::Directory ? S_IFDIR
                                                          : S_IFLNK;
  if ((st.st_mode & S_IFMT) != format) differ("file type", st.st_mode & S_IFMT, format);
  if (inode.type != Type::Symlink && &inode != tree_.root().get() && (st.st_mode & 07777) != inode.mode) {
    differ("mode", st.st_mode & 07777, inode.mode);
  }
  if (inode.type == Type::File && static_cast<uint64_t>(st.st_size) != inode.size) {
    differ("size", static_cast<uint64_t>(st.st_size), inode.size);
  }
  if (inode.type != Type::Directory && st.st_nlink != inode.links) {
    const bool silly_renamed = options_.silly && inode.links == 0 && st.st_nlink == 1;
    if (!silly_renamed) differ("link count", st.st_nlink, inode.links);
  }
  if (inode.number == 0) inode.number = st.st_ino;
  if (st.st_ino != inode.number) differ("inode number", st.st_ino, inode.number);
  if (inode.mtime_ns) {
    const int64_t mtime = st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    if (mtime != *inode.mtime_ns)
      differ("mtime", static_cast<uint64_t>(mtime), static_cast<uint64_t>(*inode.mtime_ns));
  }
}

void Runner::check_open(Descriptor& descriptor) {
  struct stat st {};
  expect("fstat " + descriptor.path, fstat(descriptor.fd, &st) == 0 ? 0 : errno, 0);
  check_stat("fstat " + descriptor.path, st, *descriptor.inode);
}

void Runner::check_path(const std::string& path) {
  const Place place = tree_.resolve(path, false);
  struct stat st {};
  const int error = lstat(at(path).c_str(), &st) == 0 ? 0 : errno;
  expect("lstat " + path, error, place.error != 0 ? place.error : place.inode ? 0 : ENOENT);
  if (error == 0) check_stat("lstat " + path, st, *place.inode);
}

void Runner::check_region(int fd, uint64_t offset, uint64_t length, const Inode& inode) {
  std::string got(length, '?');
  const ssize_t count = pread(fd, got.data(), length, static_cast<off_t>(offset));
  expect("pread", count >= 0 ? 0 : errno, 0);
  got.resize(static_cast<size_t>(count));
  expect_data("pread", offset, got, inode.read(offset, length));
}

bool Runner::mapped(const InodePtr& inode) const {
  return std::any_of(mappings_.begin(), mappings_.end(), [&](const Mapping& m) { return m.inode == inode; });
}

void Runner::check_all() {
  alarm(options_.step_timeout_s);
  verify_tree(options_.directory, tree_, options_.silly, true);
  for (Descriptor& descriptor : descriptors_) {
    check_open(descriptor);
    if ((descriptor.flags & O_ACCMODE) != O_WRONLY && !(descriptor.flags & O_DIRECT)) {
      verify_content("open file " + descriptor.path, descriptor.fd, *descriptor.inode);
    }
  }
  if (options_.witness.empty()) return;
  sync_all();
  verify_tree(options_.witness, tree_, options_.silly, true);
}

void Runner::sync_all() {
  for (Mapping& m : mappings_) {
    expect("msync", msync(m.address, m.length, MS_SYNC) == 0 ? 0 : errno, 0);
    m.dirty = false;
  }
  for (const Descriptor& d : descriptors_) {
    if ((d.flags & O_ACCMODE) == O_RDONLY) continue;
    expect("fsync " + d.path, fsync(d.fd) == 0 ? 0 : errno, 0);
    d.inode->map_dirty = false;
  }
  for (const std::string& path : tree_.paths()) {
    const InodePtr inode = tree_.resolve(path, false).inode;
    if (!inode->map_dirty) continue;
    const int fd = open(at(path).c_str(), O_RDWR);
    expect("open " + path, fd >= 0 ? 0 : errno, 0);
    expect("fsync " + path, fsync(fd) == 0 ? 0 : errno, 0);
    close(fd);
    inode->map_dirty = false;
  }
}

}  // namespace fsrandom
