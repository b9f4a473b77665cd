// SPDX-License-Identifier: Apache-2.0
#include "cli/support/mountinfo.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>

#include "transport/runtime/fd.h"
#include "transport/runtime/proc.h"

namespace nfsrdma::cli {
namespace {

std::string_view next_word(std::string_view& rest) {
  const size_t end = std::min(rest.find(' '), rest.size());
  const std::string_view word = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return word;
}

bool parse_unsigned(std::string_view text, unsigned& out) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && stop == text.data() + text.size();
}

// 36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
std::optional<MountEntry> parse_line(std::string_view line) {
  MountEntry entry;
  std::string_view rest = line;
  if (!parse_unsigned(next_word(rest), entry.id) || !parse_unsigned(next_word(rest), entry.parent))
    return std::nullopt;
  const std::string_view device = next_word(rest);
  const size_t colon = device.find(':');
  if (colon == std::string_view::npos || !parse_unsigned(device.substr(0, colon), entry.major) ||
      !parse_unsigned(device.substr(colon + 1), entry.minor)) {
    return std::nullopt;
  }
  entry.root = unescape_octal(next_word(rest));
  entry.mount_point = unescape_octal(next_word(rest));
  entry.options = next_word(rest);
  while (true) {  // optional fields, ended by "-"
    if (rest.empty()) return std::nullopt;
    if (next_word(rest) == "-") break;
  }
  entry.type = unescape_octal(next_word(rest));
  entry.source = unescape_octal(next_word(rest));
  entry.fs_options = rest;
  if (entry.mount_point.empty() || entry.type.empty()) return std::nullopt;
  return entry;
}

// The mount of an open descriptor: the line "mnt_id:" in its fdinfo.
std::optional<unsigned> mount_id(int fd) {
  const std::string info = Proc::ours().read(fmt::format("self/fdinfo/{}", fd));
  const size_t at = info.find("mnt_id:");
  if (at == std::string::npos) return std::nullopt;
  const size_t begin = info.find_first_of("0123456789", at);
  if (begin == std::string::npos) return std::nullopt;
  unsigned id = 0;
  std::from_chars(info.data() + begin, info.data() + info.size(), id);
  return id;
}

std::string descriptor_path(int fd) {
  return Proc::ours().link(fmt::format("self/fd/{}", fd));
}

bool lies_in(std::string_view path, std::string_view directory) {
  if (directory == "/") return true;
  return path.starts_with(directory) && (path.size() == directory.size() || path[directory.size()] == '/');
}

// The innermost mount on the path, by text, if it is ours; otherwise null.
const MountEntry* our_mount_above(const std::vector<MountEntry>& table, std::string_view path) {
  const MountEntry* best = nullptr;
  for (const MountEntry& entry : table) {
    if (!lies_in(path, entry.mount_point)) continue;
    if (best == nullptr || entry.mount_point.size() >= best->mount_point.size()) best = &entry;
  }
  return best != nullptr && best->ours() ? best : nullptr;
}

}  // namespace

