// SPDX-License-Identifier: Apache-2.0
// FuseOptions: the options of the kernel side of a mount. main fills it from the command line; immutable
// afterwards. It contains no FUSE type, so that cli/ needs no FUSE header.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "fuse/mount_namespace.h"

namespace nfsrdma::fuse {

// The kernel's subtype of the mount. It must not contain "nfs": Debian's mountstats(8) takes such a mount for
// a kernel NFS mount and then fails for every NFS mount of the machine.
inline constexpr char kSubtype[] = "rpcrdma";

struct FuseOptions {
  std::string source;       // shown as the mounted device, "filer:/export"
  std::string mount_point;  // absolute
  std::shared_ptr<const MountNamespace> where = MountNamespace::ours();

  bool read_only = false;
  bool allow_other = false;
  bool allow_root = false;           // the mounting user and root; not together with allow_other
  bool default_permissions = false;  // off: the server decides, through ACCESS
  bool dev = false;
  bool suid = false;
  bool exec = true;
  bool sync = false;
  bool dirsync = false;

  // local_lock=: the kernel keeps these locks for this mount alone.
  bool local_posix_locks = false;
  bool local_flock = false;

  bool readdirplus = true;
  // read(2) from cached pages asks for attributes first unless they are still valid. For mounts whose
  // attributes have no lifetime.
  bool attributes_before_reads = false;
  // Bytes of one WRITE, and the number of background requests. Both are smaller where there is little memory.
  uint32_t max_write = 1u << 20;
  unsigned max_background = 256;
  uint32_t max_read = 0;                  // bytes of one READ; 0: as much as the kernel sends (1 MiB)
  std::optional<uint32_t> read_ahead_kb;  // as root only; absent: the kernel's 128 KiB
  uint32_t block_size = 1u << 20;         // st_blksize: what cp(1) reads and writes at once

  // AUTH_SYS: the machine name, and whether requests carry the calling process's identity. Otherwise they
  // carry that of the mounting user, the only one whom the kernel then admits.
  std::string machine_name;
  bool caller_credentials = false;

  // While Filesystem::soft_timed_out(), requests older than this are answered with soft_errno(). Zero: hard
  // mount.
  std::chrono::milliseconds soft_limit{0};
};

}  // namespace nfsrdma::fuse
