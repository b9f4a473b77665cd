// SPDX-License-Identifier: Apache-2.0
// Compares whole trees with the model, and transfers the model from one process to another.
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "runner.h"

namespace fsrandom {

namespace {

constexpr uint64_t kReadAll = 2 << 20;
constexpr uint64_t kChunk = 1 << 20;

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

void compare_range(const std::string& what, int fd, const Inode& inode, uint64_t begin, uint64_t end) {
  for (uint64_t at = begin; at < end; at += kChunk) {
    std::string got(std::min(kChunk, end - at), '?');
    const ssize_t count = pread(fd, got.data(), got.size(), static_cast<off_t>(at));
    if (count < 0) throw Mismatch(what + ": read at " + std::to_string(at) + ": " + std::strerror(errno));
    got.resize(static_cast<size_t>(count));
    const std::string expected = inode.read(at, std::min(kChunk, end - at));
    if (got != expected) throw Mismatch(what + ": " + describe_difference(at, got, expected));
  }
}

void compare_entries(const std::string& what, const std::string& directory, const Inode& inode, bool silly) {
  DIR* stream = opendir(directory.c_str());
  if (stream == nullptr) throw Mismatch(what + ": opendir: " + std::strerror(errno));
  auto left = inode.entries;
  std::string extra;
  errno = 0;
  while (const dirent* entry = readdir(stream)) {
    const std::string name = entry->d_name;
    if (name != "." && name != ".." && !(silly && name.starts_with(".nfs")) && left.erase(name) == 0)
      extra = name;
    errno = 0;
  }
  const int error = errno;
  closedir(stream);
  if (error != 0) throw Mismatch(what + ": readdir: " + std::strerror(error));
  if (!extra.empty()) throw Mismatch(what + ": " + extra + " is there but should not be");
  if (!left.empty()) throw Mismatch(what + ": " + left.begin()->first + " is missing");
}

void compare_one(const std::string& directory, const std::string& path, const Inode& inode, bool silly,
                 bool with_numbers) {
  const std::string full = path.empty() ? directory : directory + "/" + path;
  const std::string what = "whole tree in " + directory + ": /" + path;
  struct stat st {};
  if (lstat(full.c_str(), &st) != 0) throw Mismatch(what + ": " + std::strerror(errno));
  const unsigned format = inode.type == Type::File        ? S_IFREG
                          : inode.type == Type::Directory ? S_IFDIR
                                                          : S_IFLNK;
  if ((st.st_mode & S_IFMT) != format) throw Mismatch(what + ": wrong file type");
  if (with_numbers && inode.number != 0 && st.st_ino != inode.number) {
    throw Mismatch(what + ": inode number " + std::to_string(st.st_ino) + ", was " +
                   std::to_string(inode.number));
  }
  if (inode.type == Type::Directory) return compare_entries(what, full, inode, silly);
  if (st.st_nlink != inode.links) {
    throw Mismatch(what + ": link count " + std::to_string(st.st_nlink) + ", expected " +
                   std::to_string(inode.links));
  }
  if (inode.type == Type::Symlink) {
    std::string target(5000, '\0');
    const ssize_t length = readlink(full.c_str(), target.data(), target.size());
    target.resize(static_cast<size_t>(std::max<ssize_t>(length, 0)));
    if (target != inode.target) throw Mismatch(what + ": points to " + target + ", expected " + inode.target);
    return;
  }
  if (static_cast<uint64_t>(st.st_size) != inode.size) {
    throw Mismatch(what + ": size " + std::to_string(st.st_size) + ", expected " +
                   std::to_string(inode.size));
  }
  const Fd fd(open(full.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) throw Mismatch(what + ": open: " + std::strerror(errno));
  verify_content(what, fd.get(), inode);
}

template <class T>
void put(std::ostream& out, T value) {
  out.write(reinterpret_cast<const char*>(&value), sizeof(value));
}
void put(std::ostream& out, const std::string& text) {
  put<uint64_t>(out, text.size());
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
}
template <class T>
T get(std::istream& in) {
  T value{};
  in.read(reinterpret_cast<char*>(&value), sizeof(value));
  if (!in) throw Mismatch("the dump is cut off");
  return value;
}
std::string get_text(std::istream& in) {
  std::string text(get<uint64_t>(in), '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  return text;
}

}  // namespace

void verify_content(const std::string& what, int fd, const Inode& inode) {
  if (inode.size <= kReadAll) return compare_range(what, fd, inode, 0, inode.size + 1);
  compare_range(what, fd, inode, 0, kPage);
  compare_range(what, fd, inode, inode.size - kPage, inode.size + 1);
  // Each run of pages, with a page of the hole on both sides.
  for (auto page = inode.pages.begin(); page != inode.pages.end();) {
    const uint64_t first = page->first;
    uint64_t last = first;
    while (++page != inode.pages.end() && page->first == last + 1) ++last;
    compare_range(what, fd, inode, first > 0 ? (first - 1) * kPage : 0,
                  std::min((last + 2) * kPage, inode.size));
  }
}

void verify_tree(const std::string& directory, const Tree& tree, bool silly, bool with_numbers) {
  for (const std::string& path : tree.paths()) {
    compare_one(directory, path, *tree.resolve(path, false).inode, silly, with_numbers);
  }
}

void save_tree(const Tree& tree, const std::string& file) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  const std::vector<std::string> paths = tree.paths();
  put<uint64_t>(out, paths.size());
  for (const std::string& path : paths) {
    const InodePtr inode = tree.resolve(path, false).inode;
    put(out, path);
    put(out, inode->type);
    put(out, inode->number);
    put(out, inode->size);
    put(out, inode->target);
    put<uint64_t>(out, inode->pages.size());
    for (const auto& [number, page] : inode->pages) {
      put(out, number);
      out.write(page.data(), static_cast<std::streamsize>(page.size()));
    }
  }
  if (!out.flush()) throw Mismatch("cannot write " + file);
}

Tree load_tree(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw Mismatch("cannot read " + file);
  Tree tree;
  std::map<uint64_t, InodePtr> known;  // by number: hard links share one inode
  for (uint64_t left = get<uint64_t>(in); left > 0; --left) {
    const std::string path = get_text(in);
    const Type type = get<Type>(in);
    const uint64_t number = get<uint64_t>(in);
    const uint64_t size = get<uint64_t>(in);
    const std::string target = get_text(in);
    InodePtr inode;
    if (path.empty()) {
      inode = tree.root();
    } else if (const auto same = known.find(number); type != Type::Directory && same != known.end()) {
      inode = same->second;
      const Place place = tree.resolve(path, false);
      place.directory->entries[place.name] = inode;
      ++inode->links;
    } else if (type == Type::Directory) {
      tree.mkdir(path, 0755);
      inode = tree.resolve(path, false).inode;
    } else {
      inode = tree.create_file(tree.resolve(path, false), 0644);
      inode->type = type;
      known[number] = inode;
    }
    inode->number = number;
    inode->size = size;
    inode->target = target;
    for (uint64_t pages = get<uint64_t>(in); pages > 0; --pages) {
      const uint64_t page = get<uint64_t>(in);
      in.read(inode->pages[page].data(), kPage);
    }
  }
  return tree;
}

}  // namespace fsrandom
