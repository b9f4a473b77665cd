// SPDX-License-Identifier: Apache-2.0
// nfsstat4: the status that every NFSv4.1 operation returns (RFC 8881 section 15.1), and how to handle it.
//
// The enum and the functions are generated from one table, nfs4_status.def. A status that is not in the table
// keeps its number and is treated as final (Recovery::kPermanent, EIO), because servers may return codes of
// later minor versions. Pure functions on constant tables; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "xdr/support/error.h"
#include "xdr/support/source_location.h"

namespace nfsrdma::nfs4 {

enum nfsstat4 : uint32_t {
  NFS4_OK = 0,
#define NFS4_STATUS(name, number, recovery, errnum, severity, section, meaning) NFS4ERR_##name = (number),
#include "xdr/nfs4_status.def"
#undef NFS4_STATUS
};

// Log level of the line that is logged when a status reaches an application.
enum class Severity : uint8_t { kDebug, kInfo, kWarning, kError };

struct StatusInfo {
  nfsstat4 status = NFS4_OK;
  int errnum = 0;
  std::string_view name;     // "NFS4ERR_NOENT"
  std::string_view section;  // where the RFC defines it
  std::string_view meaning;  // one clause for a message to the user
  Recovery recovery = Recovery::kPermanent;
  Severity severity = Severity::kDebug;
};

// The table's entry for `status`, or nullptr.
const StatusInfo* status_info(nfsstat4 status);

// "NFS4ERR_NOENT", "NFS4_OK"; a status that is not in the table is named "NFS4ERR_10999".
std::string name_of(nfsstat4 status);
Recovery recovery_of(nfsstat4 status);  // kPermanent for NFS4_OK
int errno_of(nfsstat4 status);          // 0 for NFS4_OK
Severity severity_of(nfsstat4 status);  // kWarning for a status that is not in the table

// The Error of an operation that returned `status` (not NFS4_OK). `op` is a static string such as "OPEN".
Error nfs_error(nfsstat4 status, const char* op, std::string cause = {},
                SourceLocation where = SourceLocation::current());

}  // namespace nfsrdma::nfs4