std::string unescape_octal(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto octal = [&](size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '7'; };
    if (text[i] == '\\' && octal(i + 1) && octal(i + 2) && octal(i + 3) && text[i + 1] <= '3') {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

bool has_option(std::string_view options, std::string_view option) {
  while (!options.empty()) {
    const size_t end = std::min(options.find(','), options.size());
    if (options.substr(0, end) == option) return true;
    options.remove_prefix(std::min(end + 1, options.size()));
  }
  return false;
}

bool MountEntry::read_only() const {
  return has_option(options, "ro");
}

uid_t MountEntry::owner() const {
  constexpr std::string_view kKey = "user_id=";
  for (size_t at = fs_options.find(kKey); at != std::string::npos; at = fs_options.find(kKey, at + 1)) {
    if (at != 0 && fs_options[at - 1] != ',') continue;
    uid_t uid = 0;
    std::from_chars(fs_options.data() + at + kKey.size(), fs_options.data() + fs_options.size(), uid);
    return uid;
  }
  return 0;
}

std::vector<MountEntry> parse_mountinfo(std::string_view text) {
  std::vector<MountEntry> table;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (auto entry = parse_line(text.substr(0, end))) table.push_back(*std::move(entry));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return table;
}

std::vector<MountEntry> read_mountinfo(const fuse::MountNamespace& where) {
  return parse_mountinfo(where.mountinfo());
}

std::string lexical_path(std::string_view path) {
  std::string full;
  if (!path.starts_with('/')) {
    char buffer[PATH_MAX];
    if (getcwd(buffer, sizeof buffer) != nullptr) full = buffer;
    full += '/';
  }
  full += path;
  std::vector<std::string_view> names;
  std::string_view rest = full;
  while (!rest.empty()) {
    const size_t slash = std::min(rest.find('/'), rest.size());
    const std::string_view name = rest.substr(0, slash);
    rest.remove_prefix(std::min(slash + 1, rest.size()));
    if (name.empty() || name == ".") continue;
    if (name == "..") {
      if (!names.empty()) names.pop_back();
    } else {
      names.push_back(name);
    }
  }
  std::string out;
  for (const std::string_view name : names) {
    out += '/';
    out += name;
  }
  return out.empty() ? "/" : out;
}

const MountEntry* mount_at(const std::vector<MountEntry>& table, std::string_view path) {
  // Mounts on the same path are listed in mounting order, so the last one is on top.
  for (auto entry = table.rbegin(); entry != table.rend(); ++entry) {
    if (entry->mount_point == path) return &*entry;
  }
  return nullptr;
}

MountPlace find_place(const std::vector<MountEntry>& table, std::string_view path) {
  const std::string lexical = lexical_path(path);
  if (const MountEntry* entry = mount_at(table, lexical)) return {entry, true};
  if (const MountEntry* entry = our_mount_above(table, lexical)) return {entry, false};
  // Otherwise the path may be a symbolic link, lead through a bind mount, or be a directory of another file
  // system.
  const Fd fd(open(std::string(path).c_str(), O_PATH | O_CLOEXEC));
  if (!fd) return {};
  const auto id = mount_id(fd.get());
  const auto entry = std::find_if(table.begin(), table.end(),
                                  [&](const MountEntry& candidate) { return candidate.id == id; });
  if (entry == table.end()) return {};
  return {&*entry, descriptor_path(fd.get()) == entry->mount_point};
}

Outcome<MountEntry> find_our_mount(const std::vector<MountEntry>& table, std::string_view dir, bool inside,
                                   uid_t user) {
  const MountPlace place = find_place(table, dir);
  // The owner of a mount decides what its source field says. Therefore a match by source ranks below every
  // match by path, and only the user's own mounts are considered.
  if (!dir.starts_with('/') && !place.is_mount_point) {
    const auto is_it = [&](const MountEntry& e) { return e.ours() && e.source == dir && e.owner() == user; };
    const auto entry = std::find_if(table.begin(), table.end(), is_it);
    if (entry != table.end() && std::find_if(entry + 1, table.end(), is_it) != table.end())
      return refuse(ToolExit::kNotOurs, fmt::format("{}: mounted more than once; name the mount point", dir));
    if (entry != table.end()) return *entry;
  }
  if (place.entry == nullptr) return refuse(ToolExit::kNotOurs, fmt::format("{}: no such mount", dir));
  if (!place.entry->ours()) {
    return refuse(ToolExit::kNotOurs,
                  place.is_mount_point
                      ? fmt::format("{}: mounted, but as {}, not by this program", dir, place.entry->type)
                      : fmt::format("{}: not a mount of this program", dir));
  }
  if (!place.is_mount_point && !inside) {
    return refuse(ToolExit::kNotOurs,
                  fmt::format("{}: not a mount point; the mount is {}", dir, place.entry->mount_point));
  }
  return *place.entry;
}

}  // namespace nfsrdma::cli
