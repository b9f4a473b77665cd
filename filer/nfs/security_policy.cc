// SPDX-License-Identifier: Apache-2.0
#include "filer/nfs/security_policy.h"

namespace nfsrdma::filer::nfs {

using namespace nfs4;

namespace {

// The mechanism krb5: the object identifier 1.2.840.113554.1.2.2 (RFC 4121 section 1) in DER, without tag
// and length. That is gss_OID_desc, "as used by GSS-API" (section 3.2), and what Linux and nfs-ganesha send.
constexpr unsigned char kKerberosOid[] = {0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02};

secinfo4 kerberos(rpc_gss_svc_t service) {
  const auto* oid = reinterpret_cast<const char*>(kKerberosOid);
  return {rpc::RPCSEC_GSS, {sec_oid4(oid, oid + sizeof(kKerberosOid)), 0, service}};
}

bool opens_by_name(xdr::Decoder& x) {
  OPEN4args args;
  if (!x(args)) return false;
  return args.claim.claim == CLAIM_NULL || args.claim.claim == CLAIM_DELEGATE_CUR ||
         args.claim.claim == CLAIM_DELEGATE_PREV;
}

}  // namespace

bool puts_filehandle(nfs_opnum4 op) {
  return op == OP_PUTFH || op == OP_PUTPUBFH || op == OP_PUTROOTFH || op == OP_RESTOREFH;
}

bool answers_for_policy(xdr::Decoder rest, uint32_t operations) {
  for (; operations > 0; --operations) {
    nfs_opnum4 op{};
    if (!rest(op)) return true;
    // "the server implementation pretends SAVEFH is not in the series of operations".
    if (op == OP_SAVEFH) continue;
    // "the server MUST NOT return NFS4ERR_WRONGSEC to the first N-1 put filehandle operations".
    if (puts_filehandle(op)) return false;
    // "MUST NOT return NFS4ERR_WRONGSEC in response to the put filehandle operation if the operation is
    // immediately followed by a LOOKUP or an OPEN by component name", LOOKUPP, SECINFO or SECINFO_NO_NAME.
    if (op == OP_LOOKUP || op == OP_LOOKUPP || op == OP_SECINFO || op == OP_SECINFO_NO_NAME) return false;
    // "'Anything Else' includes OPEN by filehandle": "MUST return NFS4ERR_WRONGSEC".
    return op != OP_OPEN || !opens_by_name(rest);
  }
  // "Put Filehandle Operation + Nothing: The NFSv4.1 server MUST NOT return NFS4ERR_WRONGSEC."
  return false;
}

std::vector<secinfo4> security_of(const tree::FileSystem& fs) {
  std::vector<secinfo4> list;
  for (const tree::Flavor flavor : fs.flavors) {
    switch (flavor) {
      case tree::Flavor::kSys:
        list.push_back({rpc::AUTH_SYS, {}});
        list.push_back({rpc::AUTH_NONE, {}});
        break;
      case tree::Flavor::kKrb5: list.push_back(kerberos(RPC_GSS_SVC_NONE)); break;
      case tree::Flavor::kKrb5i: list.push_back(kerberos(RPC_GSS_SVC_INTEGRITY)); break;
      case tree::Flavor::kKrb5p: list.push_back(kerberos(RPC_GSS_SVC_PRIVACY)); break;
    }
  }
  return list;
}

}  // namespace nfsrdma::filer::nfs
