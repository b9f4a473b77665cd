// SPDX-License-Identifier: Apache-2.0
// The argument vectors of mount(8)'s and umount(8)'s helpers.
//
//     mount.nfsrdma-fuse SOURCE DIR [-rwvVhfns] [-N ns] [-t type] [-o opts]
//     umount.fuse.rpcrdma DIR [-fnlrv] [-N ns] [-t type.subtype]
//
// Same letters, other meanings than FUSE's: -f is fake, -s is sloppy, -n is "no mtab", which today is
// libmount's table (cli/mount_table.h). Parsed by hand: options may come before, between and after the two
// names, and may be joined
// (-rv, -oro). Pure functions; failures are MountExit::kUsage.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/option_split.h"
#include "cli/outcome.h"

namespace nfsrdma::cli {

// What both `mount.nfsrdma-fuse` and `nfsrdma-fuse mount` ask for.
struct MountRequest {
  std::string source;
  std::string directory;
  std::vector<RawOption> options;  // in the order given; -r and -w are among them as ro and rw
  bool fake = false;               // everything but the mount
  bool sloppy = false;
  bool no_mount_table = false;  // -n
  // What the administrator wrote for mount(8), as far as it is known; for libmount's table.
  std::vector<RawOption> written;
  bool verbose = false;
  bool foreground = false;
  bool debug = false;           // foreground, and log_level=debug
  std::string mount_namespace;  // -N; empty: this one
  bool persist = false;         // written down for the next boot or login once it is mounted
  std::string bookmark;         // its name in file managers' side bars; empty: none
  bool help = false;
  bool version = false;
};

struct UmountRequest {
  std::string directory;
  bool force = false;
  bool lazy = false;
  bool read_only = false;  // -r: if it is busy, remount read-only
  bool verbose = false;
  std::string mount_namespace;
  bool help = false;
  bool version = false;
};

// `arguments` without argv[0].
Outcome<MountRequest> parse_mount_arguments(const std::vector<std::string>& arguments);
Outcome<UmountRequest> parse_umount_arguments(const std::vector<std::string>& arguments);

// What mount(8), whose helper this is, was told: the lists of -o of its command line. Nothing where `parent`
// is another program.
std::vector<RawOption> options_of_mount(const std::vector<std::string>& parent);

// The file that it was told to read instead of fstab (-T); empty: none.
std::string fstab_of_mount(const std::vector<std::string>& parent);

// mount(8) has taken source, directory and options from fstab: its command line does not name both.
bool took_from_fstab(const std::vector<std::string>& parent, const MountRequest& request);

// dev and suid of them: libmount takes them for the default and does not hand them on (2.38: "-o dev,suid"
// arrives as "-o rw"), and here nodev and nosuid are. Only what holds in the end.
std::vector<RawOption> words_kept_by_mount(const std::vector<RawOption>& written);

std::string mount_helper_usage(std::string_view program);
std::string umount_helper_usage(std::string_view program);

// Which program argv[0] asks for; only its last component matters.
enum class Personality : uint8_t { kTool, kMountHelper, kUmountHelper };
Personality personality_of(std::string_view argv0);
std::string program_name(std::string_view argv0);

// A defect of this program, e.g. an exception that nobody caught, with the status of the family that the
// program belongs to: mount(8)'s 4 for the helpers and the verb `mount`; the other tools' 4 means something
// else.
Failure defect(const std::vector<std::string>& argv, std::string_view what);

}  // namespace nfsrdma::cli
