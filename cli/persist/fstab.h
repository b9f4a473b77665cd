// SPDX-License-Identifier: Apache-2.0
// fstab(5) as a text in which one line is added, exchanged or taken away and every other byte stays.
//
// Pure functions, but for rewrite_file(). A line is ours when its type is nfsrdma-fuse.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "cli/outcome.h"

namespace nfsrdma::cli {

// What getmntent(3) wants escaped: blanks, newlines and backslashes, and '#', which begins a comment.
// unescape_octal() (cli/mountinfo.h) undoes it.
std::string escape_fstab(std::string_view field);

// "SOURCE DIR nfsrdma-fuse OPTIONS 0 0", without a newline. `options` is a list as -o takes it; _netdev
// (systemd does not know the type as a network's) and nofail (a boot goes on without the server) are added
// where they are not there.
std::string fstab_line(std::string_view source, std::string_view directory, std::string_view options);

// With `line` for `directory`: exchanged where there is one of ours, else at the end. Fails where another
// type's line has the directory.
Outcome<std::string> with_fstab_line(std::string_view text, std::string_view directory,
                                     std::string_view line);
// Without our lines for `directory`; the text itself where there are none. Undoes with_fstab_line() byte for
// byte.
std::string without_fstab_lines(std::string_view text, std::string_view directory);

// Exchanges a file's text at once: whoever reads it sees the old or the new one, and mode and owner stay. A
// symbolic link is followed. A file that is not there is empty, and is made with mode 0644. One that somebody
// else changes meanwhile is left alone. `edit` may refuse; the same text is not written.
Outcome<> rewrite_file(const std::string& path,
                       const std::function<Outcome<std::string>(const std::string&)>& edit);

}  // namespace nfsrdma::cli
