// SPDX-License-Identifier: Apache-2.0
// Formats what `top` shows: snapshots of mounts as lines of text. Pure; terminal.h draws them.
//
// A screen has a list of mounts, and the details of the selected one: where its READ data went, credits,
// slots and caches, then its operations or the processes that cause its load. No line is wider than the
// requested width in terminal columns. Tables drop columns, the least important first; what is still too long
// is cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/stats/process_load.h"
#include "cli/stats/snapshot.h"

namespace nfsrdma::cli::top {

// One mount in one interval.
struct MountView {
  std::string source;
  std::string mount_point;
  bool known = false;  // `shown` is valid
  Snapshot shown;      // the difference of two snapshots, or totals since the mount
  double seconds = 1;  // length of the interval
  bool since_mount = false;
  std::string problem;  // why there is no newer snapshot: "no answer for 7 s"; empty: none
  std::vector<ProcessLoad> processes;
};

struct Choice {
  size_t selected = 0;  // index of the mount
  bool by_process = false;
  bool help = false;
};

enum class Style : uint8_t { kPlain, kTitle, kHead, kSelected, kAlarm };

struct Line {
  std::string text;
  Style style = Style::kPlain;
};

// A screen of at most `height` lines. `clock`: the time of day, as text. `interval`: in seconds.
std::vector<Line> screen(const std::vector<MountView>& mounts, const Choice& choice, std::string_view clock,
                         double interval, size_t width, size_t height);

// --batch: all mounts with their details, with no limit on the number of lines.
std::string batch_text(const std::vector<MountView>& mounts, std::string_view clock, bool by_process);

// The width of UTF-8 text in terminal columns, and the longest prefix that fits `columns`.
size_t columns_of(std::string_view text);
std::string cut(std::string_view text, size_t columns);
// Replaces non-ASCII characters by '?', for terminals without UTF-8.
std::string to_ascii(std::string_view text);

}  // namespace nfsrdma::cli::top
