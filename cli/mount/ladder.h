// SPDX-License-Identifier: Apache-2.0
// Ladder: the transports and NFS versions that a mount tries, in order, and why it left the better ones
// (docs/dev/overview.md).
//
//     RDMA device      NFSv4.1, port 20049; skipped if this machine has no device
//     software RDMA    NFSv4.1, port 20049
//     TCP              NFSv4.1, port 2049
//     NFSv3            TCP, through libnfs
//
// The options proto=, rdma_dev=, port= and vers= decide which rungs exist. If the user names a transport, the
// mount never leaves it. The ladder leaves a rung that is unavailable: an RDMA rung if no connection is
// established (no device leads to the server, or no server listens), any rung if the server answers that it
// has no NFSv4.1. Every other error fails the mount. The reason for leaving a rung is logged once, and
// `status` shows it while the mount lives.
//
// On each rung of NFSv4.1 the first flavor of sec= comes first, sys without sec=. If the server refuses it
// (NFS4ERR_WRONGSEC), one of those that it names follows (client/api/security_flavor.h).
//
// Owner: the mount daemon. Used only on its control thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/options/mount_options.h"
#include "cli/options/source.h"
#include "client/api/options.h"
#include "xdr/support/error.h"

namespace nfsrdma::cli {

class Ladder {
 public:
  // The connect timeout of RDMA if another rung exists. TCP sends a lost first packet again after one second.
  static constexpr std::chrono::milliseconds kRdmaPatience{2000};

  // `no_device`: why an RDMA device cannot be tried (fabric/verbs/verbs.h, missing()). Empty: it can be
  // tried.
  explicit Ladder(const MountOptions& asked, std::string no_device = "this machine has no RDMA device");

  // The requested options, with the transport and version of the current rung.
  const MountOptions& options() const { return options_; }
  // The same for the client. The RPC-over-RDMA versions that the server lacks are remembered across attempts.
  client::ClientOptions client_options(const Source& source, bool root) const;

  // Call after an attempt failed. Returns true if the caller must try the next rung now.
  bool step_down(const Error& why);
  // The line to log before the next attempt: why a rung was left or is unavailable, or another flavor is
  // used. Empty if there is nothing to say, or if it was said before.
  std::string announcement();
  // Starts from the first rung again after a pause: a server that is starting may offer more by then.
  void begin_again();
  // The failure of the current rung. If NFSv4.1 was left, its failure is included, because it is still the
  // cause.
  Error verdict(Error last) const;

  // A warning about what this mount does not guarantee; or empty.
  std::string warning() const;
  // The rungs that were left, with reasons, and the warning; or empty.
  std::string notice() const;

 private:
  enum class Rung : uint8_t { kRdmaDevice, kSoftwareRdma, kTcp, kVersion3 };

  static std::vector<Rung> rungs_of(const MountOptions& asked, bool device);
  static std::string_view name_of(Rung rung);
  Rung rung() const { return rungs_[at_]; }
  bool change_flavor(const Error& why);
  bool leave_tls(const Error& why);
  bool over_rdma() const { return rung() == Rung::kRdmaDevice || rung() == Rung::kSoftwareRdma; }
  void stand_on(size_t at);
  std::string why_no_device() const;  // why software RDMA replaces a device; empty: it was requested
  std::string why_here() const;

  const MountOptions asked_;
  const std::vector<Rung> rungs_;
  const std::shared_ptr<rdma::VersionMemory> rdma_memory_ = std::make_shared<rdma::VersionMemory>();
  const std::shared_ptr<client::OfferedFlavors> offered_ = std::make_shared<client::OfferedFlavors>();
  size_t at_ = 0;
  client::SecurityFlavor flavor_ = client::SecurityFlavor::kSys;
  std::optional<client::SecurityFlavor> refused_flavor_;  // why another flavor than the first is used
  bool no_tls_ = false;                                   // xprtsec=auto, and the server offers none
  std::string news_;                                      // of either, until announcement() has said it
  MountOptions options_;
  const std::string no_device_;         // why no device can be tried
  std::optional<Error> device_failed_;  // why the RDMA device was left
  std::optional<Error> no_rdma_;        // why RDMA was left for TCP
  std::optional<Error> no_version4_;    // why NFSv4.1 was left
  std::set<std::string> said_;
};

}  // namespace nfsrdma::cli
