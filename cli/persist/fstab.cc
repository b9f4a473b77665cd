// SPDX-License-Identifier: Apache-2.0
#include "cli/persist/fstab.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "cli/options/option_split.h"
#include "cli/support/mountinfo.h"
#include "transport/runtime/fd.h"

namespace nfsrdma::cli {
namespace {

constexpr std::string_view kType = "nfsrdma-fuse";
constexpr std::string_view kEscaped = " \t\n\r\\#";

tl::unexpected<Failure> failed(const std::string& what, int error) {
  return refuse(ToolExit::kFailed, fmt::format("{}: {}", what, std::strerror(error)));
}

struct Line {
  size_t begin = 0;
  size_t end = 0;  // without its newline
  std::string directory;
  std::string type;
};

// The line that begins at `at`; nothing at the end of the text.
std::optional<Line> next_line(std::string_view text, size_t at) {
  if (at >= text.size()) return std::nullopt;
  Line line;
  line.begin = at;
  line.end = std::min(text.find('\n', at), text.size());
  std::string_view rest = text.substr(at, line.end - at);
  std::array<std::string_view, 3> fields;
  for (std::string_view& field : fields) {
    rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
    field = rest.substr(0, rest.find_first_of(" \t"));
    rest.remove_prefix(field.size());
  }
  if (fields[0].starts_with('#')) return line;
  line.directory = unescape_octal(fields[1]);
  line.type = fields[2];
  return line;
}

// "/mnt/" equals "/mnt".
std::string_view without_slash(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return path;
}

bool same_directory(const Line& line, std::string_view directory) {
  return !line.type.empty() && without_slash(line.directory) == without_slash(directory);
}

bool has(const std::vector<RawOption>& options, std::string_view name) {
  return std::any_of(options.begin(), options.end(), [&](const RawOption& o) { return o.name == name; });
}

struct Contents {
  std::string text;
  struct stat status {};
  bool there = false;
};

Outcome<Contents> read_file(const std::string& path) {
  Contents out;
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd && errno == ENOENT) return out;
  if (!fd || fstat(fd.get(), &out.status) != 0) return failed(path, errno);
  out.there = true;
  char buffer[65536];
  for (;;) {
    const ssize_t n = read(fd.get(), buffer, sizeof buffer);
    if (n == 0) return out;
    if (n > 0) out.text.append(buffer, static_cast<size_t>(n));
    if (n < 0 && errno != EINTR) return failed(path, errno);
  }
}

Outcome<> fill(const Fd& fd, const std::string& path, std::string_view text, const Contents& before) {
  const mode_t mode = before.there ? before.status.st_mode & 07777 : 0644;
  if (before.there && fchown(fd.get(), before.status.st_uid, before.status.st_gid) != 0)
    return failed(path, errno);
  if (fchmod(fd.get(), mode) != 0) return failed(path, errno);
  while (!text.empty()) {
    const ssize_t n = write(fd.get(), text.data(), text.size());
    if (n < 0 && errno != EINTR) return failed(path, errno);
    if (n > 0) text.remove_prefix(static_cast<size_t>(n));
  }
  return fsync(fd.get()) == 0 ? Outcome<>() : failed(path, errno);
}

std::string followed(const std::string& path) {
  char target[PATH_MAX];
  return realpath(path.c_str(), target) == nullptr ? path : target;
}

}  // namespace

std::string escape_fstab(std::string_view field) {
  std::string out;
  for (const char c : field) {
    if (kEscaped.find(c) == std::string_view::npos) {
      out += c;
    } else {
      out += fmt::format("\\{:03o}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

std::string fstab_line(std::string_view source, std::string_view directory, std::string_view options) {
  std::string list(options);
  const auto given = split_options(options).value_or(std::vector<RawOption>{});
  for (const std::string_view name : {"_netdev", "nofail"}) {
    if (!has(given, name)) list += fmt::format("{}{}", list.empty() ? "" : ",", name);
  }
  return fmt::format("{} {} {} {} 0 0", escape_fstab(source), escape_fstab(directory), kType,
                     escape_fstab(list));
}

Outcome<std::string> with_fstab_line(std::string_view text, std::string_view directory,
                                     std::string_view line) {
  for (auto found = next_line(text, 0); found; found = next_line(text, found->end + 1)) {
    if (!same_directory(*found, directory)) continue;
    if (found->type != kType) {
      return refuse(ToolExit::kFailed,
                    fmt::format("{}: there is a line of type {} for it already; take that away first",
                                directory, found->type));
    }
    return fmt::format("{}{}{}", text.substr(0, found->begin), line, text.substr(found->end));
  }
  // If the last line had no newline, the new one has none, so that without_fstab_lines() can restore the
  // text.
  if (!text.empty() && !text.ends_with('\n')) return fmt::format("{}\n{}", text, line);
  return fmt::format("{}{}\n", text, line);
}

std::string without_fstab_lines(std::string_view text, std::string_view directory) {
  std::string out;
  for (auto line = next_line(text, 0); line; line = next_line(text, line->end + 1)) {
    if (!same_directory(*line, directory) || line->type != kType) {
      out += text.substr(line->begin, line->end + 1 - line->begin);
    } else if (line->end == text.size() && out.ends_with('\n')) {
      out.pop_back();
    }
  }
  return out;
}

Outcome<> rewrite_file(const std::string& path,
                       const std::function<Outcome<std::string>(const std::string&)>& edit) {
  const std::string real = followed(path);
  const auto before = read_file(real);
  if (!before) return tl::unexpected(before.error());
  const auto text = edit(before->text);
  if (!text) return tl::unexpected(text.error());
  if (*text == before->text) return {};
  std::string temporary = real + ".XXXXXX";
  const Fd fd(mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd) return failed(real, errno);
  Outcome<> done = fill(fd, real, *text, *before);
  if (done) {
    const auto now = read_file(real);
    if (!now || now->there != before->there || now->text != before->text)
      done = refuse(ToolExit::kFailed, fmt::format("{}: somebody else has just changed it; try again", real));
  }
  if (done && rename(temporary.c_str(), real.c_str()) != 0) done = failed(real, errno);
  if (!done) unlink(temporary.c_str());
  return done;
}

}  // namespace nfsrdma::cli
