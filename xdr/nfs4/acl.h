// SPDX-License-Identifier: Apache-2.0
// Access control lists of NFSv4.1 (RFC 8881 section 6.2): the entry, the list, and their constants.
//
//     nfsace4 = type u32, flag u32, access_mask u32, who utf8str_mixed     (at least 16 bytes)
//
// Values and meanings are not checked here; unknown types and flags are kept.
#pragma once

#include <cstdint>

#include "xdr/nfs4/basic.h"

namespace nfsrdma::nfs4 {

enum acl_support : uint32_t {
  ACL4_SUPPORT_ALLOW_ACL = 0x1,
  ACL4_SUPPORT_DENY_ACL = 0x2,
  ACL4_SUPPORT_AUDIT_ACL = 0x4,
  ACL4_SUPPORT_ALARM_ACL = 0x8,
};

enum ace_type : uint32_t {
  ACE4_ACCESS_ALLOWED_ACE_TYPE = 0,
  ACE4_ACCESS_DENIED_ACE_TYPE = 1,
  ACE4_SYSTEM_AUDIT_ACE_TYPE = 2,
  ACE4_SYSTEM_ALARM_ACE_TYPE = 3,
};

enum ace_flag : uint32_t {
  ACE4_FILE_INHERIT_ACE = 0x01,
  ACE4_DIRECTORY_INHERIT_ACE = 0x02,
  ACE4_NO_PROPAGATE_INHERIT_ACE = 0x04,
  ACE4_INHERIT_ONLY_ACE = 0x08,
  ACE4_SUCCESSFUL_ACCESS_ACE_FLAG = 0x10,
  ACE4_FAILED_ACCESS_ACE_FLAG = 0x20,
  ACE4_IDENTIFIER_GROUP = 0x40,
  ACE4_INHERITED_ACE = 0x80,
};

enum ace_mask : uint32_t {
  ACE4_READ_DATA = 0x00000001,
  ACE4_LIST_DIRECTORY = 0x00000001,
  ACE4_WRITE_DATA = 0x00000002,
  ACE4_ADD_FILE = 0x00000002,
  ACE4_APPEND_DATA = 0x00000004,
  ACE4_ADD_SUBDIRECTORY = 0x00000004,
  ACE4_READ_NAMED_ATTRS = 0x00000008,
  ACE4_WRITE_NAMED_ATTRS = 0x00000010,
  ACE4_EXECUTE = 0x00000020,
  ACE4_DELETE_CHILD = 0x00000040,
  ACE4_READ_ATTRIBUTES = 0x00000080,
  ACE4_WRITE_ATTRIBUTES = 0x00000100,
  ACE4_WRITE_RETENTION = 0x00000200,
  ACE4_WRITE_RETENTION_HOLD = 0x00000400,
  ACE4_DELETE = 0x00010000,
  ACE4_READ_ACL = 0x00020000,
  ACE4_WRITE_ACL = 0x00040000,
  ACE4_WRITE_OWNER = 0x00080000,
  ACE4_SYNCHRONIZE = 0x00100000,
};

struct nfsace4 {
  uint32_t type = 0;         // ace_type
  uint32_t flag = 0;         // ace_flag
  uint32_t access_mask = 0;  // ace_mask
  std::string who{};

  bool operator==(const nfsace4&) const = default;
};

template <class X>
bool xdr(X& x, Ref<X, nfsace4> v) {
  return x(v.type) && x(v.flag) && x(v.access_mask) && xdr::bytes(x, v.who, kMaxPrincipal);
}

inline constexpr size_t kMinAceBytes = 16;

struct nfsacl41 {
  uint32_t na41_flag = 0;
  std::vector<nfsace4> na41_aces{};

  bool operator==(const nfsacl41&) const = default;
};

template <class X>
bool xdr(X& x, Ref<X, nfsacl41> v) {
  return x(v.na41_flag) && xdr::array(x, v.na41_aces, kMaxList, kMinAceBytes);
}

}  // namespace nfsrdma::nfs4
