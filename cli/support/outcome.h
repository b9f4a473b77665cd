// SPDX-License-Identifier: Apache-2.0
// Outcome<T>: a value, or an exit status and one line that tells the user why.
//
// A command ends in a process exit, so its failures carry an exit status in place of the Error of the lower
// layers. There are two families of statuses: mount(8)'s bits for the helpers (mount.nfsrdma-fuse,
// umount.fuse.rpcrdma) and the `mount` verb, and the tools' own for every other verb of `nfsrdma-fuse`. The
// line has no program name, newline or full stop; report() adds the program's name.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace nfsrdma::cli {

// mount(8), EXIT STATUS. They are bits in mount(8); a helper only returns one of them.
enum class MountExit : int {
  kOk = 0,
  kUsage = 1,        // incorrect invocation or permissions
  kSystem = 2,       // out of memory, cannot fork, no /dev/fuse, no fusermount3
  kInternal = 4,     // a defect of this program
  kInterrupted = 8,  // the user interrupted it
  kMtab = 16,        // never returned: there is no mtab to write
  kFailed = 32,      // the mount or unmount failed
};

// The verbs other than `mount`.
enum class ToolExit : int {
  kOk = 0,
  kFailed = 1,
  kUsage = 2,
  kNotOurs = 3,   // DIR is not a mount of this program
  kWarnings = 4,  // done, but the user should look at something
};

struct Failure {
  int exit_code = 1;
  std::string text;

  Failure(MountExit code, std::string line) : exit_code(static_cast<int>(code)), text(std::move(line)) {}
  Failure(ToolExit code, std::string line) : exit_code(static_cast<int>(code)), text(std::move(line)) {}
  Failure(int code, std::string line) : exit_code(code), text(std::move(line)) {}
};

template <class T = void>
using Outcome = tl::expected<T, Failure>;

template <class Code>
tl::unexpected<Failure> refuse(Code code, std::string line) {
  return tl::unexpected<Failure>(Failure(code, std::move(line)));
}

// For helpers and the `mount` verb.
inline tl::unexpected<Failure> bad_usage(std::string line) {
  return refuse(MountExit::kUsage, std::move(line));
}

// Writes "PROGRAM: LINE\n" to standard error and returns the exit status. Control characters in the line are
// escaped: option values, server names and mount points come from outside and must not control the terminal.
int report(std::string_view program, const Failure& failure);

// Escapes control characters (also C1 and those that change the text direction) as \xNN or \uNNNN, and bytes
// that are not UTF-8 as \xNN. Other text is unchanged.
std::string printable(std::string_view text);
// The same for a text of several lines: newlines and tabs stay.
std::string printable_text(std::string_view text);

}  // namespace nfsrdma::cli
