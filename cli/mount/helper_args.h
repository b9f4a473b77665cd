// SPDX-License-Identifier: Apache-2.0
// Parses the command lines of the helpers of mount(8) and umount(8).
//
//     mount.nfsrdma-fuse SOURCE DIR [-rwvVhfns] [-N ns] [-t type] [-o opts]
//     umount.fuse.rpcrdma DIR [-fnlrv] [-N ns] [-t type.subtype]
//
// The letters are the same as FUSE's but have other meanings: -f is fake, -s is sloppy, -n is "no mtab",
// today libmount's table (cli/mount/mount_table.h). The parser is hand-written because options may stand
// before, between and after the two names, and may be joined (-rv, -oro). Pure functions; failures are
// MountExit::kUsage.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options/option_split.h"
#include "cli/support/outcome.h"

namespace nfsrdma::cli {

// The request of both `mount.nfsrdma-fuse` and `nfsrdma-fuse mount`.
struct MountRequest {
  std::string source;
  std::string directory;
  std::vector<RawOption> options;  // in the order given; -r and -w are among them as ro and rw
  bool fake = false;               // do everything except the mount
  bool sloppy = false;
  bool no_mount_table = false;  // -n
  // The options that the administrator gave to mount(8), as far as known; for libmount's table.
  std::vector<RawOption> written;
  bool verbose = false;
  bool foreground = false;
  bool debug = false;           // foreground, and log_level=debug
  std::string mount_namespace;  // -N; empty: the namespace of this process
  bool persist = false;         // after mounting, record the mount for the next boot or login
  std::string bookmark;         // its name in the side bars of file managers; empty: none
  bool help = false;
  bool version = false;
};

struct UmountRequest {
  std::string directory;
  bool force = false;
  bool lazy = false;
  bool read_only = false;  // -r: if the mount is busy, remount it read-only
  bool verbose = false;
  std::string mount_namespace;
  bool help = false;
  bool version = false;
};

// `arguments` without argv[0].
Outcome<MountRequest> parse_mount_arguments(const std::vector<std::string>& arguments);
Outcome<UmountRequest> parse_umount_arguments(const std::vector<std::string>& arguments);

// The -o lists on the command line of mount(8), which started this helper. Empty if `parent` is another
// program.
std::vector<RawOption> options_of_mount(const std::vector<std::string>& parent);

// The file that mount(8) reads in place of fstab (-T); empty: none.
std::string fstab_of_mount(const std::vector<std::string>& parent);

// True if mount(8) took source, directory or options from fstab: its command line does not name both source
// and directory.
bool took_from_fstab(const std::vector<std::string>& parent, const MountRequest& request);

// Returns dev and suid if they are in effect at the end of `written`. libmount drops them as defaults and
// does not pass them on (2.38: "-o dev,suid" arrives as "-o rw"), but the defaults here are nodev and nosuid.
std::vector<RawOption> words_kept_by_mount(const std::vector<RawOption>& written);

std::string mount_helper_usage(std::string_view program);
std::string umount_helper_usage(std::string_view program);

// The program that argv[0] selects; only the last path component counts.
enum class Personality : uint8_t { kTool, kMountHelper, kUmountHelper };
Personality personality_of(std::string_view argv0);
std::string program_name(std::string_view argv0);

// The failure for a defect of this program, e.g. an uncaught exception. Its exit status depends on the
// program: MountExit::kInternal (4) for the helpers and the verb `mount`, as in mount(8); ToolExit::kFailed
// for other verbs, where 4 has another meaning.
Failure defect(const std::vector<std::string>& argv, std::string_view what);

}  // namespace nfsrdma::cli
