// SPDX-License-Identifier: Apache-2.0
#include "cli/mount/ladder.h"

#include <fmt/core.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "cli/server/translate.h"
#include "transport/tls/failure.h"
#include "xdr/nfs4_status.h"

namespace nfsrdma::cli {
namespace {

// The RPC error PROG_MISMATCH, or NFS4ERR_MINOR_VERS_MISMATCH.
bool lacks_version4(const Error& e) {
  return e.errnum == EPROTONOSUPPORT && e.layer != Layer::kTransport;
}

// No connection was established, or it was lost before the session existed. A failure to resolve the server's
// name is excluded: TCP would fail in the same way.
bool lacks_rdma(const Error& e) {
  return e.layer == Layer::kTransport && e.recovery != Recovery::kInterrupted &&
         std::strcmp(e.op, "resolve") != 0;
}

}  // namespace

// If the user names a device, RDMA uses only that device. Otherwise software RDMA is the fallback if no
// device leads to the server.
std::vector<Ladder::Rung> Ladder::rungs_of(const MountOptions& asked, bool device) {
  if (asked.major_version == 3) return {Rung::kVersion3};
  std::vector<Rung> rungs;
  if (asked.may_use_rdma_device(device)) rungs.push_back(Rung::kRdmaDevice);
  if (asked.may_use_software_rdma()) rungs.push_back(Rung::kSoftwareRdma);
  if (asked.transport == Transport::kRdma) return rungs;
  rungs.push_back(Rung::kTcp);
  // NFSv3 is spoken with sec=sys and without TLS only.
  if (asked.any_version && asked.may_use_sys() && !asked.must_use_tls()) rungs.push_back(Rung::kVersion3);
  return rungs;
}

std::string_view Ladder::name_of(Rung rung) {
  switch (rung) {
    case Rung::kRdmaDevice: return "an RDMA device";
    case Rung::kSoftwareRdma: return "software RDMA";
    case Rung::kTcp: return "TCP";
    case Rung::kVersion3: break;
  }
  return "NFS version 3";
}

Ladder::Ladder(const MountOptions& asked, std::string no_device)
    : asked_(asked), rungs_(rungs_of(asked, no_device.empty())), no_device_(std::move(no_device)) {
  if (!asked.security.empty()) flavor_ = asked.security.front();
  stand_on(0);
}

void Ladder::stand_on(size_t at) {
  at_ = at;
  options_ = asked_;
  options_.transport = over_rdma() ? Transport::kRdma : Transport::kTcp;
  if (rung() == Rung::kVersion3) flavor_ = client::SecurityFlavor::kSys;
  options_.security = {flavor_};
  if (asked_.xprtsec == TransportSecurity::kAuto) {
    const bool may = rung() == Rung::kTcp && !no_tls_;
    const auto wanted = asked_.tls_cert.empty() ? TransportSecurity::kTls : TransportSecurity::kMtls;
    options_.xprtsec = may ? wanted : TransportSecurity::kNone;
  }
  if (rung() == Rung::kVersion3 && asked_.major_version != 3) options_ = stepped_down(options_);
}

client::ClientOptions Ladder::client_options(const Source& source, bool root) const {
  client::ClientOptions options = make_client_options(options_, source, root);
  if (rung() == Rung::kRdmaDevice) options.transport = client::TransportKind::kRdmaDevice;
  if (rung() == Rung::kSoftwareRdma) options.fabric_reason = why_no_device();
  options.rdma_memory = rdma_memory_;
  options.flavor = flavor_;
  options.offered_flavors = offered_;
  if (rungs_.size() > 1) options.rdma_first_connect_timeout = kRdmaPatience;
  return options;
}

// RFC 8881 section 2.6.3.1.1: after NFS4ERR_WRONGSEC the client uses a flavor that SECINFO has returned.
// Once: a server that refuses what it offers would be asked for ever.
bool Ladder::change_flavor(const Error& why) {
  if (!why.is_status(nfs4::NFS4ERR_WRONGSEC) || refused_flavor_) return false;
  const auto chosen = client::choose_flavor(asked_.security, offered_->take());
  if (!chosen || *chosen == flavor_) return false;
  refused_flavor_ = std::exchange(flavor_, *chosen);
  news_ = fmt::format("the server does not accept sec={}; trying sec={}", client::to_string(*refused_flavor_),
                      client::to_string(flavor_));
  stand_on(at_);
  return true;
}

// RFC 9289 section 4.1: where the server offers no TLS, "RPC operation may continue, depending on local
// policy". A certificate that is not accepted is no reason.
bool Ladder::leave_tls(const Error& why) {
  const bool refused = why.layer == Layer::kSecurity && why.status == tls::kNoTlsOffered;
  if (!refused || asked_.xprtsec != TransportSecurity::kAuto || no_tls_) return false;
  no_tls_ = true;
  news_ = describe(why) + "; going on without it";
  stand_on(at_);
  return true;
}

bool Ladder::step_down(const Error& why) {
  if (change_flavor(why) || leave_tls(why)) return true;
  size_t next = at_ + 1;
  // Skip software RDMA: it leads to the same server, which has no NFSv4.1.
  if (lacks_version4(why) && next < rungs_.size() && rungs_[next] == Rung::kSoftwareRdma) ++next;
  if (next >= rungs_.size()) return false;
  if (!lacks_version4(why) && !(over_rdma() && lacks_rdma(why))) return false;
  if (rungs_[next] == Rung::kSoftwareRdma) {
    device_failed_ = why;
  } else {
    (over_rdma() ? no_rdma_ : no_version4_) = why;
  }
  stand_on(next);
  return true;
}

std::string Ladder::why_no_device() const {
  if (device_failed_) return describe(*device_failed_);
  return asked_.may_use_software_rdma() && asked_.rdma_device.empty() ? no_device_ : std::string();
}

std::string Ladder::why_here() const {
  switch (rung()) {
    case Rung::kRdmaDevice: break;
    case Rung::kSoftwareRdma: return why_no_device();
    case Rung::kTcp: return no_rdma_ ? describe(*no_rdma_) : std::string();
    case Rung::kVersion3: return no_version4_ ? describe(*no_version4_) : std::string();
  }
  return {};
}

std::string Ladder::announcement() {
  if (!news_.empty()) return std::exchange(news_, {});
  const std::string why = why_here();
  if (why.empty()) return {};
  std::string text = fmt::format("{}; trying {}", why, name_of(rung()));
  return said_.insert(text).second ? text : std::string();
}

void Ladder::begin_again() {
  if (rung() != Rung::kVersion3) stand_on(0);
}

Error Ladder::verdict(Error last) const {
  if (refused_flavor_ && last.layer == Layer::kSecurity)
    last.cause = fmt::format("the server wants sec={}: {}", client::to_string(flavor_), last.cause);
  if (rung() != Rung::kVersion3 || !no_version4_) return last;
  Error first = *no_version4_;
  first.cause =
      fmt::format("{}{}with NFS version 3: {}", first.cause, first.cause.empty() ? "" : "; ", describe(last));
  // A retry uses version 3, so its recovery class holds.
  first.recovery = last.recovery;
  return first;
}

std::string Ladder::warning() const {
  if (rung() != Rung::kVersion3) return {};
  std::string text = "with NFS version 3 locks exclude programs of this machine only";
  if (!no_version4_) return text;
  return fmt::format("the server has no NFS version 4.1 ({}); {}", describe(*no_version4_), text);
}

std::string Ladder::notice() const {
  std::string text = warning();
  if (over_rdma() || !no_rdma_) return text;
  std::string device = why_no_device();
  if (!device.empty()) device += "; software RDMA: ";
  return fmt::format("no RDMA ({}{}){}{}", device, describe(*no_rdma_), text.empty() ? "" : "; ", text);
}

}  // namespace nfsrdma::cli
