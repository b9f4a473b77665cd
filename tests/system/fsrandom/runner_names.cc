// SPDX-License-Identifier: Apache-2.0
// Steps on names and attributes.
#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "runner.h"

namespace fsrandom {

void Runner::make_directory() {
  const std::string path = fresh_path();
  note("mkdir " + path);
  const int expected = tree_.mkdir(path, 0755);
  expect("mkdir " + path, mkdir(at(path).c_str(), 0755) == 0 ? 0 : errno, expected);
  check_path(path);
}

void Runner::remove_directory() {
  const std::string path = chance(80) ? existing_path(Type::Directory) : some_path();
  if (path.empty()) return;
  note("rmdir " + path);
  // A directory cannot be removed while it contains a silly-renamed file that we hold open.
  const Place before = tree_.resolve(path, false);
  const int error = rmdir(at(path).c_str()) == 0 ? 0 : errno;
  if (options_.silly && (error == ENOTEMPTY || error == EBUSY) && before.inode &&
      before.inode->entries.empty())
    return;
  const int expected = tree_.rmdir(path);
  if (expected == ENOTEMPTY && error == EEXIST) return;  // POSIX allows both
  expect("rmdir " + path, error, expected);
  if (expected == 0) check_path(path);
}

void Runner::unlink_name() {
  const std::string path = some_path();
  note("unlink " + path);
  const int expected = tree_.unlink(path);
  const int error = unlink(at(path).c_str()) == 0 ? 0 : errno;
  if (expected == EISDIR && error == EPERM) return;  // POSIX's errno for it
  expect("unlink " + path, error, expected);
  check_path(path);
}

void Runner::rename_name() {
  const std::string from = some_path();
  const std::string to = chance(60) ? fresh_path() : some_path();
  const bool no_replace = chance(15) && !unsupported_.contains("noreplace");
  note("rename " + from + " -> " + to + (no_replace ? " NOREPLACE" : ""));
  const std::string call = "rename " + from + " -> " + to;
  const Place target = tree_.resolve(to, false);
  const int error =
      renameat2(AT_FDCWD, at(from).c_str(), AT_FDCWD, at(to).c_str(), no_replace ? RENAME_NOREPLACE : 0) == 0
          ? 0
          : errno;
  const bool silly_target = options_.silly && target.inode && target.inode->type == Type::Directory;
  if (silly_target && (error == ENOTEMPTY || error == EBUSY)) return;
  const int expected = tree_.may_rename(from, to, no_replace);
  if (no_replace && error == EINVAL && expected != EINVAL) {
    unsupported_.insert("noreplace");  // rename(2): the file system does not support the flag
    return;
  }
  tree_.rename(from, to, no_replace);
  if (expected == ENOTEMPTY && error == EEXIST) return;
  expect(call, error, expected);
  check_path(from);
  check_path(to);
}

void Runner::link_name() {
  const std::string from = some_path();
  const std::string to = fresh_path();
  note("link " + from + " -> " + to);
  const int expected = tree_.link(from, to);
  expect("link " + from + " -> " + to, link(at(from).c_str(), at(to).c_str()) == 0 ? 0 : errno, expected);
  check_path(from);
  check_path(to);
}

void Runner::make_symlink() {
  const std::string path = fresh_path();
  std::string target = chance(30) ? "no/such/name" : some_path();
  const size_t slash = target.rfind('/');
  if (slash != std::string::npos && chance(50)) target = target.substr(slash + 1);  // perhaps a sibling
  note("symlink " + target + " <- " + path);
  const int expected = tree_.symlink(target, path);
  expect("symlink " + path, symlink(target.c_str(), at(path).c_str()) == 0 ? 0 : errno, expected);
  check_path(path);
}

void Runner::read_symlink() {
  const std::string path = chance(80) ? existing_path(Type::Symlink) : some_path();
  if (path.empty()) return;
  note("readlink " + path);
  const Place place = tree_.resolve(path, false);
  const int expected = place.error != 0                     ? place.error
                       : !place.inode                       ? ENOENT
                       : place.inode->type != Type::Symlink ? EINVAL
                                                            : 0;
  char buffer[5000];
  const ssize_t length = readlink(at(path).c_str(), buffer, sizeof(buffer));
  expect("readlink " + path, length >= 0 ? 0 : errno, expected);
  if (length >= 0)
    expect_data("readlink " + path, 0, std::string(buffer, static_cast<size_t>(length)), place.inode->target);
}

void Runner::list_directory() {
  const std::string path = chance(30) ? "" : existing_path(Type::Directory);
  note("readdir " + path);
  DIR* stream = opendir(at(path).c_str());
  expect("opendir " + path, stream != nullptr ? 0 : errno, 0);
  auto left = tree_.resolve(path, false).inode->entries;
  std::string wrong;
  errno = 0;
  while (const dirent* entry = readdir(stream)) {
    const std::string name = entry->d_name;
    if (name == "." || name == ".." || (options_.silly && name.starts_with(".nfs"))) continue;
    const auto expected = left.find(name);
    if (expected == left.end()) {
      wrong = name + " is listed twice or should not be there";
      break;
    }
    const Type type = expected->second->type;
    const unsigned char wanted = type == Type::File ? DT_REG : type == Type::Directory ? DT_DIR : DT_LNK;
    if (entry->d_type != DT_UNKNOWN && entry->d_type != wanted)
      wrong = name + " has type " + std::to_string(entry->d_type);
    if (expected->second->number != 0 && entry->d_ino != expected->second->number) {
      wrong = name + " has d_ino " + std::to_string(entry->d_ino) + ", st_ino was " +
              std::to_string(expected->second->number);
    }
    left.erase(expected);
    errno = 0;
  }
  const int error = errno;
  closedir(stream);
  if (!wrong.empty()) throw Mismatch("readdir " + path + ": " + wrong);
  expect("readdir " + path, error, 0);
  if (!left.empty()) throw Mismatch("readdir " + path + ": " + left.begin()->first + " is missing");
}

void Runner::stat_path() {
  const std::string path = some_path();
  note("stat " + path);
  check_path(path);
  const Place place = tree_.resolve(path, true);
  struct stat st {};
  const int error = stat(at(path).c_str(), &st) == 0 ? 0 : errno;
  expect("stat " + path, error, place.error != 0 ? place.error : place.inode ? 0 : ENOENT);
  if (error == 0) check_stat("stat " + path, st, *place.inode);
  expect("access " + path, access(at(path).c_str(), F_OK) == 0 ? 0 : errno, error);
}

void Runner::change_mode() {
  const std::string path = some_path();
  const Place place = tree_.resolve(path, true);
  const int expected = place.error != 0 ? place.error : place.inode ? 0 : ENOENT;
  const bool directory = expected == 0 && place.inode->type == Type::Directory;
  static constexpr unsigned kFileModes[] = {0600, 0644, 0664, 0755, 0700};
  static constexpr unsigned kDirectoryModes[] = {0700, 0755, 0775, 01777};
  const unsigned mode = directory ? kDirectoryModes[random(std::size(kDirectoryModes))]
                                  : kFileModes[random(std::size(kFileModes))];
  note("chmod " + path + " " + std::to_string(mode));
  expect("chmod " + path, chmod(at(path).c_str(), mode) == 0 ? 0 : errno, expected);
  if (expected != 0) return;
  if (place.inode != tree_.root()) place.inode->mode = mode;
  check_path(path);
}

void Runner::set_times() {
  const std::string path = some_path();
  const Place place = tree_.resolve(path, true);
  const int expected = place.error != 0 ? place.error : place.inode ? 0 : ENOENT;
  const int64_t mtime_ns = 1000000000000000000 + static_cast<int64_t>(random(500000000000000000));
  const timespec times[2] = {{1234567890, 123000000}, {mtime_ns / 1000000000, mtime_ns % 1000000000}};
  note("utimensat " + path);
  expect("utimensat " + path, utimensat(AT_FDCWD, at(path).c_str(), times, 0) == 0 ? 0 : errno, expected);
  if (expected != 0) return;
  // New and removed names change a directory's time; dirty pages of a mapping change a file's when they are
  // written.
  place.inode->mtime_ns.reset();
  if (place.inode->type == Type::File && !place.inode->map_dirty && !mapped(place.inode)) {
    place.inode->mtime_ns = mtime_ns;
  }
  check_path(path);
}

}  // namespace fsrandom
