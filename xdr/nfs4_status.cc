// SPDX-License-Identifier: Apache-2.0
#include "xdr/nfs4_status.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>

namespace nfsrdma::nfs4 {

namespace {

using enum Recovery;
using enum Severity;

constexpr StatusInfo kStatuses[] = {
    {NFS4_OK, 0, "NFS4_OK", "15.1.3.1", "no error", kPermanent, kDebug},
#define NFS4_STATUS(name, number, recovery, errnum, severity, section, meaning) \
  {NFS4ERR_##name, errnum, "NFS4ERR_" #name, section, meaning, recovery, severity},
#include "xdr/nfs4_status.def"
#undef NFS4_STATUS
};

static_assert(std::ranges::is_sorted(kStatuses, std::ranges::less{}, &StatusInfo::status),
              "nfs4_status.def is searched by number");

}  // namespace

const StatusInfo* status_info(nfsstat4 status) {
  const auto* found = std::ranges::lower_bound(kStatuses, status, {}, &StatusInfo::status);
  return found != std::end(kStatuses) && found->status == status ? found : nullptr;
}

std::string name_of(nfsstat4 status) {
  if (const StatusInfo* info = status_info(status)) return std::string(info->name);
  return "NFS4ERR_" + std::to_string(static_cast<uint32_t>(status));
}

Recovery recovery_of(nfsstat4 status) {
  const StatusInfo* info = status_info(status);
  return info != nullptr ? info->recovery : kPermanent;
}

int errno_of(nfsstat4 status) {
  const StatusInfo* info = status_info(status);
  return info != nullptr ? info->errnum : EIO;
}

Severity severity_of(nfsstat4 status) {
  const StatusInfo* info = status_info(status);
  return info != nullptr ? info->severity : kWarning;
}

Error nfs_error(nfsstat4 status, const char* op, std::string cause, SourceLocation where) {
  return {.layer = Layer::kNfs,
          .recovery = recovery_of(status),
          .errnum = errno_of(status),
          .status = status,
          .op = op,
          .cause = std::move(cause),
          .where = where};
}

}  // namespace nfsrdma::nfs4
