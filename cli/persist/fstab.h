// SPDX-License-Identifier: Apache-2.0
// Edits the text of fstab(5): adds, replaces or removes one line and keeps every other byte.
//
// Pure functions, except rewrite_file(). A line is ours if its type is nfsrdma-fuse.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "cli/support/outcome.h"

namespace nfsrdma::cli {

// Escapes the characters that getmntent(3) expects escaped: blanks, newlines, backslashes, and '#', which
// begins a comment. unescape_octal() (cli/support/mountinfo.h) reverses it.
std::string escape_fstab(std::string_view field);

// "SOURCE DIR nfsrdma-fuse OPTIONS 0 0", without a newline. `options` is a list as for -o. Adds _netdev
// (systemd does not know this type as a network file system) and nofail (booting continues without the
// server) if they are missing.
std::string fstab_line(std::string_view source, std::string_view directory, std::string_view options);

// Puts `line` into the text: in place of our line for `directory`, or at the end if there is none. Fails if a
// line of another type has the directory.
Outcome<std::string> with_fstab_line(std::string_view text, std::string_view directory,
                                     std::string_view line);
// Removes our lines for `directory`; returns `text` unchanged if there are none. Reverses with_fstab_line()
// byte for byte.
std::string without_fstab_lines(std::string_view text, std::string_view directory);

// Replaces the text of a file atomically: readers see the old or the new text. Mode and owner stay. A
// symbolic link is followed. A missing file counts as empty and is created with mode 0644. If another process
// changes the file meanwhile, it is left alone. `edit` may refuse. An unchanged text is not written.
Outcome<> rewrite_file(const std::string& path,
                       const std::function<Outcome<std::string>(const std::string&)>& edit);

}  // namespace nfsrdma::cli
