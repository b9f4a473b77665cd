#include "cli/ladder.h"

#include <fmt/core.h>

#include <cerrno>
#include <cstring>

#include "cli/translate.h"

namespace nfsrdma::cli {
namespace {

// PROG_MISMATCH, MINOR_VERS_MISMATCH.
bool lacks_version4(const Error& e) {
  return e.errnum == EPROTONOSUPPORT && e.layer != Layer::kTransport;
}

// No connection came about, or it was lost before the session was there. The server's name is the same for
// TCP.
bool lacks_rdma(const Error& e) {
  return e.layer == Layer::kTransport && e.recovery != Recovery::kInterrupted &&
         std::strcmp(e.op, "resolve") != 0;
}

}  // namespace

std::vector<Ladder::Rung> Ladder::rungs_of(const MountOptions& asked) {
  if (asked.major_version == 3) return {Rung::kVersion3};
  if (asked.transport == Transport::kRdma) return {Rung::kSoftwareRdma};
  std::vector<Rung> rungs;
  if (asked.may_use_rdma()) rungs.push_back(Rung::kSoftwareRdma);
  rungs.push_back(Rung::kTcp);
  if (asked.any_version) rungs.push_back(Rung::kVersion3);
  return rungs;
}

Ladder::Ladder(const MountOptions& asked) : asked_(asked), rungs_(rungs_of(asked)) {
  stand_on(0);
}

void Ladder::stand_on(size_t at) {
  at_ = at;
  options_ = asked_;
  options_.transport = rung() == Rung::kSoftwareRdma ? Transport::kRdma : Transport::kTcp;
  if (rung() == Rung::kVersion3 && asked_.major_version != 3) options_ = stepped_down(options_);
}

client::ClientOptions Ladder::client_options(const Source& source, bool root) const {
  client::ClientOptions options = make_client_options(options_, source, root);
  options.rdma_memory = rdma_memory_;
  if (rungs_.size() > 1) options.rdma_first_connect_timeout = kRdmaPatience;
  return options;
}

bool Ladder::step_down(const Error& why) {
  if (at_ + 1 == rungs_.size()) return false;
  const bool rdma = rung() == Rung::kSoftwareRdma;
  if (!lacks_version4(why) && !(rdma && lacks_rdma(why))) return false;
  (rdma ? no_rdma_ : no_version4_) = why;
  stand_on(at_ + 1);
  return true;
}

std::string Ladder::announcement() {
  const bool version3 = rung() == Rung::kVersion3;
  const std::optional<Error>& why = version3 ? no_version4_ : no_rdma_;
  if (!why) return {};
  std::string text = fmt::format("{}; trying {}", describe(*why), version3 ? "NFS version 3" : "TCP");
  return said_.insert(text).second ? text : std::string();
}

void Ladder::begin_again() {
  if (rung() != Rung::kVersion3) stand_on(0);
}

Error Ladder::verdict(Error last) const {
  if (rung() != Rung::kVersion3 || !no_version4_) return last;
  Error first = *no_version4_;
  first.cause =
      fmt::format("{}{}with NFS version 3: {}", first.cause, first.cause.empty() ? "" : "; ", describe(last));
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
  if (rung() == Rung::kSoftwareRdma || !no_rdma_) return text;
  return fmt::format("no RDMA ({}){}{}", describe(*no_rdma_), text.empty() ? "" : "; ", text);
}

}  // namespace nfsrdma::cli
