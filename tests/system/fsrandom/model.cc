// SPDX-License-Identifier: Apache-2.0
#include "model.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>

namespace fsrandom {

namespace {
constexpr int kMaxLinks = 40;  // Linux follows so many before ELOOP
}

std::string Inode::read(uint64_t offset, uint64_t length) const {
  if (offset >= size) return {};
  std::string out(std::min(length, size - offset), '\0');
  const uint64_t end = offset + out.size();
  for (auto page = pages.lower_bound(offset / kPage); page != pages.end() && page->first * kPage < end;
       ++page) {
    const uint64_t start = page->first * kPage;
    const uint64_t from = std::max(start, offset);
    const uint64_t to = std::min(start + kPage, end);
    std::memcpy(out.data() + (from - offset), page->second.data() + (from - start), to - from);
  }
  return out;
}

void Inode::write(uint64_t offset, const std::string& data) {
  for (uint64_t done = 0; done < data.size();) {
    const uint64_t at = offset + done;
    const uint64_t length = std::min<uint64_t>(kPage - at % kPage, data.size() - done);
    auto [page, fresh] = pages.try_emplace(at / kPage);
    if (fresh) page->second.fill('\0');
    std::memcpy(page->second.data() + at % kPage, data.data() + done, length);
    done += length;
  }
  size = std::max(size, offset + data.size());
}

void Inode::truncate(uint64_t new_size) {
  if (new_size < size) {
    pages.erase(pages.lower_bound((new_size + kPage - 1) / kPage), pages.end());
    const auto last = pages.find(new_size / kPage);
    if (last != pages.end())
      std::fill(last->second.begin() + static_cast<long>(new_size % kPage), last->second.end(), '\0');
  }
  size = new_size;
}

bool Inode::all_zero(uint64_t begin, uint64_t end) const {
  for (auto page = pages.lower_bound(begin / kPage); page != pages.end() && page->first * kPage < end;
       ++page) {
    const uint64_t start = page->first * kPage;
    const auto from = page->second.begin() + static_cast<long>(std::max(start, begin) - start);
    const auto to = page->second.begin() + static_cast<long>(std::min(start + kPage, end) - start);
    if (std::any_of(from, to, [](char c) { return c != '\0'; })) return false;
  }
  return true;
}

Tree::Tree() : root_(std::make_shared<Inode>()) {
  root_->type = Type::Directory;
  root_->links = 2;
}

Place Tree::resolve(const std::string& path, bool follow) const {
  return walk(root_, path, follow, 0);
}

Place Tree::walk(InodePtr at, const std::string& path, bool follow, int depth) const {
  Place place{0, at, "", at};
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string name = path.substr(begin, end - begin);
    begin = end + 1;
    if (name.empty() || name == ".") continue;
    if (!place.inode) return {ENOENT, {}, "", {}};
    if (place.inode->type != Type::Directory) return {ENOTDIR, {}, "", {}};
    if (name == "..") {
      const InodePtr up = place.inode->parent.lock();
      place = {0, up ? up : root_, "", up ? up : root_};
      continue;
    }
    const InodePtr directory = place.inode;
    const auto entry = directory->entries.find(name);
    place = {0, directory, name, entry == directory->entries.end() ? nullptr : entry->second};
    const bool last = begin >= path.size();
    if (place.inode && place.inode->type == Type::Symlink && (!last || follow)) {
      if (depth >= kMaxLinks) return {ELOOP, {}, "", {}};
      place = walk(directory, place.inode->target, true, depth + 1);
      if (place.error != 0) return place;
    }
  }
  return place;
}

InodePtr Tree::create_file(const Place& place, unsigned mode) {
  auto inode = std::make_shared<Inode>();
  inode->mode = mode;
  inode->links = 1;
  place.directory->entries[place.name] = inode;
  return inode;
}

int Tree::mkdir(const std::string& path, unsigned mode) {
  const Place place = resolve(path, false);
  if (place.error != 0) return place.error;
  if (place.inode) return EEXIST;
  auto inode = create_file(place, mode);
  inode->type = Type::Directory;
  inode->links = 2;
  inode->parent = place.directory;
  return 0;
}

int Tree::symlink(const std::string& target, const std::string& path) {
  const Place place = resolve(path, false);
  if (place.error != 0) return place.error;
  if (place.inode) return EEXIST;
  auto inode = create_file(place, 0777);
  inode->type = Type::Symlink;
  inode->target = target;
  return 0;
}

int Tree::link(const std::string& from, const std::string& to) {
  const Place source = resolve(from, false);
  if (source.error != 0) return source.error;
  if (!source.inode) return ENOENT;
  const Place place = resolve(to, false);
  if (place.error != 0) return place.error;
  if (place.inode) return EEXIST;
  if (source.inode->type == Type::Directory) return EPERM;
  place.directory->entries[place.name] = source.inode;
  ++source.inode->links;
  return 0;
}

int Tree::unlink(const std::string& path) {
  const Place place = resolve(path, false);
  if (place.error != 0) return place.error;
  if (!place.inode) return ENOENT;
  if (place.inode->type == Type::Directory) return EISDIR;
  --place.inode->links;
  place.directory->entries.erase(place.name);
  return 0;
}

int Tree::rmdir(const std::string& path) {
  const Place place = resolve(path, false);
  if (place.error != 0) return place.error;
  if (!place.inode) return ENOENT;
  if (place.inode->type != Type::Directory) return ENOTDIR;
  if (!place.inode->entries.empty()) return ENOTEMPTY;
  place.inode->links = 0;
  place.directory->entries.erase(place.name);
  return 0;
}

int Tree::may_rename(const std::string& from, const std::string& to, bool no_replace) const {
  const Place source = resolve(from, false);
  const Place target = resolve(to, false);
  if (source.error != 0) return source.error;
  if (target.error != 0) return target.error;
  if (!source.inode) return ENOENT;
  if (no_replace && target.inode) return EEXIST;
  const bool is_directory = source.inode->type == Type::Directory;
  if (is_directory) {
    for (InodePtr up = target.directory; up; up = up->parent.lock()) {
      if (up == source.inode) return EINVAL;
    }
  }
  if (!target.inode) return 0;
  for (InodePtr up = source.directory; up; up = up->parent.lock()) {
    if (up == target.inode) return ENOTEMPTY;  // a directory that contains the source is never empty
  }
  if (target.inode == source.inode) return 0;
  if (is_directory && target.inode->type != Type::Directory) return ENOTDIR;
  if (!is_directory && target.inode->type == Type::Directory) return EISDIR;
  return is_directory && !target.inode->entries.empty() ? ENOTEMPTY : 0;
}

int Tree::rename(const std::string& from, const std::string& to, bool no_replace) {
  const int error = may_rename(from, to, no_replace);
  if (error != 0) return error;
  const Place source = resolve(from, false);
  const Place target = resolve(to, false);
  if (target.inode == source.inode) return 0;
  const bool is_directory = source.inode->type == Type::Directory;
  if (target.inode) target.inode->links = is_directory ? 0 : target.inode->links - 1;
  source.directory->entries.erase(source.name);
  target.directory->entries[target.name] = source.inode;
  if (is_directory) source.inode->parent = target.directory;
  return 0;
}

std::vector<std::string> Tree::paths() const {
  std::vector<std::string> all;
  const std::function<void(const std::string&, const Inode&)> visit = [&](const std::string& path,
                                                                          const Inode& inode) {
    all.push_back(path);
    for (const auto& [name, child] : inode.entries) visit(path.empty() ? name : path + "/" + name, *child);
  };
  visit("", *root_);
  return all;
}

}  // namespace fsrandom
