// SPDX-License-Identifier: Apache-2.0
// Fuzz entry: the mount table, /proc/self/mountinfo (proc_pid_mountinfo(5)).
//
// Checked: there are no more entries than lines. An entry that is written as the kernel writes it is read as
// the same. No field is longer than its line. The path for looking up a mount is absolute and normalized.
#include "cli/support/mountinfo.h"

#include <fmt/core.h>

#include <algorithm>

#include "tests/fuzz/text.h"

namespace {

using namespace nfsrdma;  // NOLINT: used throughout this file
using cli::MountEntry;
using fuzz::require;

std::string escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == ' ' || c == '\t' || c == '\n' || c == '\\' || c == '#') {
      out += fmt::format("\\{:03o}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out;
}

std::string line_of(const MountEntry& e) {
  return fmt::format("{} {} {}:{} {} {} {} shared:1 - {} {} {}\n", e.id, e.parent, e.major, e.minor,
                     escape(e.root), escape(e.mount_point), e.options, escape(e.type), escape(e.source),
                     e.fs_options);
}

bool same(const MountEntry& a, const MountEntry& b) {
  return a.id == b.id && a.parent == b.parent && a.major == b.major && a.minor == b.minor &&
         a.root == b.root && a.mount_point == b.mount_point && a.options == b.options && a.type == b.type &&
         a.source == b.source && a.fs_options == b.fs_options;
}

void check_path(std::string_view path) {
  const std::string clean = cli::lexical_path(path);
  require(clean.starts_with('/') && clean.find("//") == clean.npos, "absolute, and without empty names");
  require(clean == "/" || !clean.ends_with('/'), "without a slash at the end");
  require(cli::lexical_path(clean) == clean, "what is clean stays as it is");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  const std::vector<MountEntry> table = cli::parse_mountinfo(text);
  require(table.size() <= static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) + 1,
          "one entry for each line");
  std::string written;
  for (const MountEntry& entry : table) {
    require(entry.mount_point.size() + entry.source.size() + entry.root.size() + entry.type.size() < size,
            "no field is longer than its line");
    require(!entry.mount_point.empty(), "every mount is somewhere");
    (void)entry.owner();
    (void)entry.read_only();
    written += line_of(entry);
    check_path("/" + entry.mount_point);
    const MountEntry* const found = cli::mount_at(table, entry.mount_point);
    require(found != nullptr && found->mount_point == entry.mount_point, "a mount is found where it is");
  }
  const std::vector<MountEntry> again = cli::parse_mountinfo(written);
  require(std::equal(table.begin(), table.end(), again.begin(), again.end(), same), "read as it was written");
  return 0;
}
