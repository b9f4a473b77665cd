// SPDX-License-Identifier: Apache-2.0
// What `top` shows: snapshots of mounts to lines of text. Pure; the terminal is top_terminal.h's.
//
// A screen is a list of mounts, and the details of the selected one: where its READ data went, credits, slots
// and caches, then its operations, or the processes that cause its load. No line is wider than the width that
// is asked for, in terminal columns: columns of tables are left out from the least important on, and what
// remains too long is cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/process_load.h"
#include "cli/snapshot.h"

namespace nfsrdma::cli::top {

// One mount in one interval.
struct MountView {
  std::string source;
  std::string mount_point;
  bool known = false;  // `shown` holds something
  Snapshot shown;      // of the interval: the difference of two snapshots, or since the mount
  double seconds = 1;  // the interval
  bool since_mount = false;
  std::string problem;  // why there is nothing newer: "no answer for 7 s"; empty: all is well
  std::vector<ProcessLoad> processes;
};

struct Choice {
  size_t selected = 0;  // of the mounts
  bool by_process = false;
  bool help = false;
};

enum class Style : uint8_t { kPlain, kTitle, kHead, kSelected, kAlarm };

struct Line {
  std::string text;
  Style style = Style::kPlain;
};

// A screen of at most `height` lines. `clock`: the time of day, as text; `interval`: seconds.
std::vector<Line> screen(const std::vector<MountView>& mounts, const Choice& choice, std::string_view clock,
                         double interval, size_t width, size_t height);

// --batch: all mounts with their details, as long as it takes.
std::string batch_text(const std::vector<MountView>& mounts, std::string_view clock, bool by_process);

// Terminal columns of UTF-8 text, and its longest beginning that fits `columns`.
size_t columns_of(std::string_view text);
std::string cut(std::string_view text, size_t columns);
// Non-ASCII characters as '?', for terminals without UTF-8.
std::string to_ascii(std::string_view text);

}  // namespace nfsrdma::cli::top
