// SPDX-License-Identifier: Apache-2.0
// Ladder: by which transport and which version of NFS a mount is tried, and why not by a better one
// (DESIGN.md section 4).
//
//     RDMA device      NFSv4.1, port 20049; not where this machine has none
//     software RDMA    likewise
//     TCP              NFSv4.1, port 2049
//     NFSv3            TCP, through libnfs
//
// Which rungs there are, proto=, rdma_dev=, port= and vers= say: with a transport given the mount never
// leaves it. A rung is left when it cannot be had: from RDMA when no connection comes about there (no device
// leads to the server, nobody listens), from any when the server answers that it has no NFSv4.1. Every other
// error is the mount's. What was left is said once in the log and, as long as the mount lives, by `status`.
//
// Owner: a mount daemon. Its control thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/mount_options.h"
#include "cli/source.h"
#include "client/options.h"
#include "xdr/support/error.h"

namespace nfsrdma::cli {

class Ladder {
 public:
  // Who has another rung does not wait long for RDMA: a lost first packet is sent again after one second.
  static constexpr std::chrono::milliseconds kRdmaPatience{2000};

  // `no_device`: why an RDMA device cannot be tried (fabric/verbs/verbs.h, missing()); empty: it can.
  explicit Ladder(const MountOptions& asked, std::string no_device = "this machine has no RDMA device");

  // What was asked for, with the present rung's transport and version.
  const MountOptions& options() const { return options_; }
  // The same for the client. RPC-over-RDMA's versions of the server are remembered from attempt to attempt.
  client::ClientOptions client_options(const Source& source, bool root) const;

  // An attempt has failed. True: the next rung is to be tried now.
  bool step_down(const Error& why);
  // What is to be logged before the next attempt: why a rung was left, or is not there; empty: there is none,
  // or it was said before.
  std::string announcement();
  // The attempts begin anew after a pause: a server that is starting may have more by then.
  void begin_again();
  // The failure of the present rung, with that of NFSv4.1 if that was left: it is still what is wrong.
  Error verdict(Error last) const;

  // What this mount does not promise, to be warned of; or empty.
  std::string warning() const;
  // What was left and why, and the warning; or empty.
  std::string notice() const;

 private:
  enum class Rung : uint8_t { kRdmaDevice, kSoftwareRdma, kTcp, kVersion3 };

  static std::vector<Rung> rungs_of(const MountOptions& asked, bool device);
  static std::string_view name_of(Rung rung);
  Rung rung() const { return rungs_[at_]; }
  bool over_rdma() const { return rung() == Rung::kRdmaDevice || rung() == Rung::kSoftwareRdma; }
  void stand_on(size_t at);
  std::string why_no_device() const;  // in whose place software RDMA is; empty: that is what was asked for
  std::string why_here() const;

  const MountOptions asked_;
  const std::vector<Rung> rungs_;
  const std::shared_ptr<rdma::VersionMemory> rdma_memory_ = std::make_shared<rdma::VersionMemory>();
  size_t at_ = 0;
  MountOptions options_;
  const std::string no_device_;         // why none can be tried
  std::optional<Error> device_failed_;  // why it was left
  std::optional<Error> no_rdma_;        // why RDMA was left for TCP
  std::optional<Error> no_version4_;    // why NFSv4.1 was left
  std::set<std::string> said_;
};

}  // namespace nfsrdma::cli
