// SPDX-License-Identifier: Apache-2.0
// Subject: a directory that is measured, and what can be known of whoever serves it: for a mount of ours the
// daemon's CPU and calls (control socket), for a mount of the kernel's NFS client its calls
// (/proc/self/mountstats), else nothing.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cli/bench/document.h"
#include "cli/mountinfo.h"
#include "cli/outcome.h"

namespace nfsrdma::cli::bench {

// What has been used since the mount; differences are what a load has used.
struct Used {
  std::optional<double> cpu_seconds;  // of the daemon
  std::optional<uint64_t> calls;      // to the server, without those that only keep the lease
};

class Subject {
 public:
  // Fails with ToolExit::kFailed when `directory` is none.
  static Outcome<Subject> find(const std::string& directory);

  const std::string& directory() const { return directory_; }
  const Contender& contender() const { return contender_; }  // named by the directory as it was given
  Used used() const;
  // Of a mount of ours: its daemon's version, and the server's own name; empty where it gives none.
  const std::string& daemon_version() const { return daemon_version_; }
  const std::string& server() const { return server_; }

 private:
  enum class Kind { kOurs, kKernel, kOther };

  Subject(std::string directory, std::optional<MountEntry> entry);

  std::string directory_;
  std::optional<MountEntry> entry_;
  Kind kind_ = Kind::kOther;
  pid_t daemon_ = 0;
  Contender contender_;
  std::string daemon_version_, server_;
};

// The calls of one mount in the text of /proc/self/mountstats: the first column of its operations, added up.
// None when it is not there.
std::optional<uint64_t> calls_in_mountstats(std::string_view text, std::string_view mount_point);

}  // namespace nfsrdma::cli::bench
