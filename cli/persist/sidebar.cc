// SPDX-License-Identifier: Apache-2.0
#include "cli/persist/sidebar.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>

#include "cli/persist/fstab.h"

namespace nfsrdma::cli {
namespace {

namespace fs = std::filesystem;

fs::path place(const char* variable, const char* below_home) {
  const char* value = std::getenv(variable);
  if (value != nullptr && *value != '\0') return value;
  const char* home = std::getenv("HOME");
  return fs::path(home == nullptr ? "/" : home) / below_home;
}

fs::path gtk_bookmarks() {
  return place("XDG_CONFIG_HOME", ".config") / "gtk-3.0/bookmarks";
}
fs::path kde_places() {
  return place("XDG_DATA_HOME", ".local/share") / "user-places.xbel";
}

std::string one_line(std::string_view name) {
  std::string out(name);
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return out;
}

std::string xml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string bookmark_head(std::string_view directory) {
  return fmt::format("<bookmark href=\"{}\">", xml(file_url(directory)));
}

// Applies `change`. Returns whether the text changed.
Outcome<bool> edit(const fs::path& file, const std::function<std::string(const std::string&)>& change) {
  bool changed = false;
  const auto done = rewrite_file(file, [&](const std::string& text) -> Outcome<std::string> {
    std::string after = change(text);
    changed = after != text;
    return after;
  });
  if (!done) return tl::unexpected(done.error());
  return changed;
}

bool is_there(const fs::path& file) {
  std::error_code none;
  return fs::exists(file, none);
}

}  // namespace

std::string file_url(std::string_view path) {
  std::string out = "file://";
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-._~/!$&'()*+,;=:@").find(c) != std::string_view::npos;
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

std::string without_bookmark(std::string_view text, std::string_view directory) {
  const std::string url = file_url(directory);
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    const size_t next = std::min(end + 1, text.size());
    if (line.substr(0, line.find(' ')) != url) {
      out += text.substr(at, next - at);
    } else if (end == text.size() && out.ends_with('\n')) {
      out.pop_back();
    }
    at = next;
  }
  return out;
}

std::string with_bookmark(std::string_view text, std::string_view directory, std::string_view name) {
  const std::string line = fmt::format("{} {}", file_url(directory), one_line(name));
  std::string out = without_bookmark(text, directory);
  // As in fstab: if the last line had no newline, the new last line has none.
  if (!out.empty() && !out.ends_with('\n')) return out + "\n" + line;
  return out + line + "\n";
}

std::string without_place(std::string_view text, std::string_view directory) {
  constexpr std::string_view kTail = "</bookmark>\n";
  const size_t head = text.find(bookmark_head(directory));
  const size_t tail = head == std::string_view::npos ? head : text.find(kTail, head);
  if (tail == std::string_view::npos) return std::string(text);
  // Removes the indentation of its line too.
  const size_t line = text.find_last_not_of(' ', head == 0 ? 0 : head - 1);
  const size_t begin = line == std::string_view::npos ? 0 : line + 1;
  return fmt::format("{}{}", text.substr(0, begin), text.substr(tail + kTail.size()));
}

std::string with_place(std::string_view text, std::string_view directory, std::string_view name) {
  const std::string before = without_place(text, directory);
  const size_t end = before.rfind("</xbel>");
  if (end == std::string::npos) return std::string(text);
  return fmt::format(
      "{} {}\n  <title>{}</title>\n  <info>\n   <metadata owner=\"http://freedesktop.org\">\n"
      "    <bookmark:icon name=\"folder-remote\"/>\n   </metadata>\n  </info>\n </bookmark>\n{}",
      before.substr(0, end), bookmark_head(directory), xml(one_line(name)), before.substr(end));
}

Outcome<> add_to_sidebars(const std::string& directory, const std::string& name) {
  std::error_code error;
  fs::create_directories(gtk_bookmarks().parent_path(), error);
  if (error)
    return refuse(ToolExit::kFailed, fmt::format("{}: {}", gtk_bookmarks().string(), error.message()));
  auto done =
      edit(gtk_bookmarks(), [&](const std::string& text) { return with_bookmark(text, directory, name); });
  if (done && is_there(kde_places()))
    done = edit(kde_places(), [&](const std::string& text) { return with_place(text, directory, name); });
  if (!done) return tl::unexpected(done.error());
  return {};
}

Outcome<bool> remove_from_sidebars(const std::string& directory) {
  bool any = false;
  if (is_there(gtk_bookmarks())) {
    const auto done =
        edit(gtk_bookmarks(), [&](const std::string& text) { return without_bookmark(text, directory); });
    if (!done) return done;
    any = *done;
  }
  if (is_there(kde_places())) {
    const auto done =
        edit(kde_places(), [&](const std::string& text) { return without_place(text, directory); });
    if (!done) return done;
    any = any || *done;
  }
  return any;
}

}  // namespace nfsrdma::cli
