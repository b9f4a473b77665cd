// SPDX-License-Identifier: Apache-2.0
// Subject: a directory that is measured, and the statistics of the process that serves it. For a mount of
// ours: the daemon's CPU time and calls (control socket). For a mount of the kernel's NFS client: its calls
// (/proc/self/mountstats). Otherwise none.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cli/bench/document.h"
#include "cli/support/mountinfo.h"
#include "cli/support/outcome.h"

namespace nfsrdma::cli::bench {

// Totals since the mount; the difference of two is the cost of a load.
struct Used {
  std::optional<double> cpu_seconds;  // of the daemon
  std::optional<uint64_t> calls;      // calls to the server, without those that only renew the lease
};

class Subject {
 public:
  // Fails with ToolExit::kFailed if `directory` is not a directory.
  static Outcome<Subject> find(const std::string& directory);

  const std::string& directory() const { return directory_; }
  const Contender& contender() const { return contender_; }  // named as the user gave the directory
  Used used() const;
  // For a mount of ours: the version of its daemon, and the server's implementation name; empty if unknown.
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

// The number of one mount's calls in the text of /proc/self/mountstats: the sum of the first column of its
// operations, without SEQUENCE (lease renewals). None if the mount is not in the text.
std::optional<uint64_t> calls_in_mountstats(std::string_view text, std::string_view mount_point);

}  // namespace nfsrdma::cli::bench
